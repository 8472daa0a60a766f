// Softmax and log-softmax along one axis, forward and backward.
//
//   weft::cpu::softmax_kernels.forward(stream, f32, x, y, rows, classes, 1, false);   // over the last axis
//
// A contiguous tensor with the axis in the middle is [outer, size, inner]; the last axis has inner == 1. Devices also
// take bf16 and f16, and compute those in f32.
#pragma once
#include <cstdint>

#include "kernels/base/dtype.h"
#include "kernels/base/stream.h"

namespace weft {

struct SoftmaxKernels {
  // y = exp(x - max) / sum(exp(x - max)) over `size`, or its logarithm. x, y: [outer, size, inner], f32 or f64; y may
  // be x. Entries of -inf count as probability 0; a row of nothing but -inf, or with a NaN or +inf, gives NaN as in torch.
  void (*forward)(Stream stream, DType dtype, const void* x, void* y, int64_t outer, int64_t size, int64_t inner,
                  bool log);
  // From the forward's result: dx = y · (dy - sum(y · dy)), or for the logarithm dx = dy - exp(y) · sum(dy). dx may be dy.
  void (*backward)(Stream stream, DType dtype, const void* y, const void* dy, void* dx, int64_t outer, int64_t size,
                   int64_t inner, bool log);
};

namespace cpu {
extern const SoftmaxKernels softmax_kernels;
}

}  // namespace weft
