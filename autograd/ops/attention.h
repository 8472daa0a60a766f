// Scaled dot product attention.
#pragma once
#include "tensor/tensor.h"

namespace weft {

struct AttentionOptions {
  bool causal = false;  // query i sees keys 0 … i (top-left aligned, as torch)
  Tensor mask = {};     // added to the scores (floating), or bool: true where a key is seen; broadcasts to
                        // [batch, heads, queries, keys]
  double scale = 0;     // 0: 1 / sqrt(head_dim)
  double dropout = 0;   // of the probabilities
};

// softmax(q kᵀ · scale + mask) v. q [B, H, Tq, D], k [B, Hkv, Tk, D], v [B, Hkv, Tk, Dv] → [B, H, Tq, Dv]; H a multiple
// of Hkv (grouped-query attention). Three dimensions are one head. No [Tq, Tk] matrix is stored, forward or backward
// (FlashAttention, arXiv:2205.14135), except for dropout and for a mask that requires a gradient.
// A query that sees no key gives 0 and has no gradient.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions options = {});

}  // namespace weft
