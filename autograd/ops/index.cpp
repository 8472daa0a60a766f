#include "autograd/ops/index.h"

#include <algorithm>

#include "autograd/node.h"
#include "autograd/ops/common.h"
#include "autograd/ops/pointwise.h"
#include "autograd/ops/view.h"
#include "kernels/table.h"
#include "tensor/factory.h"

namespace weft {
namespace {

const IndexKernels& kernels(const Tensor& x, const char* op) { return kernel_table(x.device().type, op).index; }

// Indices into x as contiguous i64, each checked to be in [0, size) unless on the meta device.
Tensor checked_index(const char* op, const Tensor& x, const Tensor& index, int64_t size) {
  detail::check_same_device(op, x, index);
  WEFT_CHECK(index.dtype() == i64 || index.dtype() == i32, op, "expected indices of dtype i64 or i32, got {}",
             describe(index));
  const NoGrad guard;
  const Tensor result = index.to(i64).contiguous();
  if (!result.is_meta() && result.numel() > 0)
    kernels(result, op).check(current_stream(result.device()), op, result.data<int64_t>(), result.numel(), 0, size);
  return result;
}

// dtypes that sums over repeated positions are made in.
DType sum_dtype(DType dtype) {
  if (dtype == DType::f64) return DType::f64;
  return is_floating(dtype) ? DType::f32 : DType::i64;
}

void check_gather_shapes(const char* op, const Tensor& x, int dim, const Tensor& index) {
  WEFT_CHECK(index.dim() == x.dim(), op, "expected an index with {} dimensions, got {} for {}", x.dim(),
             describe(index), describe(x));
  for (int d = 0; d < x.dim(); ++d)
    WEFT_CHECK(d == dim || index.size(d) <= x.size(d), op, "index {} is larger than {} in dimension {}",
               describe(index), describe(x), d);
}

// Walks the index with both tensors; `indexed` (0 or 2) is the operand whose dimension `dim` the index replaces.
Layout<3> gather_layout(const Tensor& first, const Tensor& index, const Tensor& last, int dim, int indexed) {
  Layout<3> layout;
  for (int d = 0; d < index.dim(); ++d) {
    std::array<int64_t, 3> step = {first.stride(d), index.stride(d), last.stride(d)};
    if (d == dim) step[static_cast<size_t>(indexed)] = 0;
    layout.push(index.size(d), step);
  }
  layout.collapse();
  return layout;
}

int64_t step_along(const Tensor& x, int dim) { return x.dim() ? x.stride(dim) : 0; }
int64_t size_along(const Tensor& x, int dim) { return x.dim() ? x.size(dim) : 1; }

// The tensor as [outer, size, inner] around a dimension.
struct Around {
  int64_t outer = 1;
  int64_t inner = 1;
  Around(const Tensor& x, int dim) {
    for (int d = 0; d < dim; ++d) outer *= x.size(d);
    for (int d = dim + 1; d < x.dim(); ++d) inner *= x.size(d);
  }
};

// dy read back where scatter wrote it (by `writers` alone, if given), and zeros where source was larger than index.
Tensor gather_for_source(const Tensor& dy, int dim, const Tensor& index, const Shape& source,
                         const Tensor& writers = {}) {
  Tensor gradient = gather(dy, dim, index);
  if (writers.defined()) gradient = gradient * writers.to(dy.dtype());
  std::vector<int64_t> padding;
  for (int d = source.size() - 1; d >= 0; --d) {
    padding.push_back(0);
    padding.push_back(source[d] - index.size(d));
  }
  return index.shape() == source ? gradient : pad(gradient, padding);
}

Tensor scatter_checked(const char* op, const Tensor& x, int dim, const Tensor& index, const Tensor& source, bool add) {
  const NoGrad guard;
  check_gather_shapes(op, x, dim, index);
  WEFT_CHECK(source.dim() == x.dim(), op, "expected a source with {} dimensions, got {}", x.dim(), describe(source));
  for (int d = 0; d < x.dim(); ++d)
    WEFT_CHECK(index.size(d) <= source.size(d), op, "index {} is larger than source {} in dimension {}",
               describe(index), describe(source), d);
  const DType compute = add ? sum_dtype(x.dtype()) : x.dtype();
  const Tensor from = source.to(compute);
  const Tensor result = empty(x.shape(), {.dtype = compute, .device = x.device()});
  if (x.is_meta()) return result.to(x.dtype());
  detail::copy_elements(x, result);
  if (index.numel() > 0) {
    const Layout<3> layout = gather_layout(from, index, result, dim, 2);
    const Stream stream{x.device()};
    if (add)
      kernels(x, op).scatter_add(stream, compute, layout, from.data(), index.data<int64_t>(), result.data(),
                                 step_along(result, dim));
    else
      kernels(x, op).scatter(stream, size_of(compute), layout, from.data(), index.data<int64_t>(), result.data(),
                             step_along(result, dim));
  }
  return result.to(x.dtype());
}

// True for the elements of the index that wrote last to their place: the others' source values were lost.
Tensor last_writers(const Shape& shape, int dim, const Tensor& index) {
  const Tensor number = reshape(arange(index.numel(), index.device()), index.shape());
  const Tensor nobody = zeros(shape, {.dtype = i64, .device = index.device()});
  return eq(gather(scatter_checked("scatter", nobody, dim, index, number, false), dim, index), number);
}

// index() with positions only: the indexed dimensions become one, which index_select reads.
Tensor index_positions(const Tensor& x, const std::vector<Tensor>& indices) {
  Shape common, order, rest;
  bool together = true;
  int first = -1, last = -1;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (!indices[i].defined()) continue;
    const int d = static_cast<int>(i);
    if (first < 0) first = d;
    together = together && (last < 0 || last == d - 1);
    last = d;
    common = broadcast_shapes(common, indices[i].shape(), "index");
    order.push_back(d);
  }
  if (first < 0) return x;
  Tensor linear = zeros(Shape{}, {.dtype = i64, .device = x.device()});
  int64_t joined = 1;
  for (int64_t d : order) {
    const int64_t size = x.size(d);
    const Tensor& given = indices[static_cast<size_t>(d)];
    WEFT_CHECK(given.dtype() == i64 || given.dtype() == i32, "index",
               "expected indices of dtype i64, i32 or bool, got {}", describe(given));
    detail::check_same_device("index", x, given);
    Tensor at = given.to(i64).contiguous();
    if (!at.is_meta() && at.numel() > 0) {
      kernels(at, "index").check(current_stream(at.device()), "index", at.data<int64_t>(), at.numel(), -size, size);
      at = where(at < 0, at + size, at);
    }
    linear = linear * size + at;
    joined *= size;
  }
  for (int d = 0; d < x.dim(); ++d) {
    if (std::find(order.begin(), order.end(), d) != order.end()) continue;
    order.push_back(d);
    rest.push_back(x.size(d));
  }
  Shape table = rest;
  table.insert(0, joined);
  const Tensor flat_index = reshape(expand(linear, common), {-1});
  const Tensor rows = index_select(reshape(permute(x, order), table), 0, flat_index);
  Shape result = common;
  for (int64_t size : rest) result.push_back(size);
  const Tensor y = reshape(rows, result);
  if (!together || first == 0) return y;
  // The common dimensions move behind the `first` ones that stand before them.
  Shape back;
  for (int d = 0; d < first; ++d) back.push_back(common.size() + d);
  for (int d = 0; d < common.size(); ++d) back.push_back(d);
  for (int d = common.size() + first; d < y.dim(); ++d) back.push_back(d);
  return permute(y, back);
}

}  // namespace

