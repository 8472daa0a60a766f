#include "nn/layers/norm.h"

#include <limits>

#include "autograd/ops/ops.h"

namespace weft::nn {
namespace {

Shape shape_or_dim(const Shape& shape, int64_t dim) { return shape.empty() ? Shape({dim}) : shape; }

Tensor ones_or_none(bool wanted, const Shape& shape, DType dtype) { return wanted ? ones(shape, dtype) : Tensor(); }
Tensor zeros_or_none(bool wanted, const Shape& shape, DType dtype) { return wanted ? zeros(shape, dtype) : Tensor(); }

}  // namespace

LayerNorm::LayerNorm(ModuleBase* parent, std::string name, LayerNormOptions options)
    : Module(parent, std::move(name)),
      normalized_shape_(shape_or_dim(options.normalized_shape, options.dim)),
      eps_(options.eps) {
  register_parameter("weight", weight, ones_or_none(options.elementwise_affine, normalized_shape_, options.dtype));
  register_parameter("bias", bias,
                     zeros_or_none(options.elementwise_affine && options.bias, normalized_shape_, options.dtype));
}

Tensor LayerNorm::forward(const Tensor& x) { return layer_norm(x, normalized_shape_, weight, bias, eps_); }

RMSNorm::RMSNorm(ModuleBase* parent, std::string name, RMSNormOptions options)
    : Module(parent, std::move(name)),
      normalized_shape_(shape_or_dim(options.normalized_shape, options.dim)),
      eps_(options.eps) {
  register_parameter("weight", weight, ones_or_none(options.elementwise_affine, normalized_shape_, options.dtype));
}

Tensor RMSNorm::forward(const Tensor& x) {
  const double epsilon = x.dtype() == f64   ? std::numeric_limits<double>::epsilon()
                         : x.dtype() == f32 ? std::numeric_limits<float>::epsilon()
                         : x.dtype() == f16 ? 0x1p-10
                                            : 0x1p-7;  // bf16
  return rms_norm(x, normalized_shape_, weight, eps_.value_or(epsilon));
}

BatchNorm::BatchNorm(ModuleBase* parent, std::string name, BatchNormOptions options, const char* type, int min_dims,
                     int max_dims)
    : Module(parent, std::move(name)), options_(options), type_(type), min_dims_(min_dims), max_dims_(max_dims) {
  const Shape shape{options.features};
  register_parameter("weight", weight, ones_or_none(options.affine, shape, options.dtype));
  register_parameter("bias", bias, zeros_or_none(options.affine, shape, options.dtype));
  const bool tracked = options.track_running_stats;
  register_buffer("running_mean", running_mean, zeros_or_none(tracked, shape, options.dtype));
  register_buffer("running_var", running_var, ones_or_none(tracked, shape, options.dtype));
  register_buffer("num_batches_tracked", num_batches_tracked, tracked ? zeros({}, i64) : Tensor());
}

Tensor BatchNorm::forward(const Tensor& x) {
  WEFT_CHECK(x.dim() >= min_dims_ && x.dim() <= max_dims_, type_, "expected {}{} dimensions, got {}",
             min_dims_ == max_dims_ ? "" : "2 or ", max_dims_, describe(x));
  const bool moves = training() && running_mean.defined();
  double momentum = options_.momentum.value_or(0);
  if (moves) {
    num_batches_tracked.add_(ones({}, num_batches_tracked.options()));
    if (!options_.momentum && !x.is_meta()) momentum = 1 / num_batches_tracked.item<double>();
  }
  return batch_norm(x, running_mean, running_var, weight, bias, training() || !running_mean.defined(), momentum,
                    options_.eps);
}

GroupNorm::GroupNorm(ModuleBase* parent, std::string name, GroupNormOptions options)
    : Module(parent, std::move(name)), options_(options) {
  WEFT_CHECK(options.groups > 0 && options.channels % options.groups == 0, "GroupNorm",
             "{} channels cannot be split into {} groups", options.channels, options.groups);
  register_parameter("weight", weight, ones_or_none(options.affine, {options.channels}, options.dtype));
  register_parameter("bias", bias, zeros_or_none(options.affine, {options.channels}, options.dtype));
}

Tensor GroupNorm::forward(const Tensor& x) { return group_norm(x, options_.groups, weight, bias, options_.eps); }

InstanceNorm::InstanceNorm(ModuleBase* parent, std::string name, InstanceNormOptions options, const char* type,
                           int dims)
    : Module(parent, std::move(name)), options_(options), type_(type), dims_(dims) {
  const Shape shape{options.features};
  register_parameter("weight", weight, ones_or_none(options.affine, shape, options.dtype));
  register_parameter("bias", bias, zeros_or_none(options.affine, shape, options.dtype));
  const bool tracked = options.track_running_stats;
  register_buffer("running_mean", running_mean, zeros_or_none(tracked, shape, options.dtype));
  register_buffer("running_var", running_var, ones_or_none(tracked, shape, options.dtype));
  register_buffer("num_batches_tracked", num_batches_tracked, tracked ? zeros({}, i64) : Tensor());
}

Tensor InstanceNorm::forward(const Tensor& x) {
  WEFT_CHECK(x.dim() == dims_ || x.dim() == dims_ - 1, type_, "expected {} or {} dimensions, got {}", dims_ - 1, dims_,
             describe(x));
  if (x.dim() < dims_) return forward(x.unsqueeze(0)).squeeze(0);
  return instance_norm(x, running_mean, running_var, weight, bias, training() || !running_mean.defined(),
                       options_.momentum, options_.eps);
}

}  // namespace weft::nn
