#include "autograd/ops/reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/node.h"
#include "autograd/ops/common.h"
#include "autograd/ops/index.h"
#include "autograd/ops/pointwise.h"
#include "autograd/ops/view.h"
#include "kernels/table.h"

namespace weft {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Which dimensions go, and the shapes before and after.
struct Plan {
  const char* op;
  Shape before;
  std::array<bool, Shape::kMaxDims> reduced{};
  Shape kept;      // the result without the reduced dimensions
  Shape with_one;  // … and with them, as size 1
  Shape after;     // what was asked for

  Plan(const char* name, const Tensor& x, const Shape& dims, bool keepdim) : op(name), before(x.shape()) {
    for (int64_t dim : dims) {
      const auto d = static_cast<size_t>(wrap_dim(dim, x.dim(), op));
      WEFT_CHECK(!reduced[d], op, "dimension {} stands twice in {}", d, dims);
      reduced[d] = true;
    }
    if (dims.empty()) reduced.fill(true);
    for (int d = 0; d < x.dim(); ++d) {
      const bool goes = reduced[static_cast<size_t>(d)];
      with_one.push_back(goes ? 1 : x.size(d));
      if (!goes) kept.push_back(x.size(d));
    }
    after = keepdim ? with_one : kept;
  }

  int64_t count() const {
    int64_t total = 1;
    for (int d = 0; d < before.size(); ++d)
      if (reduced[static_cast<size_t>(d)]) total *= before[d];
    return total;
  }

  // For kernels. Where the order of elements does not matter, the largest stride comes first.
  ReduceLayout layout(const Tensor& x, bool keep_order) const {
    ReduceLayout result;
    std::array<int, Shape::kMaxDims> order{};
    int going = 0;
    for (int d = 0; d < x.dim(); ++d) {
      if (reduced[static_cast<size_t>(d)])
        order[static_cast<size_t>(going++)] = d;
      else
        result.keep(x.size(d), x.stride(d));
    }
    if (!keep_order)
      std::stable_sort(order.begin(), order.begin() + going, [&](int a, int b) { return x.stride(a) > x.stride(b); });
    for (int i = 0; i < going; ++i) {
      const int d = order[static_cast<size_t>(i)];
      result.reduce(x.size(d), x.stride(d));
    }
    return result;
  }

