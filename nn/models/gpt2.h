// GPT-2 (Radford et al. 2019, "Language models are unsupervised multitask learners"): learned positions, pre-norm
// blocks, gelu_tanh, and a head tied to the token embedding. Parameter names and layouts are Hugging Face's.
//
//   nn::models::GPT2 gpt({.vocab_size = 100, .n_positions = 128, .n_embd = 128, .n_layer = 4, .n_head = 4});
//   Tensor logits = gpt(tokens);                                   // tokens i64 [batch, time] → [batch, time, vocab]
#pragma once
#include "nn/layers/dropout.h"
#include "nn/layers/embedding.h"
#include "nn/layers/linear.h"
#include "nn/layers/norm.h"
#include "nn/models/pretrained.h"

namespace weft::nn::models {

struct GPT2Config {
  int64_t vocab_size = 50257;
  int64_t n_positions = 1024;
  int64_t n_embd = 768;
  int64_t n_layer = 12;
  int64_t n_head = 12;
  int64_t n_inner = 0;  // width of the feed-forward layer; 0: 4 · n_embd
  double dropout = 0;   // of embeddings, attention output and feed-forward output
  double layer_norm_epsilon = 1e-5;

  // From config.json of a GPT-2 model; an error for other activations and for attention that is not scaled.
  static GPT2Config from_json(const Tree& config);
};

// Causal self-attention over [batch, time, n_embd].
struct GPT2Attention : Module<GPT2Attention> {
  GPT2Attention(ModuleBase* parent, std::string name, const GPT2Config& config);
  Tensor forward(const Tensor& x);

 private:
  int64_t heads_;

 public:
  Conv1D c_attn;  // queries, keys and values side by side
  Conv1D c_proj;
  Dropout resid_dropout;
};

struct GPT2Mlp : Module<GPT2Mlp> {
  GPT2Mlp(ModuleBase* parent, std::string name, const GPT2Config& config);
  Tensor forward(const Tensor& x);

  Conv1D c_fc;
  Conv1D c_proj;
  Dropout dropout;
};

struct GPT2Block : Module<GPT2Block> {
  GPT2Block(ModuleBase* parent, std::string name, const GPT2Config& config);
  Tensor forward(const Tensor& x);

  LayerNorm ln_1;
  GPT2Attention attn;
  LayerNorm ln_2;
  GPT2Mlp mlp;
};

// Everything but the head: tokens [batch, time] → [batch, time, n_embd].
struct GPT2Transformer : Module<GPT2Transformer> {
  GPT2Transformer(ModuleBase* parent, std::string name, const GPT2Config& config);
  Tensor forward(const Tensor& tokens);

  Embedding wte;
  Embedding wpe;
  Dropout drop;
  ModuleList<GPT2Block> h;
  LayerNorm ln_f;
};

struct GPT2 : Module<GPT2> {
  explicit GPT2(const GPT2Config& config);
  // A folder of a GPT2LMHeadModel, or of a GPT2Model, whose names lack "transformer.".
  static std::unique_ptr<GPT2> from_pretrained(const std::filesystem::path& folder, PretrainedOptions options = {});
  // tokens i64 [batch, time], time <= n_positions → logits [batch, time, vocab_size].
  Tensor forward(const Tensor& tokens);

  const GPT2Config config;
  GPT2Transformer transformer;
  Linear lm_head;  // tied to transformer.wte
};

}  // namespace weft::nn::models
