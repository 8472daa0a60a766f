// The parts of the device's IndexKernels that have files of their own, for the table at the end of index.cu.
#pragma once
#include "kernels/base/dtype.h"
#include "kernels/base/stream.h"

namespace weft::WEFT_DEVICE {

int64_t nonzero(Stream stream, const bool* flags, int64_t n, int64_t* out);  // nonzero.cu
void sort(Stream stream, DType dtype, const void* x, int64_t rows, int64_t n, int64_t k, bool descending, void* values,
          int64_t* indices);  // sort.cu

}  // namespace weft::WEFT_DEVICE