  // A tensor of the result's shape, spread over the input's.
  Tensor spread(const Tensor& y) const { return expand(after == with_one ? y : reshape(y, with_one), before); }
};

DType compute_dtype(DType dtype) {
  if (dtype == DType::f64) return DType::f64;
  return is_floating(dtype) ? DType::f32 : DType::i64;
}

void check_floating(const char* op, const Tensor& x) {
  WEFT_CHECK(is_floating(x.dtype()), op, "expected a floating point dtype, got {}; convert with to(f32)", describe(x));
}

void check_not_empty(const Plan& plan, const Tensor& x) {
  WEFT_CHECK(plan.count() > 0, plan.op, "no elements to choose from in {}; the result is not defined", describe(x));
}

// Calls kernel(stream, dtype, x, layout, out) on x in the dtype that kernels compute in; the result as `result_dtype`.
template <class F>
Tensor launch(const Plan& plan, const Tensor& x, DType result_dtype, F&& kernel) {
  const TensorOptions options{.dtype = result_dtype, .device = x.device()};
  if (x.is_meta()) return empty(plan.after, options);
  const NoGrad guard;
  const DType compute = compute_dtype(x.dtype());
  const Tensor input = x.to(compute);
  const Tensor result = empty(plan.after, {.dtype = compute, .device = x.device()});
  if (result.numel() > 0)
    kernel(kernel_table(x.device().type, plan.op).reduce, current_stream(x.device()), compute, input, result.data());
  return result.to(result_dtype);
}

Tensor launch_reduction(const Plan& plan, Reduction reduction, const Tensor& x, DType result_dtype) {
  return launch(plan, x, result_dtype,
                [&](const ReduceKernels& kernels, Stream stream, DType dtype, const Tensor& input, void* out) {
                  const void* data = input.numel() ? input.data() : nullptr;
                  kernels.reduce(stream, reduction, dtype, data, plan.layout(input, false), out);
                });
}

DType sum_dtype(DType dtype) { return is_floating(dtype) ? dtype : DType::i64; }

// x with the reduced dimensions last and flattened to one, and the way back.
struct Flattened {
  Shape order, back, moved;
  int64_t count = 1;
  explicit Flattened(const Plan& plan) {
    for (const bool going : {false, true}) {
      for (int d = 0; d < plan.before.size(); ++d) {
        if (plan.reduced[static_cast<size_t>(d)] != going) continue;
        order.push_back(d);
        moved.push_back(plan.before[d]);
        if (going) count *= plan.before[d];
      }
    }
    back = order;
    for (int i = 0; i < order.size(); ++i) back[static_cast<int>(order[i])] = i;
  }
  Tensor flat(const Plan& plan, const Tensor& x) const {
    Shape shape = plan.kept;
    shape.push_back(count);
    return reshape(permute(x, order), shape);
  }
  Tensor restore(const Tensor& y) const { return permute(reshape(y, moved), back); }
};

// The product of all elements along the last dimension before this one.
Tensor product_before(const Tensor& x) {
  Shape first = x.shape();
  first[-1] = 1;
  const Tensor shifted = cat({ones(first, x.options()), narrow(x, -1, 0, x.size(-1) - 1)}, -1);
  return cumprod(shifted, -1);
}

// The gradient of a product: the product of all others, found without a division.
Tensor prod_gradient(const Plan& plan, const Tensor& x, const Tensor& dy) {
  if (x.numel() == 0) return zeros(plan.before, x.options());
  const Flattened flattened(plan);
  const Tensor flat = flattened.flat(plan, x);
  const Tensor others = product_before(flat) * flip(product_before(flip(flat, {-1})), {-1});
  return plan.spread(dy) * flattened.restore(others);
}

// dy shared by the elements that equal the extreme.
Tensor extreme_gradient(const Plan& plan, const Tensor& mask, const Tensor& dy) {
  Shape dims;
  for (int d = 0; d < plan.before.size(); ++d)
    if (plan.reduced[static_cast<size_t>(d)]) dims.push_back(d);
  const Tensor chosen = mask.to(dy.dtype());
  const Tensor share = reshape(dy, plan.with_one) / (dims.empty() ? chosen : sum(chosen, dims, true));
  return chosen * expand(share, plan.before);
}

Tensor extreme(const char* op, Reduction reduction, const Tensor& x, const Shape& dims, bool keepdim) {
  const Plan plan(op, x, dims, keepdim);
  check_not_empty(plan, x);
  Tensor y = launch_reduction(plan, reduction, x, x.dtype());
  return record(op, {x}, y, [plan, x = Saved(x), y = Saved::output(y)](Node& node, const Gradients& dy) -> Gradients {
    return {extreme_gradient(plan, eq(x.get(node), plan.spread(y.get(node))), dy[0])};
  });
}

// Values and indices; `values` is left out for argmax and argmin.
ValuesAndIndices arg_extreme(const char* op, bool largest, const Tensor& x, const Shape& dims, bool keepdim,
                             bool want_values) {
  const Plan plan(op, x, dims, keepdim);
  check_not_empty(plan, x);
  ValuesAndIndices result;
  result.indices = empty(plan.after, {.dtype = i64, .device = x.device()});
  result.values = launch(plan, x, x.dtype(),
                         [&](const ReduceKernels& kernels, Stream stream, DType dtype, const Tensor& input, void* out) {
                           kernels.arg_reduce(stream, largest, dtype, input.data(), plan.layout(input, true),
                                              want_values ? out : nullptr, result.indices.data<int64_t>());
                         });
  return result;
}

ValuesAndIndices extreme_along(const char* op, bool largest, const Tensor& x, int64_t dim, bool keepdim) {
  auto [values, indices] = arg_extreme(op, largest, x, {dim}, keepdim, true);
  const int d = wrap_dim(dim, x.dim(), op);
  values = record(op, {x}, values, [=, shape = x.shape(), indices = indices](Node&, const Gradients& dy) -> Gradients {
    if (shape.empty()) return {dy[0]};
    const Tensor at = keepdim ? indices : unsqueeze(indices, d);
    return {scatter(zeros(shape, dy[0].options()), d, at, keepdim ? dy[0] : unsqueeze(dy[0], d))};
  });
  return {values, indices};
}

Tensor variance_gradient(const Plan& plan, const Tensor& x, double correction, const Tensor& dy) {
  Shape dims;
  for (int d = 0; d < plan.before.size(); ++d)
    if (plan.reduced[static_cast<size_t>(d)]) dims.push_back(d);
  const double factor = 2 / std::max(0.0, static_cast<double>(plan.count()) - correction);
  // A mean rounded to f16 or bf16 would be off by as much as the elements are from it.
  const Tensor wide = x.to(detail::statistics_dtype(x.dtype()));
  const Tensor centred = wide - (dims.empty() ? wide : mean(wide, dims, true));
  return (centred * (plan.spread(dy).to(wide.dtype()) * factor)).to(x.dtype());
}

Tensor launch_variance(const Plan& plan, const Tensor& x, double correction) {
  check_floating(plan.op, x);
  return launch(plan, x, x.dtype(),
                [&](const ReduceKernels& kernels, Stream stream, DType dtype, const Tensor& input, void* out) {
                  const void* data = input.numel() ? input.data() : nullptr;
                  kernels.variance(stream, dtype, data, plan.layout(input, false), correction, out);
                });
}

Tensor norm_gradient(const Plan& plan, const Tensor& x, const Tensor& y, double p, const Tensor& dy) {
  if (p == 0) return zeros(plan.before, dy.options());
  if (p == 1) return sign(x) * plan.spread(dy);
  if (std::isinf(p)) return sign(x) * extreme_gradient(plan, eq(abs(x), plan.spread(y)), dy);
  // dy · (x / y)^(p-1) with the sign of x, and 0 where y, or for p < 1 where x, is 0.
  const Tensor zero = eq(y, 0);
  const Tensor safe = where(zero, 1, y);
  if (p == 2) return x * plan.spread(where(zero, 0, dy / safe));
  const Tensor scale = where(zero, 0, dy * pow(safe, 1 - p));
  const Tensor size = abs(x);
  if (p > 1) return sign(x) * pow(size, p - 1) * plan.spread(scale);
  const Tensor none = eq(x, 0);
  return sign(x) * where(none, 0, pow(where(none, 1, size), p - 1)) * plan.spread(scale);
}

Tensor logical_reduction(const char* op, Reduction reduction, const Tensor& x, const Shape& dims, bool keepdim) {
  const Plan plan(op, x, dims, keepdim);
  const Tensor result = empty(plan.after, {.dtype = boolean, .device = x.device()});
  if (x.is_meta() || result.numel() == 0) return result;
  const NoGrad guard;
  const Tensor flags = x.to(boolean);
  kernel_table(x.device().type, op)
      .reduce.reduce(current_stream(x.device()), reduction, DType::boolean, flags.numel() ? flags.data() : nullptr,
                     plan.layout(flags, false), result.data());
  return result;
}

Tensor scan(const char* op, Scan kind, const Tensor& x, int dim) {
  const DType dtype = sum_dtype(x.dtype());
  if (x.is_meta()) return empty(x.shape(), {.dtype = dtype, .device = x.device()});
  const NoGrad guard;
  const Tensor input = x.to(compute_dtype(x.dtype())).contiguous();
  const Tensor result = empty(x.shape(), {.dtype = input.dtype(), .device = x.device()});
  if (x.numel() > 0) {
    int64_t outer = 1, inner = 1;
    for (int d = 0; d < dim; ++d) outer *= x.size(d);
    for (int d = dim + 1; d < x.dim(); ++d) inner *= x.size(d);
    kernel_table(x.device().type, op)
        .reduce.scan(current_stream(x.device()), kind, input.dtype(), input.data(), result.data(), outer,
                     x.dim() ? x.size(dim) : 1, inner);
  }
  return result.to(dtype);
}

}  // namespace

