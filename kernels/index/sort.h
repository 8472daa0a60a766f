// The CPU sort behind IndexKernels::sort.
#pragma once
#include <cstdint>

#include "kernels/base/dtype.h"
#include "kernels/base/stream.h"

namespace weft::cpu {

void sort(Stream stream, DType dtype, const void* x, int64_t rows, int64_t n, int64_t k, bool descending, void* values,
          int64_t* indices);

}  // namespace weft::cpu
