// The transformer of Vaswani et al. 2017 (arXiv:1706.03762), with PyTorch's options and parameter names.
//
//   nn::TransformerEncoder encoder({.layer = {.d_model = 64, .nhead = 8, .batch_first = true}, .num_layers = 6});
//   Tensor memory = encoder(x, {}, padding);                       // x [batch, time, 64], padding [batch, time]
//
// Masks are PyTorch's: bool, true where a key is NOT seen, or floating, added to the scores.
#pragma once
#include "nn/layers/attention.h"
#include "nn/layers/norm.h"

namespace weft::nn {

enum class TransformerActivation { relu, gelu };

struct TransformerLayerOptions {
  int64_t d_model = 0;
  int64_t nhead = 1;
  int64_t dim_feedforward = 2048;
  double dropout = 0.1;  // of attention weights, of the hidden layer and of every branch
  TransformerActivation activation = TransformerActivation::relu;
  double layer_norm_eps = 1e-5;
  bool batch_first = false;  // [batch, time, d_model] instead of [time, batch, d_model]
  bool norm_first = false;   // x + f(norm(x)), else norm(x + f(x))
  bool bias = true;
  DType dtype = DType::f32;
};

// Self-attention and a feed-forward network, each with a residual and a norm: self_attn, linear1, linear2, norm1, norm2.
struct TransformerEncoderLayer : Module<TransformerEncoderLayer> {
  explicit TransformerEncoderLayer(const TransformerLayerOptions& options)
      : TransformerEncoderLayer(nullptr, "", options) {}
  TransformerEncoderLayer(ModuleBase* parent, std::string name, const TransformerLayerOptions& options);
  // src_mask [time, time] or [batch · nhead, time, time]; src_key_padding_mask [batch, time].
  Tensor forward(const Tensor& src, const Tensor& src_mask = {}, const Tensor& src_key_padding_mask = {},
                 bool is_causal = false);

 private:
  TransformerLayerOptions options_;

 public:
  MultiheadAttention self_attn;
  Linear linear1;
  Dropout dropout;
  Linear linear2;
  LayerNorm norm1;
  LayerNorm norm2;
  Dropout dropout1;
  Dropout dropout2;
};

// What a decoder's call may add: masks over the target itself and over the memory.
struct TransformerDecoderCall {
  Tensor tgt_mask = {};
  Tensor memory_mask = {};
  Tensor tgt_key_padding_mask = {};
  Tensor memory_key_padding_mask = {};
  bool tgt_is_causal = false;
  bool memory_is_causal = false;
};

// Self-attention, attention to `memory`, feed-forward: self_attn, multihead_attn, linear1, linear2, norm1 … norm3.
struct TransformerDecoderLayer : Module<TransformerDecoderLayer> {
  explicit TransformerDecoderLayer(const TransformerLayerOptions& options)
      : TransformerDecoderLayer(nullptr, "", options) {}
  TransformerDecoderLayer(ModuleBase* parent, std::string name, const TransformerLayerOptions& options);
  Tensor forward(const Tensor& tgt, const Tensor& memory, const TransformerDecoderCall& call = {});

 private:
  TransformerLayerOptions options_;

 public:
  MultiheadAttention self_attn;
  MultiheadAttention multihead_attn;
  Linear linear1;
  Dropout dropout;
  Linear linear2;
  LayerNorm norm1;
  LayerNorm norm2;
  LayerNorm norm3;
  Dropout dropout1;
  Dropout dropout2;
  Dropout dropout3;
};

struct TransformerOptions {
  TransformerLayerOptions layer = {};
  int64_t num_layers = 1;
  bool final_norm = false;  // a LayerNorm called "norm" behind the last layer
};

// `num_layers` layers, each with its own initial values: "layers.0", ….
struct TransformerEncoder : Module<TransformerEncoder> {
  explicit TransformerEncoder(const TransformerOptions& options) : TransformerEncoder(nullptr, "", options) {}
  TransformerEncoder(ModuleBase* parent, std::string name, const TransformerOptions& options);
  Tensor forward(const Tensor& src, const Tensor& mask = {}, const Tensor& src_key_padding_mask = {},
                 bool is_causal = false);

  ModuleList<TransformerEncoderLayer> layers;
  std::unique_ptr<LayerNorm> norm;  // none without final_norm
};

struct TransformerDecoder : Module<TransformerDecoder> {
  explicit TransformerDecoder(const TransformerOptions& options) : TransformerDecoder(nullptr, "", options) {}
  TransformerDecoder(ModuleBase* parent, std::string name, const TransformerOptions& options);
  Tensor forward(const Tensor& tgt, const Tensor& memory, const TransformerDecoderCall& call = {});

  ModuleList<TransformerDecoderLayer> layers;
  std::unique_ptr<LayerNorm> norm;
};

}  // namespace weft::nn