Tensor sum(const Tensor& x, const Shape& dims, bool keepdim) {
  const Plan plan("sum", x, dims, keepdim);
  return record("sum", {x}, launch_reduction(plan, Reduction::sum, x, sum_dtype(x.dtype())),
                [plan](Node&, const Gradients& dy) -> Gradients { return {plan.spread(dy[0])}; });
}

Tensor mean(const Tensor& x, const Shape& dims, bool keepdim) {
  check_floating("mean", x);
  const Plan plan("mean", x, dims, keepdim);
  return record("mean", {x}, launch_reduction(plan, Reduction::mean, x, x.dtype()),
                [plan](Node&, const Gradients& dy) -> Gradients {
                  return {plan.spread(dy[0] * (1 / static_cast<double>(plan.count())))};
                });
}

Tensor prod(const Tensor& x, const Shape& dims, bool keepdim) {
  const Plan plan("prod", x, dims, keepdim);
  return record("prod", {x}, launch_reduction(plan, Reduction::prod, x, sum_dtype(x.dtype())),
                [plan, x = Saved(x)](Node& node, const Gradients& dy) -> Gradients {
                  return {prod_gradient(plan, x.get(node), dy[0])};
                });
}

Tensor var(const Tensor& x, const Shape& dims, double correction, bool keepdim) {
  const Plan plan("var", x, dims, keepdim);
  return record("var", {x}, launch_variance(plan, x, correction),
                [plan, correction, x = Saved(x)](Node& node, const Gradients& dy) -> Gradients {
                  return {variance_gradient(plan, x.get(node), correction, dy[0])};
                });
}

