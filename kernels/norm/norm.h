// Layer norm (Ba et al. 2016, arXiv:1607.06450) and RMS norm (Zhang and Sennrich 2019, arXiv:1910.07467) over the last
// axis, forward and backward.
//
//   weft::cpu::norm_kernels.layer_norm_forward(stream, f32, x, weight, bias, y, mean, rstd, rows, columns, 1e-5);
//
// Everything is contiguous and of one dtype, f32 or f64: x, y, dy, dx [rows, columns]; weight, bias and their gradients
// [columns]; mean, rstd [rows]. Gradients of weight and bias are summed over fixed tiles of rows, so their bits do not
// depend on the number of threads. Devices also take bf16 and f16: then mean and rstd are f32, as is all arithmetic.
#pragma once
#include <cstdint>

#include "kernels/base/dtype.h"
#include "kernels/base/stream.h"

namespace weft {

struct NormKernels {
  // y = (x - mean) · rstd · weight + bias with rstd = 1 / sqrt(variance + eps), the variance divided by `columns` and
  // taken in a second pass (a large common offset costs no precision). weight or bias may be null. y may be x.
  void (*layer_norm_forward)(Stream stream, DType dtype, const void* x, const void* weight, const void* bias, void* y,
                             void* mean, void* rstd, int64_t rows, int64_t columns, double eps);
  // With g = dy · weight and h = (x - mean) · rstd: dx = rstd · (g - mean(g) - h · mean(g · h)), dweight = sum(dy · h),
  // dbias = sum(dy) over the rows. weight and any of the results may be null. dx may be dy.
  void (*layer_norm_backward)(Stream stream, DType dtype, const void* dy, const void* x, const void* weight,
                              const void* mean, const void* rstd, void* dx, void* dweight, void* dbias, int64_t rows,
                              int64_t columns);
  // y = x · rstd · weight with rstd = 1 / sqrt(mean(x²) + eps). weight may be null. y may be x.
  void (*rms_norm_forward)(Stream stream, DType dtype, const void* x, const void* weight, void* y, void* rstd,
                           int64_t rows, int64_t columns, double eps);
  // With g = dy · weight and h = x · rstd: dx = rstd · (g - h · mean(g · h)), dweight = sum(dy · h) over the rows.
  // weight, dx and dweight may be null. dx may be dy.
  void (*rms_norm_backward)(Stream stream, DType dtype, const void* dy, const void* x, const void* weight,
                            const void* rstd, void* dx, void* dweight, int64_t rows, int64_t columns);
};

namespace cpu {
extern const NormKernels norm_kernels;
}

}  // namespace weft
