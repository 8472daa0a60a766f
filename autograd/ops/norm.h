// Normalisation: layer, RMS, batch, group and instance norm. f16 and bf16 are computed in f32.
#pragma once
#include "tensor/tensor.h"

namespace weft {

// (x - mean) / sqrt(var + eps) · weight + bias over the last dimensions, which must be `normalized_shape` (Ba et al. 2016,
// arXiv:1607.06450); var divides by the count. weight and bias have that shape or are undefined.
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);
// x / sqrt(mean(x²) + eps) · weight (Zhang & Sennrich 2019, arXiv:1910.07467).
Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {}, double eps = 1e-6);

// (x - mean) / sqrt(var + eps) · weight + bias for each channel of x [N, C, …] (Ioffe & Szegedy 2015, arXiv:1502.03167).
// weight, bias and the running statistics are [C] or undefined; they may be f32 where x is f16 or bf16.
// Training: mean and var (divided by the count) are those of x over all dimensions but the channel's; then running_mean
// becomes (1 - momentum) · running_mean + momentum · mean in place, and running_var the same with the variance divided
// by count - 1. One value a channel is an error. Else mean and var are the running ones, which must be given.
Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight = {},
                  const Tensor& bias = {}, bool training = false, double momentum = 0.1, double eps = 1e-5);
// The C channels of x [N, C, …] in `num_groups` groups, each of which is normalised for itself in each sample (Wu & He
// 2018, arXiv:1803.08494), then · weight + bias by channel, [C] or undefined.
Tensor group_norm(const Tensor& x, int64_t num_groups, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);
// Each channel of each sample of x [N, C, …] is normalised for itself (Ulyanov et al. 2016, arXiv:1607.08022), then
// · weight + bias by channel. Running statistics, if given, move towards the mean over the samples as those of batch_norm
// do, or are used instead where use_input_stats is false.
Tensor instance_norm(const Tensor& x, const Tensor& running_mean = {}, const Tensor& running_var = {},
                     const Tensor& weight = {}, const Tensor& bias = {}, bool use_input_stats = true,
                     double momentum = 0.1, double eps = 1e-5);

}  // namespace weft
