// Scaled dot product attention, softmax(scale · Q Kᵀ + mask) V, forward and backward, without a [queries, keys] matrix.
//
//   AttentionShape shape{.batch = 8, .heads = 6, .kv_heads = 6, .queries = 256, .keys = 256, .head_dim = 64,
//                        .value_dim = 64, .scale = 0.125, .causal = true};
//   weft::cpu::attention_kernels.forward(stream, f32, shape, {q, …strides}, {k, …}, {v, …}, {o, …}, logsumexp);
//
// FlashAttention (Dao et al. 2022, arXiv:2205.14135): keys are visited in blocks with a running maximum and sum a query,
// the backward pass computes the probabilities again from the stored logsumexp. Every operand has strides for batch,
// head and time, so a packed QKV projection needs no permuted copy. With fewer key-value heads than heads, head h uses
// key-value head h / (heads / kv_heads) (grouped-query attention, Ainslie et al. 2023, arXiv:2305.13245).
#pragma once
#include <cstdint>

#include "kernels/base/dtype.h"
#include "kernels/base/stream.h"

namespace weft {

// Added to the scores (same dtype as them), or of dtype boolean: true where a query may see a key. Strides in elements,
// 0 along a broadcast dimension.
struct AttentionMask {
  const void* data = nullptr;  // none
  DType dtype = DType::boolean;
  int64_t batch_stride = 0;
  int64_t head_stride = 0;
  int64_t query_stride = 0;
  int64_t key_stride = 0;
};

struct AttentionShape {
  int64_t batch = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;  // divides heads
  int64_t queries = 0;
  int64_t keys = 0;
  int64_t head_dim = 0;   // of queries and keys
  int64_t value_dim = 0;  // of values and outputs
  double scale = 1;
  bool causal = false;  // query i sees the keys 0 … i, also when queries != keys (torch's top-left alignment)
  AttentionMask mask{};
};

// [batch, heads or kv_heads, time, dim] with any strides (in elements); elements of one vector are contiguous.
struct AttentionInput {
  const void* data = nullptr;
  int64_t batch_stride = 0;
  int64_t head_stride = 0;
  int64_t time_stride = 0;
};
struct AttentionOutput {
  void* data = nullptr;
  int64_t batch_stride = 0;
  int64_t head_stride = 0;
  int64_t time_stride = 0;
};

struct AttentionKernels {
  // f32 or f64, on devices also bf16 and f16. Writes o and logsumexp[batch, heads, queries] (contiguous, same dtype, f32
  // for the halves). A query that may see no key gives o = 0 and logsumexp = -inf.
  void (*forward)(Stream stream, DType dtype, const AttentionShape& shape, AttentionInput q, AttentionInput k,
                  AttentionInput v, AttentionOutput o, void* logsumexp);
  // Writes dq, dk, dv from the forward's o and logsumexp and the gradient of o. A query that may see no key has and
  // causes no gradient. The result does not depend on the number of threads.
  void (*backward)(Stream stream, DType dtype, const AttentionShape& shape, AttentionInput q, AttentionInput k,
                   AttentionInput v, AttentionInput o, const void* logsumexp, AttentionInput grad_o, AttentionOutput dq,
                   AttentionOutput dk, AttentionOutput dv);
};

namespace cpu {
extern const AttentionKernels attention_kernels;
}

}  // namespace weft
