// Writing at positions: scatter and its reductions, index_copy, index_fill, masked_scatter.
#include <algorithm>

#include "autograd/node.h"
#include "autograd/ops/common.h"
#include "autograd/ops/index.h"
#include "autograd/ops/index_common.h"
#include "autograd/ops/pointwise.h"
#include "autograd/ops/view.h"
#include "tensor/factory.h"

namespace weft {

using detail::check_gather_shapes;
using detail::checked_index;
using detail::gather_layout;
using detail::size_along;
using detail::step_along;
using detail::sum_dtype;

namespace {

void check_scatter_shapes(const char* op, const Tensor& x, int dim, const Tensor& index, const Tensor& source) {
  check_gather_shapes(op, x, dim, index);
  WEFT_CHECK(source.dim() == x.dim(), op, "expected a source with {} dimensions, got {}", x.dim(), describe(source));
  for (int d = 0; d < x.dim(); ++d)
    WEFT_CHECK(index.size(d) <= source.size(d), op, "index {} is larger than source {} in dimension {}",
               describe(index), describe(source), d);
}

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
  check_scatter_shapes(op, x, dim, index, source);
  const DType compute = add ? sum_dtype(x.dtype()) : x.dtype();
  const Tensor from = source.to(compute);
  const Tensor result = empty(x.shape(), {.dtype = compute, .device = x.device()});
  if (x.is_meta()) return result.to(x.dtype());
  detail::copy_elements(x, result);
  if (index.numel() > 0) {
    const Layout<3> layout = gather_layout(from, index, result, dim, 2);
    const Stream stream{x.device()};
    if (add)
      detail::index_kernels(x, op).scatter_add(stream, compute, layout, from.data(), index.data<int64_t>(),
                                               result.data(), step_along(result, dim));
    else
      detail::index_kernels(x, op).scatter(stream, size_of(compute), layout, from.data(), index.data<int64_t>(),
                                           result.data(), step_along(result, dim));
  }
  return result.to(x.dtype());
}

// True for the elements of the index that wrote last to their place: the others' source values were lost.
Tensor last_writers(const Shape& shape, int dim, const Tensor& index) {
  const Tensor number = reshape(arange(index.numel(), index.device()), index.shape());
  const Tensor nobody = zeros(shape, {.dtype = i64, .device = index.device()});
  return eq(gather(scatter_checked("scatter", nobody, dim, index, number, false), dim, index), number);
}

// --- scatter_reduce. x, index and source have at least one dimension, index and source the same shape.

// What one call of scatter_reduce combines.
struct Scattered {
  const Tensor& x;
  int dim;
  const Tensor& index;
  const Tensor& source;
  bool include_self;
};

// True where the index writes.
Tensor written(const Scattered& r) {
  const NoGrad guard;
  const TensorOptions flags{.dtype = boolean, .device = r.x.device()};
  return scatter(zeros(r.x.shape(), flags), r.dim, r.index, ones(r.index.shape(), flags));
}

// x, with `neutral` where it does not count.
Tensor own_part(const Scattered& r, double neutral) {
  return r.include_self ? r.x : where(written(r), full({}, neutral, r.x.options()), r.x);
}

Tensor scatter_mean(const Scattered& r) {
  const Tensor total = scatter_add(own_part(r, 0), r.dim, r.index, r.source);
  Tensor count;
  {
    const NoGrad guard;
    const Tensor one = ones(r.x.shape(), {.dtype = r.x.dtype(), .device = r.x.device()});
    const Tensor own = r.include_self ? one : where(written(r), 0, one);
    count = scatter_add(own, r.dim, r.index, expand(full({}, 1, one.options()), r.index.shape()));
  }
  return is_floating(r.x.dtype()) ? total / count : floor_divide(total, count);
}

// Multiplies the elements of each place by doubling, as a segmented scan: in the order of the index, after pass k an
// element holds the product of up to 2^k of its place that end at it. Exact where factors are 0, in gradients too.
Tensor scatter_prod(const Scattered& r) {
  const int64_t n = r.index.size(r.dim);
  const Tensor order = argsort(r.index, r.dim);
  const Tensor place = gather(r.index, r.dim, order);
  Tensor product = gather(r.source, r.dim, order);
  for (int64_t step = 1; step < n; step *= 2) {
    const Tensor same = eq(narrow(place, r.dim, step, n - step), narrow(place, r.dim, 0, n - step));
    // Where the host can see it at no cost, stop at the length of the longest run.
    if (r.x.device().type == DeviceType::cpu && !any(same).item<bool>()) break;
    const Tensor before = where(same, narrow(product, r.dim, 0, n - step), 1);
    product = cat({narrow(product, r.dim, 0, step), narrow(product, r.dim, step, n - step) * before}, r.dim);
  }
  // The last one of a place holds all of it, and is the one that scatter leaves there.
  const Tensor ones_there = ones(r.x.shape(), r.x.options());
  return own_part(r, 1) * scatter(ones_there, r.dim, place, product);
}

// Equal, or NaN both.
Tensor same_value(const Tensor& a, const Tensor& b) {
  const Tensor equal = eq(a, b);
  return is_floating(a.dtype()) ? logical_or(equal, logical_and(isnan(a), isnan(b))) : equal;
}

// Written in rising order, the largest of a place is the last and stays; NaN sorts last.
Tensor scatter_amax(const char* op, const Scattered& r) {
  Tensor y;
  {
    const NoGrad guard;
    const ValuesAndIndices rising = sort(r.source, r.dim);
    y = scatter(r.x, r.dim, gather(r.index, r.dim, rising.indices), rising.values);
    if (r.include_self) y = maximum(r.x, y);
  }
  return record(op, {r.x, r.source}, y,
                [dim = r.dim, index = r.index, include_self = r.include_self, x = Saved(r.x), source = Saved(r.source),
                 y = Saved::output(y)](Node& node, const Gradients& dy) -> Gradients {
                  // The elements equal to the result share its gradient evenly.
                  Tensor own, others, share;
                  {
                    const NoGrad guard;
                    const Tensor result = y.get(node);
                    const Scattered now{x.get(node), dim, index, source.get(node), include_self};
                    own = same_value(now.x, result);
                    if (!include_self) own = logical_and(own, logical_not(written(now)));
                    others = same_value(now.source, gather(result, dim, index));
                    own = own.to(dy[0].dtype());
                    others = others.to(dy[0].dtype());
                    share = 1 / scatter_add(own, dim, index, others);
                  }
                  const Tensor each = dy[0] * share;
                  return {each * own, gather(each, dim, index) * others};
                });
}

// The largest of the negated ones; whole numbers, which negation may not fit, in falling order.
Tensor scatter_amin(const char* op, const Scattered& r) {
  if (is_floating(r.x.dtype())) {
    const Tensor x = neg(r.x), source = neg(r.source);
    return neg(scatter_amax(op, {x, r.dim, r.index, source, r.include_self}));
  }
  const ValuesAndIndices falling = sort(r.source, r.dim, true);
  const Tensor y = scatter(r.x, r.dim, gather(r.index, r.dim, falling.indices), falling.values);
  return r.include_self ? minimum(r.x, y) : y;
}

}  // namespace

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

