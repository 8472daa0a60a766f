#include "autograd/ops/norm.h"

#include "autograd/functional.h"
#include "autograd/ops/common.h"
#include "autograd/ops/ops.h"
#include "kernels/table.h"

namespace weft {
namespace {

void check(const char* op, const Tensor& x, const Shape& normalized, const Tensor& weight, const Tensor& bias) {
  bool fits = !normalized.empty() && normalized.size() <= x.dim();
  for (int d = 0; fits && d < normalized.size(); ++d) fits = x.size(x.dim() - normalized.size() + d) == normalized[d];
  WEFT_CHECK(fits, op, "expected x to end in the dimensions {}, got {}", normalized, describe(x));
  for (const Tensor& t : {weight, bias}) {
    if (!t.defined()) continue;
    WEFT_CHECK(t.shape() == normalized, op, "expected a weight and bias of shape {}, got {}", normalized, describe(t));
    detail::check_same_kind(op, x, t);
  }
}

Tensor empty_statistics(const Tensor& x, int64_t rows) {
  return empty({rows}, {.dtype = detail::statistics_dtype(x.dtype()), .device = x.device()});
}

void* data_or_null(const Tensor& t) { return t.defined() ? t.data() : nullptr; }

// The formulas on differentiable ops, for double backward. Inputs: x, weight, bias; the last two may be undefined.
Tensor composite(const std::vector<Tensor>& in, const Shape& normalized, double eps, bool centred) {
  Shape dims;
  for (int d = in[0].dim() - normalized.size(); d < in[0].dim(); ++d) dims.push_back(d);
  const Tensor x = centred ? in[0] - mean(in[0], dims, true) : in[0];
  Tensor y = x * rsqrt(mean(square(x), dims, true) + eps);
  if (in[1].defined()) y = y * in[1];
  if (in.size() > 2 && in[2].defined()) y = y + in[2];
  return y;
}

Tensor to_or_none(const Tensor& t, DType dtype) { return t.defined() ? t.to(dtype) : t; }

}  // namespace

Tensor layer_norm(const Tensor& x, const Shape& normalized, const Tensor& weight_, const Tensor& bias_, double eps) {
  constexpr const char* op = "layer_norm";
  check(op, x, normalized, weight_, bias_);
  if (const DType compute = detail::compute_dtype_of(x, op); compute != x.dtype())
    return layer_norm(x.to(compute), normalized, to_or_none(weight_, compute), to_or_none(bias_, compute), eps)
        .to(x.dtype());
  const Tensor input = x.contiguous();
  const Tensor weight = weight_.defined() ? weight_.contiguous() : weight_;
  const Tensor bias = bias_.defined() ? bias_.contiguous() : bias_;
  const int64_t columns = normalized.numel();
  const int64_t rows = columns ? x.numel() / columns : 0;
  Tensor y = empty_like(input), mean = empty_statistics(x, rows), rstd = empty_statistics(x, rows);
  if (!x.is_meta() && x.numel() > 0)
    kernel_table(x.device().type, op)
        .norm.layer_norm_forward(current_stream(x.device()), x.dtype(), input.data(), data_or_null(weight),
                                 data_or_null(bias), y.data(), mean.data(), rstd.data(), rows, columns, eps);
  const std::vector<Tensor> inputs = {input, weight, bias};
  if (!any_requires_grad(inputs)) return y;
  return record(op, inputs, y,
                [=, x = Saved(input), weight = Saved(weight), has_bias = bias.defined(), bias = Saved(bias)](
                    Node& node, const Gradients& dy) -> Gradients {
                  const Tensor input = x.get(node), scale = weight.get(node);
                  if (GradMode::enabled())
                    return composite_gradients(
                        [&](const std::vector<Tensor>& in) { return composite(in, normalized, eps, true); },
                        {input, scale, bias.get(node)}, dy[0]);
                  const Tensor dense = dy[0].contiguous();
                  Gradients result(3);
                  if (node.needs_input_grad(0)) result[0] = empty_like(input);
                  if (node.needs_input_grad(1)) result[1] = zeros(normalized, input.options());
                  if (has_bias && node.needs_input_grad(2)) result[2] = zeros(normalized, input.options());
                  if (!input.is_meta() && input.numel() > 0)
                    kernel_table(input.device().type, op)
                        .norm.layer_norm_backward(current_stream(input.device()), input.dtype(), dense.data(),
                                                  input.data(), data_or_null(scale), mean.data(), rstd.data(),
                                                  data_or_null(result[0]), data_or_null(result[1]),
                                                  data_or_null(result[2]), rows, columns);
                  return result;
                });
}

Tensor rms_norm(const Tensor& x, const Shape& normalized, const Tensor& weight_, double eps) {
  constexpr const char* op = "rms_norm";
  check(op, x, normalized, weight_, {});
  if (const DType compute = detail::compute_dtype_of(x, op); compute != x.dtype())
    return rms_norm(x.to(compute), normalized, to_or_none(weight_, compute), eps).to(x.dtype());
  const Tensor input = x.contiguous();
  const Tensor weight = weight_.defined() ? weight_.contiguous() : weight_;
  const int64_t columns = normalized.numel();
  const int64_t rows = columns ? x.numel() / columns : 0;
  Tensor y = empty_like(input), rstd = empty_statistics(x, rows);
  if (!x.is_meta() && x.numel() > 0)
    kernel_table(x.device().type, op)
        .norm.rms_norm_forward(current_stream(x.device()), x.dtype(), input.data(), data_or_null(weight), y.data(),
                               rstd.data(), rows, columns, eps);
  const std::vector<Tensor> inputs = {input, weight};
  if (!any_requires_grad(inputs)) return y;
  return record(op, inputs, y,
                [=, x = Saved(input), weight = Saved(weight)](Node& node, const Gradients& dy) -> Gradients {
                  const Tensor input = x.get(node), scale = weight.get(node);
                  if (GradMode::enabled())
                    return composite_gradients(
                        [&](const std::vector<Tensor>& in) { return composite(in, normalized, eps, false); },
                        {input, scale}, dy[0]);
                  const Tensor dense = dy[0].contiguous();
                  Gradients result(2);
                  if (node.needs_input_grad(0)) result[0] = empty_like(input);
                  if (node.needs_input_grad(1)) result[1] = zeros(normalized, input.options());
                  if (!input.is_meta() && input.numel() > 0)
                    kernel_table(input.device().type, op)
                        .norm.rms_norm_backward(current_stream(input.device()), input.dtype(), dense.data(),
                                                input.data(), data_or_null(scale), rstd.data(), data_or_null(result[0]),
                                                data_or_null(result[1]), rows, columns);
                  return result;
                });
}

}  // namespace weft
