// Batch norm (Ioffe and Szegedy 2015, arXiv:1502.03167), forward and backward.
//
//   weft::cpu::batch_norm_kernels.forward(stream, f32, {.outer = 32, .channels = 64, .inner = 56 * 56}, x, weight, bias,
//                                         y, mean, rstd, running_mean, running_var, 0.1, 1e-5);
//
// x, y, dy, dx are dense [outer, channels, inner] and f32 or f64, on devices also bf16 or f16. Everything of size
// [channels] is f64 for f64 and else f32, as is the arithmetic. Sums are taken in a fixed order, so no bit depends on the
// number of threads. outer · inner is at least 1.
#pragma once
#include <cstdint>

#include "kernels/base/dtype.h"
#include "kernels/base/stream.h"

namespace weft {

struct BatchNormShape {
  int64_t outer = 1, channels = 1, inner = 1;
  int64_t count() const { return outer * inner; }  // elements of a channel
};

struct BatchNormKernels {
  // Training: mean and rstd = 1 / sqrt(variance + eps) of each channel, the variance divided by the count and taken in a
  // second pass; y = (x - mean) · rstd · weight + bias. Then running_mean becomes (1 - momentum) · running_mean +
  // momentum · mean, and running_var the same with the variance divided by count - 1. weight, bias and both running
  // statistics may be null.
  void (*forward)(Stream stream, DType dtype, const BatchNormShape& shape, const void* x, const void* weight,
                  const void* bias, void* y, void* mean, void* rstd, void* running_mean, void* running_var,
                  double momentum, double eps);
  // The same y from a mean and rstd that are given.
  void (*apply)(Stream stream, DType dtype, const BatchNormShape& shape, const void* x, const void* mean,
                const void* rstd, const void* weight, const void* bias, void* y);
  // With h = (x - mean) · rstd: dweight = sum(dy · h), dbias = sum(dy); dx = rstd · weight · (dy - mean(dy) - h ·
  // mean(dy · h)) when the statistics are those of x (`training`), else rstd · weight · dy. weight and each of the
  // results may be null.
  void (*backward)(Stream stream, DType dtype, const BatchNormShape& shape, const void* dy, const void* x,
                   const void* mean, const void* rstd, const void* weight, bool training, void* dx, void* dweight,
                   void* dbias);
};

namespace cpu {
extern const BatchNormKernels batch_norm_kernels;
}

}  // namespace weft
