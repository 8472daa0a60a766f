// Batch norm, and the two norms that are made of others: group norm and instance norm.
#include "autograd/functional.h"
#include "autograd/ops/common.h"
#include "autograd/ops/inplace.h"
#include "autograd/ops/norm.h"
#include "autograd/ops/ops.h"
#include "kernels/table.h"

namespace weft {
namespace {

void* data_or_null(const Tensor& t) { return t.defined() ? t.data() : nullptr; }

void check_channels(const char* op, const Tensor& x, std::initializer_list<Tensor> of_channels) {
  WEFT_CHECK(x.dim() >= 2, op, "expected x [N, C, …], got {}", describe(x));
  for (const Tensor& t : of_channels) {
    if (!t.defined()) continue;
    WEFT_CHECK(t.shape() == Shape({x.size(1)}), op, "expected one value a channel of {}, [{}]; got {}", describe(x),
               x.size(1), describe(t));
    WEFT_CHECK(t.dtype() == x.dtype() || t.dtype() == detail::statistics_dtype(x.dtype()), op,
               "expected {} or {} beside {}, got {}", x.dtype(), detail::statistics_dtype(x.dtype()), describe(x),
               describe(t));
    detail::check_same_device(op, x, t);
  }
}

// [C] as it broadcasts against x.
Tensor by_channel(const Tensor& t, int64_t dims) {
  Shape shape{t.size(0)};
  for (int64_t d = 2; d < dims; ++d) shape.push_back(1);
  return t.reshape(shape);
}

Tensor scaled_and_shifted(Tensor y, const Tensor& weight, const Tensor& bias) {
  if (weight.defined()) y = y * by_channel(weight, y.dim());
  if (bias.defined()) y = y + by_channel(bias, y.dim());
  return y;
}

// The formula on differentiable ops, for double backward. Inputs: x, weight, bias. `mean` and `rstd`: given statistics, or
// undefined for those of x.
Tensor composite(const std::vector<Tensor>& in, Tensor mean_, Tensor rstd, double eps) {
  const Tensor& x = in[0];
  Tensor centred;
  if (mean_.defined()) {
    centred = x - by_channel(mean_, x.dim());
    rstd = by_channel(rstd, x.dim());
  } else {
    Shape dims{0};
    for (int64_t d = 2; d < x.dim(); ++d) dims.push_back(d);
    centred = x - mean(x, dims, true);
    rstd = rsqrt(mean(square(centred), dims, true) + eps);
  }
  return scaled_and_shifted(centred * rstd, in[1], in[2]);
}

// A running statistic as the kernel writes it; afterwards `put_back` brings a copy's values to where they belong.
struct Running {
  Tensor given, dense;
  Running(const Tensor& t, DType dtype) : given(t), dense(t.defined() ? t.detach().to(dtype).contiguous() : t) {}
  void put_back() const {
    if (!given.defined()) return;
    NoGrad guard;
    if (dense.storage() == given.storage())
      given.storage()->bump_version();
    else
      given.copy_(dense);
  }
};

// One launch: x is of the dtype the kernels take, all [C] tensors are of its statistics' dtype.
struct BatchNorm {
  BatchNormShape shape;
  bool own_statistics = false;  // of x, not given ones
  double eps = 0;
};

Gradients gradients_of(const BatchNorm& b, Node& node, const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const Tensor& mean, const Tensor& rstd, const Tensor& dy) {
  const bool given = !b.own_statistics;
  if (GradMode::enabled())
    return composite_gradients(
        [&](const std::vector<Tensor>& in) {
          // Half precision: only the result is rounded.
          const Tensor wide = in[0].to(mean.dtype());
          return composite({wide, in[1], in[2]}, given ? mean : Tensor(), given ? rstd : Tensor(), b.eps)
              .to(in[0].dtype());
        },
        {x, weight, bias}, dy);
  const Tensor dense = dy.contiguous();
  Gradients result(3);
  if (node.needs_input_grad(0)) result[0] = empty_like(x);
  if (node.needs_input_grad(1)) result[1] = zeros_like(mean);
  if (node.needs_input_grad(2)) result[2] = zeros_like(mean);
  if (!x.is_meta() && x.numel() > 0)
    kernel_table(x.device().type, "batch_norm")
        .batch_norm.backward(current_stream(x.device()), x.dtype(), b.shape, dense.data(), x.data(), mean.data(),
                             rstd.data(), data_or_null(weight), b.own_statistics, data_or_null(result[0]),
                             data_or_null(result[1]), data_or_null(result[2]));
  return result;
}

// batch_norm of an x that the kernels take, after the checks.
Tensor normalized(const Tensor& x, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight_,
                  const Tensor& bias_, bool training, double momentum, double eps) {
  constexpr const char* op = "batch_norm";
  const DType wide = detail::statistics_dtype(x.dtype());
  const Tensor input = x.contiguous();
  const Tensor weight = weight_.defined() ? weight_.to(wide).contiguous() : weight_;
  const Tensor bias = bias_.defined() ? bias_.to(wide).contiguous() : bias_;
  const int64_t channels = x.size(1), plane = x.size(0) * channels;
  BatchNorm b;
  b.shape = {.outer = x.size(0), .channels = channels, .inner = plane > 0 ? x.numel() / plane : 0};
  b.own_statistics = training;
  b.eps = eps;
  const bool runs = !x.is_meta() && x.numel() > 0;
  Tensor y = empty_like(input), mean, rstd;
  if (training) {
    mean = empty({channels}, {.dtype = wide, .device = x.device()});
    rstd = empty_like(mean);
    if (runs) {
      const Running moving_mean(running_mean, wide), moving_var(running_var, wide);
      kernel_table(x.device().type, op)
          .batch_norm.forward(current_stream(x.device()), x.dtype(), b.shape, input.data(), data_or_null(weight),
                              data_or_null(bias), y.data(), mean.data(), rstd.data(), data_or_null(moving_mean.dense),
                              data_or_null(moving_var.dense), momentum, eps);
      moving_mean.put_back();
      moving_var.put_back();
    }
  } else {
    NoGrad guard;
    mean = running_mean.detach().to(wide).contiguous();
    rstd = rsqrt(running_var.detach().to(wide).contiguous() + eps);
    if (runs)
      kernel_table(x.device().type, op)
          .batch_norm.apply(current_stream(x.device()), x.dtype(), b.shape, input.data(), mean.data(), rstd.data(),
                            data_or_null(weight), data_or_null(bias), y.data());
  }
  const std::vector<Tensor> inputs = {input, weight, bias};
  if (!any_requires_grad(inputs)) return y;
  if (!training) mean = mean.clone();  // the running mean may move on before backward
  return record(
      op, inputs, y,
      [=, x = Saved(input), weight = Saved(weight), bias = Saved(bias)](Node& node, const Gradients& dy) -> Gradients {
        return gradients_of(b, node, x.get(node), weight.get(node), bias.get(node), mean, rstd, dy[0]);
      });
}

}  // namespace

Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight,
                  const Tensor& bias, bool training, double momentum, double eps) {
  constexpr const char* op = "batch_norm";
  check_channels(op, x, {running_mean, running_var, weight, bias});
  WEFT_CHECK(running_mean.defined() == running_var.defined(), op, "expected both running statistics or none");
  WEFT_CHECK(training || running_mean.defined(), op, "without running statistics it can only train");
  WEFT_CHECK(!training || x.numel() != x.size(1) || x.numel() == 0, op,
             "expected more than one value a channel to train, got {}", describe(x));
  return normalized(x.to(detail::compute_dtype_of(x, op)), running_mean, running_var, weight, bias, training, momentum,
                    eps)
      .to(x.dtype());
}

