// The backward half of the device's NormKernels (norm_backward.cu), for the table at the end of norm.cu.
#pragma once
#include "kernels/base/dtype.h"
#include "kernels/base/stream.h"

namespace weft::WEFT_DEVICE {

void layer_norm_backward(Stream stream, DType dtype, const void* dy, const void* x, const void* weight,
                         const void* mean, const void* rstd, void* dx, void* dweight, void* dbias, int64_t rows,
                         int64_t columns);
void rms_norm_backward(Stream stream, DType dtype, const void* dy, const void* x, const void* weight, const void* rstd,
                       void* dx, void* dweight, int64_t rows, int64_t columns);

}  // namespace weft::WEFT_DEVICE
