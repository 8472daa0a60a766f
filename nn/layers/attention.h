// Attention as a layer.
//
//   nn::MultiheadAttention attention({.embed_dim = 64, .num_heads = 8, .batch_first = true});
//   auto [y, weights] = attention(x, x, x);
//   auto [z, w] = attention(query, memory, memory, nn::MultiheadAttentionCall{.need_weights = true});
#pragma once
#include <utility>

#include "nn/layers/dropout.h"
#include "nn/layers/linear.h"
#include "nn/module.h"

namespace weft::nn {

struct MultiheadAttentionOptions {
  int64_t embed_dim = 0;
  int64_t num_heads = 1;
  double dropout = 0;  // of the attention weights
  bool bias = true;
  int64_t kdim = 0;          // width of the keys given; 0: embed_dim
  int64_t vdim = 0;          // width of the values given; 0: embed_dim
  bool batch_first = false;  // [batch, time, width], else [time, batch, width]
  DType dtype = DType::f32;
};

// What a call may add. Both masks are PyTorch's: bool, true where a key is NOT seen, or floating, added to the scores.
struct MultiheadAttentionCall {
  Tensor key_padding_mask = {};      // [batch, keys]
  Tensor attn_mask = {};             // [queries, keys], or [batch · num_heads, queries, keys]
  bool is_causal = false;            // query i sees keys 0 … i, without a mask
  bool need_weights = false;         // also return the weights (then no [queries, keys] matrix is spared)
  bool average_attn_weights = true;  // over the heads
};

// MultiHead(Q, K, V) of Vaswani et al. 2017 (arXiv:1706.03762). query, key, value: [time, batch, width], or batch_first,
// or [time, width] → the output in query's layout, and the weights [batch, queries, keys] ([batch, heads, …] unless
// averaged), undefined when not asked for. A query that sees no key gets the output projection's bias.
// Parameters: in_proj_weight [3 embed_dim, embed_dim], or q_proj_weight, k_proj_weight and v_proj_weight where kdim or
// vdim differ (Xavier uniform); in_proj_bias [3 embed_dim], zero; out_proj.weight and out_proj.bias.
struct MultiheadAttention : Module<MultiheadAttention> {
  explicit MultiheadAttention(MultiheadAttentionOptions options) : MultiheadAttention(nullptr, "", options) {}
  MultiheadAttention(ModuleBase* parent, std::string name, MultiheadAttentionOptions options);
  std::pair<Tensor, Tensor> forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const MultiheadAttentionCall& call = {});

  Tensor in_proj_weight;
  Tensor q_proj_weight;
  Tensor k_proj_weight;
  Tensor v_proj_weight;
  Tensor in_proj_bias;

 private:
  std::pair<Tensor, Tensor> batched(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const MultiheadAttentionCall& call);
  MultiheadAttentionOptions options_;

 public:
  Linear out_proj;
};

}  // namespace weft::nn
