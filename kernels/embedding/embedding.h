// Rows of a table by index, and their gradient.
//
//   weft::cpu::embedding_kernels.forward(stream, f32, weight, indices, output, count, vocabulary, width);
//
// Indices outside [0, vocabulary) are an Error naming position and value, before anything is written. Devices report
// them at the next synchronisation and leave the rows concerned alone.
#pragma once
#include <cstdint>

#include "kernels/base/dtype.h"
#include "kernels/base/stream.h"

namespace weft {

struct EmbeddingKernels {
  // output[i, :] = weight[indices[i], :]. weight [vocabulary, width] and output [count, width] of any dtype, indices
  // [count] i64.
  void (*forward)(Stream stream, DType dtype, const void* weight, const int64_t* indices, void* output, int64_t count,
                  int64_t vocabulary, int64_t width);
  // dweight[indices[i], :] += dy[i, :] for i = 0, 1, … in this order, so the bits do not depend on the number of
  // threads. f32 or f64; on devices also bf16 and f16, which are added up in f32 and rounded once. dweight holds zeros
  // or an earlier gradient. Positions with index padding_index add nothing (-1: there is none).
  void (*backward)(Stream stream, DType dtype, const void* dy, const int64_t* indices, void* dweight, int64_t count,
                   int64_t vocabulary, int64_t width, int64_t padding_index);
};

namespace cpu {
extern const EmbeddingKernels embedding_kernels;
}

}  // namespace weft