Tensor scatter_reduce(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source,
                      const std::string& reduce, bool include_self) {
  constexpr const char* op = "scatter_reduce";
  WEFT_CHECK(reduce == "sum" || reduce == "prod" || reduce == "mean" || reduce == "amax" || reduce == "amin", op,
             "expected sum, prod, mean, amax or amin, got \"{}\"", reduce);
  detail::check_same_kind(op, x, source);
  const int d = wrap_dim(dim, x.dim(), op);
  check_scatter_shapes(op, x, d, index, source);
  if (x.dim() == 0)
    return reshape(scatter_reduce(reshape(x, {1}), 0, reshape(index, {1}), reshape(source, {1}), reduce, include_self),
                   {});
  const Tensor at = checked_index(op, x, index, x.size(d));
  const DType compute = sum_dtype(x.dtype());
  const Tensor wide = x.to(compute);
  Tensor from = source.to(compute);
  for (int i = 0; i < x.dim(); ++i) from = narrow(from, i, 0, at.size(i));
  const Scattered reduction{wide, d, at, from, include_self};
  Tensor y;
  if (reduce == "sum")
    y = scatter_add(own_part(reduction, 0), d, at, from);
  else if (reduce == "prod")
    y = scatter_prod(reduction);
  else if (reduce == "mean")
    y = scatter_mean(reduction);
  else if (reduce == "amax")
    y = scatter_amax(op, reduction);
  else
    y = scatter_amin(op, reduction);
  return y.to(x.dtype());
}