Tensor gather(const Tensor& x, int64_t dim, const Tensor& index) {
  const int d = wrap_dim(dim, x.dim(), "gather");
  check_gather_shapes("gather", x, d, index);
  const Tensor at = checked_index("gather", x, index, size_along(x, d));
  const Tensor y = empty(at.shape(), {.dtype = x.dtype(), .device = x.device()});
  if (!y.is_meta() && y.numel() > 0)
    kernels(x, "gather")
        .gather(current_stream(x.device()), size_of(x.dtype()), gather_layout(x, at, y, d, 0), x.data(),
                step_along(x, d), at.data<int64_t>(), y.data());
  return record("gather", {x}, y, [d, at, before = x.shape()](Node&, const Gradients& dy) -> Gradients {
    return {scatter_add(zeros(before, dy[0].options()), d, at, dy[0])};
  });
}

Tensor take_along_dim(const Tensor& x, const Tensor& index, int64_t dim) { return gather(x, dim, index); }

Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  detail::check_same_kind("scatter", x, source);
  const int d = wrap_dim(dim, x.dim(), "scatter");
  const Tensor at = checked_index("scatter", x, index, size_along(x, d));
  return record("scatter", {x, source}, scatter_checked("scatter", x, d, at, source, false),
                [d, at, shape = source.shape()](Node& node, const Gradients& dy) -> Gradients {
                  Gradients result(2);
                  if (node.needs_input_grad(0)) result[0] = scatter(dy[0], d, at, 0.0);
                  if (node.needs_input_grad(1))
                    result[1] = gather_for_source(dy[0], d, at, shape, last_writers(dy[0].shape(), d, at));
                  return result;
                });
}

Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, double value) {
  const Tensor one = full({}, value, {.dtype = x.dtype(), .device = x.device()});
  return scatter(x, dim, index, expand(one, index.shape()));
}

Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  detail::check_same_kind("scatter_add", x, source);
  const int d = wrap_dim(dim, x.dim(), "scatter_add");
  const Tensor at = checked_index("scatter_add", x, index, size_along(x, d));
  return record("scatter_add", {x, source}, scatter_checked("scatter_add", x, d, at, source, true),
                [d, at, shape = source.shape()](Node& node, const Gradients& dy) -> Gradients {
                  Gradients result(2);
                  result[0] = dy[0];
                  if (node.needs_input_grad(1)) result[1] = gather_for_source(dy[0], d, at, shape);
                  return result;
                });
}

Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index) {
  WEFT_CHECK(index.dim() <= 1, "index_select", "expected a one-dimensional index, got {}", describe(index));
  const int d = wrap_dim(dim, x.dim(), "index_select");
  const Tensor at = checked_index("index_select", x, index, size_along(x, d));
  Shape shape = x.shape();
  if (x.dim() > 0) shape[d] = at.numel();
  const Tensor y = empty(shape, {.dtype = x.dtype(), .device = x.device()});
  if (!y.is_meta() && y.numel() > 0) {
    const Tensor from = detail::dense_copy(x);
    const Around around(x, d);
    kernels(x, "index_select")
        .select(current_stream(x.device()), size_of(x.dtype()), from.data(), around.outer, size_along(x, d),
                around.inner, at.data<int64_t>(), at.numel(), y.data());
  }
  return record("index_select", {x}, y, [d, at, before = x.shape()](Node&, const Gradients& dy) -> Gradients {
    return {index_add(zeros(before, dy[0].options()), d, at, dy[0])};
  });
}

