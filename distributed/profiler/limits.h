// What this machine could do at best, to compare with what a program does.
//
//   double mfu = flops_per_step / seconds_per_step / gemm_limit_flops();
#pragma once
#include <cstdint>

#include "kernels/base/dtype.h"
#include "kernels/base/stream.h"

namespace weft {

// Floating-point operations a second of the f32 matrix product at its best size here, on num_threads() threads. Takes
// about `seconds`; measures, so run it while nothing else does.
double gemm_limit_flops(double seconds = 0.1);
// The same of a device, for f32, bf16 or f16 operands (f32: TF32 where that is allowed).
double gemm_limit_flops(Device device, DType dtype, double seconds = 0.1);
// Bytes a second of a large memcpy, counted once (64 MiB; every byte is read and written).
double memcpy_limit_bytes(double seconds = 0.1);

// Floating-point operations of one training step (forward and backward, a multiplication and an addition each) of a
// transformer like GPT-2 on `tokens` tokens: 6 for every weight of a matrix a token meets, and the two products of
// attention, causal ones counted at the half that is needed.
double transformer_step_flops(int64_t layers, int64_t width, int64_t inner, int64_t vocabulary, int64_t context,
                              int64_t tokens);

}  // namespace weft