Tensor std(const Tensor& x, const Shape& dims, double correction, bool keepdim) {
  const Plan plan("std", x, dims, keepdim);
  Tensor y;
  {
    const NoGrad guard;
    y = sqrt(launch_variance(plan, x, correction));
  }
  return record("std", {x}, y,
                [plan, correction, x = Saved(x), y = Saved::output(y)](Node& node, const Gradients& dy) -> Gradients {
                  const Tensor deviation = y.get(node);
                  const Tensor zero = eq(deviation, 0);
                  const Tensor through = where(zero, 0, dy[0] / (where(zero, 1, deviation) * 2));
                  return {variance_gradient(plan, x.get(node), correction, through)};
                });
}

Tensor amax(const Tensor& x, const Shape& dims, bool keepdim) {
  return extreme("amax", Reduction::max, x, dims, keepdim);
}
Tensor amin(const Tensor& x, const Shape& dims, bool keepdim) {
  return extreme("amin", Reduction::min, x, dims, keepdim);
}
Tensor max(const Tensor& x) { return extreme("max", Reduction::max, x, {}, false); }
Tensor min(const Tensor& x) { return extreme("min", Reduction::min, x, {}, false); }
ValuesAndIndices max(const Tensor& x, int64_t dim, bool keepdim) { return extreme_along("max", true, x, dim, keepdim); }
ValuesAndIndices min(const Tensor& x, int64_t dim, bool keepdim) {
  return extreme_along("min", false, x, dim, keepdim);
}
Tensor argmax(const Tensor& x) { return arg_extreme("argmax", true, x, {}, false, false).indices; }
Tensor argmin(const Tensor& x) { return arg_extreme("argmin", false, x, {}, false, false).indices; }
Tensor argmax(const Tensor& x, int64_t dim, bool keepdim) {
  return arg_extreme("argmax", true, x, {dim}, keepdim, false).indices;
}
Tensor argmin(const Tensor& x, int64_t dim, bool keepdim) {
  return arg_extreme("argmin", false, x, {dim}, keepdim, false).indices;
}

