// Rotary position embedding (Su et al. 2021, "RoFormer", arXiv:2104.09864): queries and keys are rotated by angles that
// grow with the position, so that their product depends on the distance alone.
//
//   const RopeTables tables = rope_tables(arange(time), {.dim = 64, .base = 10000});   // once a model and length
//   Tensor q = apply_rope(queries, tables.cos, tables.sin);                            // [batch, heads, time, 64]
#pragma once
#include "tensor/tensor.h"

namespace weft {

// Llama 3.1's rule for contexts beyond the trained one: angles that turn more than high_freq_factor times over
// original_context stay, those below low_freq_factor turns are divided by `factor`, between the two it is a line.
// With low_freq_factor 0 all are divided (position interpolation, Chen et al. 2023, arXiv:2306.15595).
struct RopeScaling {
  double factor = 1;
  double low_freq_factor = 0;
  double high_freq_factor = 0;
  int64_t original_context = 0;
};

struct RopeOptions {
  int64_t dim = 0;           // of the rotated part of a head; even; 0: the whole head
  double base = 10000;       // pair i of dim / 2 turns by position · base^(-2i / dim)
  bool interleaved = false;  // pairs are elements 2i and 2i + 1, else i and i + dim / 2 (as Hugging Face's Llama)
  RopeScaling scaling = {};
};

struct RopeTables {
  Tensor cos;
  Tensor sin;
};

// Cosines and sines of all angles. positions: [time], or [batch, time] with a position for every sample, of whole
// numbers → [time, dim / 2], or [batch, 1, time, dim / 2] for heads in between; f32, or f64 where `dtype` is.
RopeTables rope_tables(const Tensor& positions, const RopeOptions& options, DType dtype = DType::f32);
// (a cos - b sin, b cos + a sin) for each pair (a, b) of the last dimension of x [.., time, head]. cos and sin have half
// the rotated size last and broadcast to x before it; what a larger head has beyond is left as it is. The tables take no
// gradient of their own if they require none.
Tensor apply_rope(const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved = false);
// Both: x [.., time, head], positions [time] or [batch, time] (then x is [batch, heads, time, head]).
Tensor rope(const Tensor& x, const Tensor& positions, RopeOptions options = {});

}  // namespace weft
