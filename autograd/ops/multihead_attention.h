// Attention with its projections, as nn::MultiheadAttention does it, as functions of the weights.
//
//   Tensor y = multihead_self_attention(x, in_weight, in_bias, out_weight, out_bias, {.heads = 8});
#pragma once
#include "autograd/ops/attention.h"

namespace weft {

struct MultiheadOptions {
  int64_t heads = 1;
  bool batch_first = true;          // x [batch, time, width]; else [time, batch, width]
  AttentionOptions attention = {};  // causal, mask, …
};

// x → softmax(q kᵀ / sqrt(width / heads) + mask) v, projected (Vaswani et al. 2017, arXiv:1706.03762). in_weight
// [3 width, width] and in_bias [3 width] hold the projections of q, k and v one after the other; out_weight
// [width, width], out_bias [width]; the biases may be undefined. Without a batch x is [time, width].
Tensor multihead_self_attention(const Tensor& x, const Tensor& in_weight, const Tensor& in_bias,
                                const Tensor& out_weight, const Tensor& out_bias, const MultiheadOptions& options);

// [batch, time, heads · dim] → [batch, heads, time, dim], a view where the strides allow it; and back.
Tensor split_heads(const Tensor& x, int64_t heads);
Tensor merge_heads(const Tensor& x);

}  // namespace weft