Tensor index_copy(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  constexpr const char* op = "index_copy";
  detail::check_same_kind(op, x, source);
  WEFT_CHECK(index.dim() <= 1, op, "expected a one-dimensional index, got {}", describe(index));
  const int d = wrap_dim(dim, x.dim(), op);
  if (x.dim() == 0) {
    WEFT_CHECK(index.numel() == source.numel(), op,
               "expected a source of one number and an index for it, got {} and {}", describe(source), describe(index));
    return reshape(index_copy(reshape(x, {1}), 0, index, reshape(source, {-1})), {});
  }
  const Tensor at = reshape(checked_index(op, x, index, x.size(d)), {-1});
  Shape expected = x.shape();
  expected[d] = at.numel();
  WEFT_CHECK(source.shape() == expected, op, "expected a source of shape {} for {} indices into {}, got {}", expected,
             at.numel(), describe(x), describe(source));
  // Every slice of the result is one of x or of source: which one is found with numbers, then all are read at once.
  const Tensor own = arange(x.size(d), x.device());
  const Tensor others = arange(at.numel(), x.device()) + x.size(d);
  return index_select(cat({x, source}, d), d, scatter(own, 0, at, others));
}

Tensor index_fill(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& value) {
  constexpr const char* op = "index_fill";
  detail::check_same_kind(op, x, value);
  WEFT_CHECK(value.dim() == 0, op, "expected a value without dimensions, got {}", describe(value));
  WEFT_CHECK(index.dim() <= 1, op, "expected a one-dimensional index, got {}", describe(index));
  const int d = wrap_dim(dim, x.dim(), op);
  const int64_t size = size_along(x, d);
  const Tensor at = reshape(detail::wrapped_index(op, x, index, size), {-1});
  const TensorOptions flags{.dtype = boolean, .device = x.device()};
  Shape along;
  for (int i = 0; i < x.dim(); ++i) along.push_back(i == d ? size : 1);
  const Tensor filled = scatter(zeros({size}, flags), 0, at, ones(at.shape(), flags));
  return where(reshape(filled, along), value, x);
}

Tensor index_fill(const Tensor& x, int64_t dim, const Tensor& index, double value) {
  return index_fill(x, dim, index, full({}, value, {.dtype = x.dtype(), .device = x.device()}));
}

Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source) {
  constexpr const char* op = "masked_scatter";
  detail::check_same_kind(op, x, source);
  detail::check_same_device(op, x, mask);
  WEFT_CHECK(mask.dtype() == boolean, op, "expected a mask of dtype bool, got {}", describe(mask));
  const Shape shape = broadcast_shapes(x.shape(), mask.shape(), op);
  const Tensor chosen = expand(mask, shape), onto = expand(x, shape);
  if (chosen.numel() == 0) return onto.clone();
  // The number of each place among those of the mask, from 1.
  const Tensor number = cumsum(reshape(chosen, {-1}), 0);
  if (!x.is_meta()) {
    const auto needed = number[-1].item<int64_t>();
    WEFT_CHECK(needed <= source.numel(), op, "the mask {} has {} places to fill, the source {} has {} elements",
               describe(mask), needed, describe(source), source.numel());
  }
  if (source.numel() == 0) return onto.clone();
  const Tensor taken = index_select(reshape(source, {-1}), 0, maximum(number - 1, 0));
  return where(chosen, reshape(taken, shape), onto);
}

}  // namespace weft
