// Copying between layouts and dtypes, and filling.
#pragma once
#include "kernels/base/dtype.h"
#include "kernels/base/stream.h"

namespace weft {

struct CopyKernels {
  // dst[i] = convert(src[i]) over `ndim` (≤ 8) dimensions; strides in elements. The two must not overlap.
  void (*copy)(Stream stream, int ndim, const int64_t* sizes, DType src_dtype, const void* src,
               const int64_t* src_strides, DType dst_dtype, void* dst, const int64_t* dst_strides);
  // dst[0..n) = value, converted; contiguous.
  void (*fill)(Stream stream, DType dtype, void* dst, int64_t n, double value);
};

namespace cpu {
extern const CopyKernels copy_kernels;
}

}  // namespace weft
