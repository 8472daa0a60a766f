// Scaled dot product attention.
#pragma once
#include <optional>

#include "tensor/tensor.h"

namespace weft {

struct AttentionOptions {
  bool causal = false;  // query i sees keys 0 … i, also where Tq != Tk (aligned at the first key, as torch)
  Tensor mask = {};     // added to the scores (floating), or bool: true where a key is seen; broadcasts to
                        // [batch, heads, queries, keys]. Holds together with causal and window
  std::optional<double> scale = {};  // none: 1 / sqrt(head_dim)
  double dropout = 0;                // of the probabilities
  int64_t window = 0;  // > 0: query i sees the keys j with |i - j| < window (with causal: the last `window`
                       // of them, i among them; Beltagy et al. 2020, arXiv:2004.05150)
};

// softmax(q kᵀ · scale + mask) v. q [B, H, Tq, D], k [B, Hkv, Tk, D], v [B, Hkv, Tk, Dv] → [B, H, Tq, Dv]; H a multiple
// of Hkv (grouped-query attention: query head i uses key head i / (H / Hkv)). Three dimensions are one head, two a batch
// of one as well, more than four several batch dimensions. No [Tq, Tk] matrix of scores is stored, forward or backward
// (FlashAttention, arXiv:2205.14135), except for dropout and for a mask that requires a gradient; a window costs one
// byte a pair of query and key. A query that sees no key gives 0 and has no gradient.
// f64, f32, f16 or bf16, all of one dtype; the mask may have another.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions options = {});

// The matrix of probabilities alone, softmax(q kᵀ · scale + mask) after dropout, for those who want to see it:
// q [B, H, Tq, D], k [B, Hkv, Tk, D] → [B, H, Tq, Tk]. A query that sees no key has zeros.
Tensor attention_weights(const Tensor& q, const Tensor& k, AttentionOptions options = {});

}  // namespace weft
