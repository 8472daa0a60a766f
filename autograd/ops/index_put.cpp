// Several index tensors at once: index and index_put.
#include <algorithm>

#include "autograd/node.h"
#include "autograd/ops/common.h"
#include "autograd/ops/index.h"
#include "autograd/ops/index_common.h"
#include "autograd/ops/pointwise.h"
#include "autograd/ops/view.h"
#include "tensor/factory.h"

namespace weft {
namespace {

// Indexed dimensions taken as one: x permuted by `order` and reshaped is a table [joined, rest …], and the indices are
// positions of its rows.
struct JoinedIndices {
  Shape order;     // of x's dimensions: the indexed ones first
  Shape permuted;  // x's sizes in this order
  Shape table;
  Shape common;   // what the indices broadcast to
  Tensor rows;    // i64, one dimension: `common` flattened
  int first = 0;  // dimensions of the result in front of `common`
  Shape result() const {
    Shape shape = common;
    for (int d = 1; d < table.size(); ++d) shape.insert(d <= first ? d - 1 : shape.size(), table[d]);
    return shape;
  }
};

// A bool tensor stands for as many indices as it has dimensions.
std::vector<Tensor> positions_of(const char* op, const Tensor& x, const std::vector<Tensor>& indices) {
  std::vector<Tensor> positions;
  for (const Tensor& given : indices) {
    if (!given.defined() || given.dtype() != boolean) {
      positions.push_back(given);
      continue;
    }
    const int first = static_cast<int>(positions.size());
    for (int d = 0; d < given.dim(); ++d)
      WEFT_CHECK(first + d < x.dim() && given.size(d) == x.size(first + d), op,
                 "the mask {} does not fit dimensions {} on of {}", describe(given), first, describe(x));
    const Tensor where_true = nonzero(given);
    for (int d = 0; d < given.dim(); ++d) positions.push_back(select(where_true, 1, d));
  }
  WEFT_CHECK(static_cast<int>(positions.size()) <= x.dim(), op, "{} indices for {}", positions.size(), describe(x));
  return positions;
}

JoinedIndices joined(const char* op, const Tensor& x, const std::vector<Tensor>& indices) {
  const std::vector<Tensor> positions = positions_of(op, x, indices);
  JoinedIndices result;
  bool together = true;
  for (size_t i = 0; i < positions.size(); ++i) {
    if (!positions[i].defined()) continue;
    const int d = static_cast<int>(i);
    if (result.order.empty())
      result.first = d;
    else
      together = together && result.order[-1] == d - 1;
    result.common = broadcast_shapes(result.common, positions[i].shape(), op);
    result.order.push_back(d);
  }
  if (!together) result.first = 0;
  Tensor rows = zeros({}, {.dtype = i64, .device = x.device()});
  int64_t size = 1;
  for (int64_t d : result.order) {
    rows = rows * x.size(d) + detail::wrapped_index(op, x, positions[static_cast<size_t>(d)], x.size(d));
    size *= x.size(d);
    result.permuted.push_back(x.size(d));
  }
  result.rows = reshape(expand(rows, result.common), {-1});
  result.table.push_back(size);
  const Shape indexed = result.order;
  for (int d = 0; d < x.dim(); ++d) {
    if (std::find(indexed.begin(), indexed.end(), d) != indexed.end()) continue;
    result.order.push_back(d);
    result.permuted.push_back(x.size(d));
    result.table.push_back(x.size(d));
  }
  return result;
}

// Dimensions [0, n) and [n, n + m) of x change places.
Tensor swap_blocks(const Tensor& x, int n, int m) {
  if (n == 0 || m == 0) return x;
  Shape order;
  for (int d = n; d < n + m; ++d) order.push_back(d);
  for (int d = 0; d < n; ++d) order.push_back(d);
  for (int d = n + m; d < x.dim(); ++d) order.push_back(d);
  return permute(x, order);
}

}  // namespace

Tensor index(const Tensor& x, const std::vector<Tensor>& indices) {
  const auto given = [](const Tensor& t) { return t.defined(); };
  if (std::none_of(indices.begin(), indices.end(), given) && static_cast<int>(indices.size()) <= x.dim()) return x;
  const JoinedIndices at = joined("index", x, indices);
  const Tensor picked = index_select(reshape(permute(x, at.order), at.table), 0, at.rows);
  Shape shape = at.common;
  for (int d = 1; d < at.table.size(); ++d) shape.push_back(at.table[d]);
  return swap_blocks(reshape(picked, shape), at.common.size(), at.first);
}

Tensor index_put(const Tensor& x, const std::vector<Tensor>& indices, const Tensor& values, bool accumulate) {
  constexpr const char* op = "index_put";
  detail::check_same_kind(op, x, values);
  const JoinedIndices at = joined(op, x, indices);
  const Shape picked = at.result();
  WEFT_CHECK(broadcast_shapes(picked, values.shape(), op) == picked, op,
             "the values {} do not broadcast to {}, the shape of what is indexed in {}", describe(values), picked,
             describe(x));
  Shape source = at.table;
  source[0] = at.rows.numel();
  const Tensor rows = reshape(swap_blocks(expand(values, picked), at.first, at.common.size()), source);
  const Tensor table = reshape(permute(x, at.order), at.table);
  const Tensor written = accumulate ? index_add(table, 0, at.rows, rows) : index_copy(table, 0, at.rows, rows);
  Shape back = at.order;
  for (int d = 0; d < at.order.size(); ++d) back[static_cast<int>(at.order[d])] = d;
  return permute(reshape(written, at.permuted), back);
}

}  // namespace weft
