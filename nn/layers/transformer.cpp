#include "nn/layers/transformer.h"

#include "autograd/ops/ops.h"

namespace weft::nn {
namespace {

MultiheadAttentionOptions attention_options(const TransformerLayerOptions& options) {
  return {.embed_dim = options.d_model,
          .num_heads = options.nhead,
          .dropout = options.dropout,
          .bias = options.bias,
          .batch_first = options.batch_first,
          .dtype = options.dtype};
}
LinearOptions up(const TransformerLayerOptions& options) {
  return {.in = options.d_model, .out = options.dim_feedforward, .bias = options.bias, .dtype = options.dtype};
}
LinearOptions down(const TransformerLayerOptions& options) {
  return {.in = options.dim_feedforward, .out = options.d_model, .bias = options.bias, .dtype = options.dtype};
}
LayerNormOptions norm_options(const TransformerLayerOptions& options) {
  return {.dim = options.d_model, .eps = options.layer_norm_eps, .bias = options.bias, .dtype = options.dtype};
}
Tensor activated(const Tensor& x, TransformerActivation activation) {
  return activation == TransformerActivation::relu ? relu(x) : gelu(x);
}

// x with the branch f added to it, normalised before f or after the sum.
template <class F>
Tensor residual(const Tensor& x, LayerNorm& norm, bool norm_first, F&& branch) {
  return norm_first ? x + branch(norm(x)) : norm(x + branch(x));
}

template <class Layer>
std::unique_ptr<LayerNorm> final_norm(Layer* parent, const TransformerOptions& options) {
  if (!options.final_norm) return nullptr;
  return std::make_unique<LayerNorm>(parent, "norm", norm_options(options.layer));
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(ModuleBase* parent, std::string name,
                                                 const TransformerLayerOptions& options)
    : Module(parent, std::move(name)),
      options_(options),
      self_attn(this, "self_attn", attention_options(options)),
      linear1(this, "linear1", up(options)),
      dropout(this, "dropout", {.p = options.dropout}),
      linear2(this, "linear2", down(options)),
      norm1(this, "norm1", norm_options(options)),
      norm2(this, "norm2", norm_options(options)),
      dropout1(this, "dropout1", {.p = options.dropout}),
      dropout2(this, "dropout2", {.p = options.dropout}) {}

Tensor TransformerEncoderLayer::forward(const Tensor& src, const Tensor& src_mask, const Tensor& src_key_padding_mask,
                                        bool is_causal) {
  const MultiheadAttentionCall call{
      .key_padding_mask = src_key_padding_mask, .attn_mask = src_mask, .is_causal = is_causal};
  const Tensor x = residual(src, norm1, options_.norm_first,
                            [&](const Tensor& t) { return dropout1(self_attn(t, t, t, call).first); });
  return residual(x, norm2, options_.norm_first, [&](const Tensor& t) {
    return dropout2(linear2(dropout(activated(linear1(t), options_.activation))));
  });
}

TransformerDecoderLayer::TransformerDecoderLayer(ModuleBase* parent, std::string name,
                                                 const TransformerLayerOptions& options)
    : Module(parent, std::move(name)),
      options_(options),
      self_attn(this, "self_attn", attention_options(options)),
      multihead_attn(this, "multihead_attn", attention_options(options)),
      linear1(this, "linear1", up(options)),
      dropout(this, "dropout", {.p = options.dropout}),
      linear2(this, "linear2", down(options)),
      norm1(this, "norm1", norm_options(options)),
      norm2(this, "norm2", norm_options(options)),
      norm3(this, "norm3", norm_options(options)),
      dropout1(this, "dropout1", {.p = options.dropout}),
      dropout2(this, "dropout2", {.p = options.dropout}),
      dropout3(this, "dropout3", {.p = options.dropout}) {}

Tensor TransformerDecoderLayer::forward(const Tensor& tgt, const Tensor& memory, const TransformerDecoderCall& call) {
  const MultiheadAttentionCall own{
      .key_padding_mask = call.tgt_key_padding_mask, .attn_mask = call.tgt_mask, .is_causal = call.tgt_is_causal};
  const MultiheadAttentionCall other{.key_padding_mask = call.memory_key_padding_mask,
                                     .attn_mask = call.memory_mask,
                                     .is_causal = call.memory_is_causal};
  Tensor x = residual(tgt, norm1, options_.norm_first,
                      [&](const Tensor& t) { return dropout1(self_attn(t, t, t, own).first); });
  x = residual(x, norm2, options_.norm_first,
               [&](const Tensor& t) { return dropout2(multihead_attn(t, memory, memory, other).first); });
  return residual(x, norm3, options_.norm_first, [&](const Tensor& t) {
    return dropout3(linear2(dropout(activated(linear1(t), options_.activation))));
  });
}

TransformerEncoder::TransformerEncoder(ModuleBase* parent, std::string name, const TransformerOptions& options)
    : Module(parent, std::move(name)), layers(this, "layers"), norm(final_norm(this, options)) {
  for (int64_t i = 0; i < options.num_layers; ++i) layers.emplace_back(options.layer);
}

Tensor TransformerEncoder::forward(const Tensor& src, const Tensor& mask, const Tensor& src_key_padding_mask,
                                   bool is_causal) {
  Tensor x = src;
  for (TransformerEncoderLayer& layer : layers) x = layer(x, mask, src_key_padding_mask, is_causal);
  return norm ? (*norm)(x) : x;
}

TransformerDecoder::TransformerDecoder(ModuleBase* parent, std::string name, const TransformerOptions& options)
    : Module(parent, std::move(name)), layers(this, "layers"), norm(final_norm(this, options)) {
  for (int64_t i = 0; i < options.num_layers; ++i) layers.emplace_back(options.layer);
}

Tensor TransformerDecoder::forward(const Tensor& tgt, const Tensor& memory, const TransformerDecoderCall& call) {
  Tensor x = tgt;
  for (TransformerDecoderLayer& layer : layers) x = layer(x, memory, call);
  return norm ? (*norm)(x) : x;
}

}  // namespace weft::nn