Tensor group_norm(const Tensor& x, int64_t num_groups, const Tensor& weight, const Tensor& bias, double eps) {
  constexpr const char* op = "group_norm";
  check_channels(op, x, {weight, bias});
  WEFT_CHECK(num_groups > 0 && x.size(1) % num_groups == 0, op, "{} channels cannot be split into {} groups", x.size(1),
             num_groups);
  if (const DType compute = detail::compute_dtype_of(x, op); compute != x.dtype())
    return group_norm(x.to(compute), num_groups, weight.defined() ? weight.to(compute) : weight,
                      bias.defined() ? bias.to(compute) : bias, eps)
        .to(x.dtype());
  if (x.numel() == 0) return scaled_and_shifted(x, weight, bias).to(x.dtype());
  const int64_t size = x.numel() / (x.size(0) * num_groups);
  const Tensor y = layer_norm(x.reshape({x.size(0), num_groups, size}), {size}, {}, {}, eps).reshape(x.shape());
  return scaled_and_shifted(y, weight, bias).to(x.dtype());
}

Tensor instance_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight,
                     const Tensor& bias, bool use_input_stats, double momentum, double eps) {
  constexpr const char* op = "instance_norm";
  check_channels(op, x, {running_mean, running_var, weight, bias});
  WEFT_CHECK(x.dim() >= 3, op, "expected x [N, C, …] with at least one dimension to normalise over, got {}",
             describe(x));
  if (!use_input_stats) return batch_norm(x, running_mean, running_var, weight, bias, false, momentum, eps);
  WEFT_CHECK(running_mean.defined() == running_var.defined(), op, "expected both running statistics or none");
  if (x.numel() == 0) return scaled_and_shifted(x, weight, bias).to(x.dtype());
  const int64_t samples = x.size(0), channels = x.size(1), size = x.numel() / (samples * channels);
  WEFT_CHECK(size > 1, op, "expected more than one value a channel and sample, got {}", describe(x));
  // Every channel of every sample is a channel of one large sample.
  const auto repeated = [&](const Tensor& t) { return t.defined() ? repeat(t, {samples}) : t; };
  const Tensor moved_mean = repeated(running_mean.defined() ? running_mean.detach() : running_mean);
  const Tensor moved_var = repeated(running_var.defined() ? running_var.detach() : running_var);
  const Tensor y = batch_norm(x.reshape({1, samples * channels, size}), moved_mean, moved_var, repeated(weight),
                              repeated(bias), true, momentum, eps);
  if (running_mean.defined()) {
    NoGrad guard;
    running_mean.copy_(mean(moved_mean.reshape({samples, channels}), {0}));
    running_var.copy_(mean(moved_var.reshape({samples, channels}), {0}));
  }
  return y.reshape(x.shape());
}

}  // namespace weft
