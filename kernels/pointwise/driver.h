// What the family units give to the driver (pointwise.cpp).
#pragma once
#include "kernels/pointwise/pointwise.h"

namespace weft::cpu {

// Computes n contiguous elements of the compute dtype; `in` in the order of PointwisePass.
using ChunkFunction = void (*)(const void* const* in, void* out, int64_t n, const double* parameters);

// The chunk function of an op of that family for the best instruction set of this machine; null where there is none.
ChunkFunction arithmetic_chunk(PointwiseOp op, PointwisePass pass, DType compute);
ChunkFunction exponential_chunk(PointwiseOp op, PointwisePass pass, DType compute);
ChunkFunction activation_chunk(PointwiseOp op, PointwisePass pass, DType compute);
ChunkFunction comparison_chunk(PointwiseOp op, PointwisePass pass, DType compute);
ChunkFunction loss_chunk(PointwiseOp op, PointwisePass pass, DType compute);

}  // namespace weft::cpu