Tensor index_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source, double alpha) {
  const int d = wrap_dim(dim, x.dim(), "index_add");
  WEFT_CHECK(index.dim() <= 1, "index_add", "expected a one-dimensional index, got {}", describe(index));
  detail::check_same_kind("index_add", x, source);
  const Tensor at = checked_index("index_add", x, index, size_along(x, d));
  Shape expected = x.shape();
  if (x.dim() > 0) expected[d] = at.numel();
  WEFT_CHECK(source.shape() == expected, "index_add", "expected a source of shape {} for {} indices into {}, got {}",
             expected, at.numel(), describe(x), source.shape());
  Tensor y;
  {
    const NoGrad guard;
    const DType compute = sum_dtype(x.dtype());
    Tensor result = empty(x.shape(), {.dtype = compute, .device = x.device()});
    if (!x.is_meta()) {
      detail::copy_elements(x, result);
      const Tensor from = source.to(compute).contiguous();
      const Around around(x, d);
      if (source.numel() > 0)
        kernels(x, "index_add")
            .add(current_stream(x.device()), compute, result.data(), around.outer, size_along(x, d), around.inner,
                 at.data<int64_t>(), at.numel(), from.data(), alpha);
    }
    y = result.to(x.dtype());
  }
  return record("index_add", {x, source}, y, [d, at, alpha](Node& node, const Gradients& dy) -> Gradients {
    Gradients result(2);
    result[0] = dy[0];
    if (node.needs_input_grad(1)) {
      result[1] = index_select(dy[0], d, at);
      if (alpha != 1) result[1] = result[1] * alpha;
    }
    return result;
  });
}

