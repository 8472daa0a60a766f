// Ordering: sort, argsort, topk, unique.
#include <algorithm>

#include "autograd/node.h"
#include "autograd/ops/index.h"
#include "autograd/ops/view.h"
#include "kernels/table.h"
#include "tensor/factory.h"

namespace weft {
namespace {

// The first k in order along `dim`, without history.
ValuesAndIndices first_in_order(const char* op, const Tensor& x, int dim, int64_t k, bool descending) {
  const NoGrad guard;
  DType compute = i64;
  if (is_floating(x.dtype())) compute = x.dtype() == f64 ? f64 : f32;
  const Tensor rows = (x.dim() ? transpose(x, dim, -1) : x).to(compute).contiguous();
  Shape shape = rows.shape();
  if (x.dim()) shape[-1] = k;
  const Tensor values = empty(shape, {.dtype = compute, .device = x.device()});
  const Tensor indices = empty(shape, {.dtype = i64, .device = x.device()});
  if (!x.is_meta() && values.numel() > 0) {
    const int64_t n = x.dim() ? x.size(dim) : 1;
    kernel_table(x.device().type, op)
        .index.sort(current_stream(x.device()), compute, rows.data(), rows.numel() / n, n, k, descending, values.data(),
                    indices.data<int64_t>());
  }
  const auto back = [&](const Tensor& t) { return x.dim() ? transpose(t, dim, -1).contiguous() : t; };
  return {back(values).to(x.dtype()), back(indices)};
}

Tensor record_order(const char* op, const Tensor& x, int dim, const ValuesAndIndices& sorted) {
  return record(op, {x}, sorted.values,
                [dim, indices = sorted.indices, before = x.shape()](Node&, const Gradients& dy) -> Gradients {
                  return {scatter(zeros(before, dy[0].options()), dim, indices, dy[0])};
                });
}

}  // namespace

ValuesAndIndices sort(const Tensor& x, int64_t dim, bool descending) {
  const int d = wrap_dim(dim, x.dim(), "sort");
  ValuesAndIndices sorted = first_in_order("sort", x, d, x.dim() ? x.size(d) : 1, descending);
  sorted.values = record_order("sort", x, d, sorted);
  return sorted;
}

Tensor argsort(const Tensor& x, int64_t dim, bool descending) {
  const int d = wrap_dim(dim, x.dim(), "argsort");
  return first_in_order("argsort", x, d, x.dim() ? x.size(d) : 1, descending).indices;
}

ValuesAndIndices topk(const Tensor& x, int64_t k, int64_t dim, bool largest) {
  const int d = wrap_dim(dim, x.dim(), "topk");
  const int64_t size = x.dim() ? x.size(d) : 1;
  WEFT_CHECK(k >= 0 && k <= size, "topk", "expected k from 0 to {}, the size of dimension {} of {}, got {}", size, d,
             describe(x), k);
  ValuesAndIndices sorted = first_in_order("topk", x, d, k, largest);
  sorted.values = record_order("topk", x, d, sorted);
  return sorted;
}

Unique unique(const Tensor& x) {
  const NoGrad guard;
  // What there is decides how large the results are, so the host has to see it.
  const Tensor flat = reshape(x, {-1}).to(cpu_device);
  const auto [values, order] = sort(flat);
  const int64_t n = flat.numel();
  std::vector<int64_t> starts, counts, group(static_cast<size_t>(n));
  const std::vector<double> key = values.dtype() == i64 ? std::vector<double>() : values.to_vector();
  const int64_t* whole = values.dtype() == i64 && n ? values.data<int64_t>() : nullptr;
  for (int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(i);
    const bool same = i > 0 && (whole ? whole[i] == whole[i - 1] : key[at] == key[at - 1]);
    if (!same) {
      starts.push_back(i);
      counts.push_back(0);
    }
    ++counts.back();
    group[static_cast<size_t>(order.data<int64_t>()[i])] = static_cast<int64_t>(starts.size()) - 1;
  }
  return {index_select(values, 0, tensor(starts)).to(x.device()), reshape(tensor(group), x.shape()).to(x.device()),
          tensor(counts).to(x.device())};
}

}  // namespace weft
