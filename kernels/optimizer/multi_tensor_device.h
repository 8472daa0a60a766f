// As multi_tensor.h, for devices.
#pragma once
#include "kernels/optimizer/optimizer.h"
#include "kernels/simt/simt.h"

namespace weft::WEFT_DEVICE {

void power_sum(Stream stream, DType dtype, double p, const ConstSlice* slices, int64_t count, double* result);
void squares(Stream stream, DType dtype, const ConstSlice* slices, int64_t count, double* results);
void scale(Stream stream, DType dtype, const MutableSlice* slices, int64_t count, double factor);
void unscale(Stream stream, DType dtype, const MutableSlice* slices, int64_t count, double factor, float* found_inf);

}  // namespace weft::WEFT_DEVICE
