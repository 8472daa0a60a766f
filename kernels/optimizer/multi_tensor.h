// The kernels of OptimizerKernels that are no optimizer steps: sums over lists of arrays, and scaling.
#pragma once
#include "kernels/optimizer/optimizer.h"

namespace weft::cpu {

void power_sum(Stream stream, DType dtype, double p, const ConstSlice* slices, int64_t count, double* result);
void squares(Stream stream, DType dtype, const ConstSlice* slices, int64_t count, double* results);
void scale(Stream stream, DType dtype, const MutableSlice* slices, int64_t count, double factor);
void unscale(Stream stream, DType dtype, const MutableSlice* slices, int64_t count, double factor, float* found_inf);

}  // namespace weft::cpu
