#include "autograd/ops/index.h"

#include <algorithm>

#include "autograd/node.h"
#include "autograd/ops/common.h"
#include "autograd/ops/index_common.h"
#include "autograd/ops/pointwise.h"
#include "autograd/ops/view.h"
#include "kernels/table.h"
#include "tensor/factory.h"

namespace weft {

using detail::check_gather_shapes;
using detail::checked_index;
using detail::gather_layout;
using detail::size_along;
using detail::step_along;
using detail::sum_dtype;

namespace {

const IndexKernels& kernels(const Tensor& x, const char* op) { return detail::index_kernels(x, op); }

// As contiguous i64, checked to be in [low, high) unless on the meta device.
Tensor index_in_range(const char* op, const Tensor& x, const Tensor& index, int64_t low, int64_t high) {
  detail::check_same_device(op, x, index);
  WEFT_CHECK(index.dtype() == i64 || index.dtype() == i32, op, "expected indices of dtype i64 or i32, got {}",
             describe(index));
  const NoGrad guard;
  const Tensor result = index.to(i64).contiguous();
  if (!result.is_meta() && result.numel() > 0)
    kernels(result, op).check(current_stream(result.device()), op, result.data<int64_t>(), result.numel(), low, high);
  return result;
}

}  // namespace

Tensor detail::checked_index(const char* op, const Tensor& x, const Tensor& index, int64_t size) {
  return index_in_range(op, x, index, 0, size);
}

Tensor detail::wrapped_index(const char* op, const Tensor& x, const Tensor& index, int64_t size) {
  const NoGrad guard;
  const Tensor at = index_in_range(op, x, index, -size, size);
  return where(at < 0, at + size, at);
}

void detail::check_gather_shapes(const char* op, const Tensor& x, int dim, const Tensor& index) {
  WEFT_CHECK(index.dim() == x.dim(), op, "expected an index with {} dimensions, got {} for {}", x.dim(),
             describe(index), describe(x));
  for (int d = 0; d < x.dim(); ++d)
    WEFT_CHECK(d == dim || index.size(d) <= x.size(d), op, "index {} is larger than {} in dimension {}",
               describe(index), describe(x), d);
}

Layout<3> detail::gather_layout(const Tensor& first, const Tensor& index, const Tensor& last, int dim, int indexed) {
  Layout<3> layout;
  for (int d = 0; d < index.dim(); ++d) {
    std::array<int64_t, 3> step = {first.stride(d), index.stride(d), last.stride(d)};
    if (d == dim) step[static_cast<size_t>(indexed)] = 0;
    layout.push(index.size(d), step);
  }
  layout.collapse();
  return layout;
}

namespace {

// The tensor as [outer, size, inner] around a dimension.
struct Around {
  int64_t outer = 1;
  int64_t inner = 1;
  Around(const Tensor& x, int dim) {
    for (int d = 0; d < dim; ++d) outer *= x.size(d);
    for (int d = dim + 1; d < x.dim(); ++d) inner *= x.size(d);
  }
};

// gather under the name of the op that asks.
Tensor gather_as(const char* op, const Tensor& x, int d, const Tensor& index) {
  check_gather_shapes(op, x, d, index);
  const Tensor at = checked_index(op, x, index, size_along(x, d));
  const Tensor y = empty(at.shape(), {.dtype = x.dtype(), .device = x.device()});
  if (!y.is_meta() && y.numel() > 0)
    kernels(x, op).gather(current_stream(x.device()), size_of(x.dtype()), gather_layout(x, at, y, d, 0), x.data(),
                          step_along(x, d), at.data<int64_t>(), y.data());
  return record(op, {x}, y, [d, at, before = x.shape()](Node&, const Gradients& dy) -> Gradients {
    return {scatter_add(zeros(before, dy[0].options()), d, at, dy[0])};
  });
}

}  // namespace

Tensor gather(const Tensor& x, int64_t dim, const Tensor& index) {
  return gather_as("gather", x, wrap_dim(dim, x.dim(), "gather"), index);
}

Tensor take_along_dim(const Tensor& x, const Tensor& index, int64_t dim) {
  constexpr const char* op = "take_along_dim";
  WEFT_CHECK(x.dim() == index.dim(), op, "expected an index with {} dimensions, got {} for {}", x.dim(),
             describe(index), describe(x));
  const int d = wrap_dim(dim, x.dim(), op);
  if (x.dim() == 0) return gather_as(op, x, d, index);
  // All dimensions but d broadcast.
  Shape from = x.shape(), at = index.shape();
  from[d] = at[d] = 1;
  from = at = broadcast_shapes(from, at, op);
  from[d] = x.size(d);
  at[d] = index.size(d);
  return gather_as(op, expand(x, from), d, expand(index, at));
}

Tensor take_along_dim(const Tensor& x, const Tensor& index) {
  return gather_as("take_along_dim", reshape(x, {-1}), 0, reshape(index, {-1}));
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