Tensor index(const Tensor& x, const std::vector<Tensor>& indices) {
  // A bool tensor stands for as many indices as it has dimensions.
  std::vector<Tensor> positions;
  for (const Tensor& given : indices) {
    if (!given.defined() || given.dtype() != boolean) {
      positions.push_back(given);
      continue;
    }
    const int first = static_cast<int>(positions.size());
    for (int d = 0; d < given.dim(); ++d)
      WEFT_CHECK(first + d < x.dim() && given.size(d) == x.size(first + d), "index",
                 "the mask {} does not fit dimensions {} on of {}", describe(given), first, describe(x));
    const Tensor where_true = nonzero(given);
    for (int d = 0; d < given.dim(); ++d) positions.push_back(select(where_true, 1, d));
  }
  WEFT_CHECK(static_cast<int>(positions.size()) <= x.dim(), "index", "{} indices for {}", positions.size(),
             describe(x));
  return index_positions(x, positions);
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, double value) {
  WEFT_CHECK(mask.dtype() == boolean, "masked_fill", "expected a mask of dtype bool, got {}", describe(mask));
  WEFT_CHECK(broadcast_shapes(x.shape(), mask.shape(), "masked_fill") == x.shape(), "masked_fill",
             "the mask {} does not broadcast to {}", describe(mask), describe(x));
  return where(mask, full({}, value, {.dtype = x.dtype(), .device = x.device()}), x);
}

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  WEFT_CHECK(mask.dtype() == boolean, "masked_select", "expected a mask of dtype bool, got {}", describe(mask));
  const Shape shape = broadcast_shapes(x.shape(), mask.shape(), "masked_select");
  const Tensor at = reshape(nonzero(reshape(expand(mask, shape), {-1})), {-1});
  return index_select(reshape(expand(x, shape), {-1}), 0, at);
}

Tensor nonzero(const Tensor& x) {
  const NoGrad guard;
  const Tensor flags = x.to(boolean).contiguous();
  const IndexKernels& k = kernels(x, "nonzero");
  const Stream stream{x.device()};
  const int64_t total = flags.numel();
  const bool* data = total ? flags.data<bool>() : nullptr;
  const int64_t count = k.nonzero(stream, data, total, nullptr);
  const TensorOptions whole{.dtype = i64, .device = x.device()};
  const Tensor result = empty({count, x.dim()}, whole);
  if (result.numel() == 0) return result;
  Tensor rest = empty({count}, whole);
  k.nonzero(stream, data, total, rest.data<int64_t>());
  // The position in each dimension, the last one first.
  for (int d = x.dim() - 1; d >= 0; --d) {
    select(result, 1, d).copy_(d > 0 ? remainder(rest, x.size(d)) : rest);
    if (d > 0) rest = floor_divide(rest, x.size(d));
  }
  return result;
}

Tensor one_hot(const Tensor& index, int64_t num_classes) {
  int64_t classes = num_classes;
  if (classes == -1) {
    WEFT_CHECK(index.numel() > 0, "one_hot", "num_classes must be given for an index without elements");
    classes = max(index).item<int64_t>() + 1;
  }
  WEFT_CHECK(classes > 0, "one_hot", "expected at least one class, got {}", classes);
  const Tensor at = checked_index("one_hot", index, index, classes);
  Shape shape = index.shape();
  shape.push_back(classes);
  return scatter(zeros(shape, {.dtype = i64, .device = index.device()}), -1, unsqueeze(at, -1), 1.0);
}

Tensor bincount(const Tensor& x) {
  WEFT_CHECK(x.dim() == 1 && !is_floating(x.dtype()), "bincount", "expected whole numbers in one dimension, got {}",
             describe(x));
  const int64_t classes = x.numel() ? max(x).item<int64_t>() + 1 : 0;
  WEFT_CHECK(x.numel() == 0 || min(x).item<int64_t>() >= 0, "bincount", "expected numbers >= 0, got {}",
             min(x).item<int64_t>());
  const TensorOptions whole{.dtype = i64, .device = x.device()};
  return index_add(zeros({classes}, whole), 0, x.to(i64), ones({x.numel()}, whole));
}

}  // namespace weft
