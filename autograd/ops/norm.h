// Layer and RMS normalisation.
#pragma once
#include "tensor/tensor.h"

namespace weft {

// (x - mean) / sqrt(var + eps) · weight + bias over the last dimensions, which must be `normalized_shape` (Ba et al. 2016,
// arXiv:1607.06450); var divides by the count. weight and bias have that shape or are undefined. f16 and bf16 are
// computed in f32.
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);
// x / sqrt(mean(x²) + eps) · weight (Zhang & Sennrich 2019, arXiv:1910.07467).
Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {}, double eps = 1e-6);

}  // namespace weft
