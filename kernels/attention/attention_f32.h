// Inside the attention family: its vectorised f32 kernels, one function a tile of work.
#pragma once
#include "kernels/attention/attention.h"

namespace weft::cpu {

// Queries of a tile of the forward pass; the keys are packed once for each.
inline constexpr int64_t kAttentionQueryTile = 256;

// Work items: forward batch × kv_heads × query tiles, backward batch × kv_heads. Each call computes items [begin, end).
void attention_forward_f32(const AttentionShape& shape, const AttentionInput& q, const AttentionInput& k,
                           const AttentionInput& v, const AttentionOutput& o, float* logsumexp, int64_t begin,
                           int64_t end);
void attention_backward_f32(const AttentionShape& shape, const AttentionInput& q, const AttentionInput& k,
                            const AttentionInput& v, const AttentionInput& o, const float* logsumexp,
                            const AttentionInput& grad_o, const AttentionOutput& dq, const AttentionOutput& dk,
                            const AttentionOutput& dv, int64_t begin, int64_t end);

}  // namespace weft::cpu