Tensor logsumexp(const Tensor& x, const Shape& dims, bool keepdim) {
  if (!is_floating(x.dtype())) return logsumexp(x.to(f32), dims, keepdim);
  const Plan plan("logsumexp", x, dims, keepdim);
  Tensor y = launch(plan, x, x.dtype(),
                    [&](const ReduceKernels& kernels, Stream stream, DType dtype, const Tensor& input, void* out) {
                      const void* data = input.numel() ? input.data() : nullptr;
                      kernels.logsumexp(stream, dtype, data, plan.layout(input, false), out);
                    });
  return record("logsumexp", {x}, y,
                [plan, x = Saved(x), y = Saved::output(y)](Node& node, const Gradients& dy) -> Gradients {
                  const Tensor total = y.get(node);
                  const Tensor shift = where(eq(total, -kInfinity), 0, total);  // -inf - -inf would be NaN
                  return {plan.spread(dy[0]) * exp(x.get(node) - plan.spread(shift))};
                });
}

Tensor norm(const Tensor& x, double p, const Shape& dims, bool keepdim) {
  check_floating("norm", x);
  const Plan plan("norm", x, dims, keepdim);
  WEFT_CHECK(p >= 0 || plan.count() > 0, "norm", "the norm of order {} of no elements is not defined", p);
  Tensor y = launch(plan, x, x.dtype(),
                    [&](const ReduceKernels& kernels, Stream stream, DType dtype, const Tensor& input, void* out) {
                      const void* data = input.numel() ? input.data() : nullptr;
                      kernels.norm(stream, dtype, data, plan.layout(input, false), p, out);
                    });
  return record("norm", {x}, y,
                [plan, p, x = Saved(x), y = Saved::output(y)](Node& node, const Gradients& dy) -> Gradients {
                  return {norm_gradient(plan, x.get(node), y.get(node), p, dy[0])};
                });
}

Tensor all(const Tensor& x, const Shape& dims, bool keepdim) {
  return logical_reduction("all", Reduction::min, x, dims, keepdim);
}
Tensor any(const Tensor& x, const Shape& dims, bool keepdim) {
  return logical_reduction("any", Reduction::max, x, dims, keepdim);
}

Tensor cumsum(const Tensor& x, int64_t dim) {
  const int d = wrap_dim(dim, x.dim(), "cumsum");
  return record("cumsum", {x}, scan("cumsum", Scan::sum, x, d), [d](Node&, const Gradients& dy) -> Gradients {
    if (dy[0].dim() == 0) return {dy[0]};
    return {flip(cumsum(flip(dy[0], {d}), d), {d})};
  });
}

// With s(k) = dy(k) + x(k+1) · s(k+1), the gradient of x(k) is (x(0) … x(k-1)) · s(k): no division, so zeros are fine.
Tensor cumprod(const Tensor& x, int64_t dim) {
  const int d = wrap_dim(dim, x.dim(), "cumprod");
  return record("cumprod", {x}, scan("cumprod", Scan::prod, x, d),
                [d, saved = Saved(x)](Node& node, const Gradients& dy) -> Gradients {
                  const Tensor x = saved.get(node);
                  if (x.dim() == 0 || x.numel() == 0) return {dy[0]};
                  const int64_t size = x.size(d);
                  std::vector<Tensor> sums(static_cast<size_t>(size));
                  for (int64_t k = size - 1; k >= 0; --k) {
                    const Tensor own = select(dy[0], d, k);
                    const auto at = static_cast<size_t>(k);
                    sums[at] = k + 1 < size ? own + select(x, d, k + 1) * sums[at + 1] : own;
                  }
                  const Tensor before = transpose(product_before(transpose(x, d, -1)), d, -1);
                  return {before * stack(sums, d)};
                });
}

Tensor Tensor::sum() const { return weft::sum(*this); }
Tensor Tensor::sum(const Shape& dims, bool keepdim) const { return weft::sum(*this, dims, keepdim); }
Tensor Tensor::mean() const { return weft::mean(*this); }
Tensor Tensor::mean(const Shape& dims, bool keepdim) const { return weft::mean(*this, dims, keepdim); }

}  // namespace weft
