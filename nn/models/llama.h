// Llama (Touvron et al. 2023, arXiv:2302.13971; Llama 3: arXiv:2407.21783): pre-norm blocks with RMSNorm, rotary
// positions, grouped-query attention and SwiGLU (Shazeer 2020, arXiv:2002.05202). Mistral is the same with a sliding
// window. Parameter names and layouts are Hugging Face's.
//
//   nn::models::Llama llama({.vocab_size = 97, .hidden_size = 64, .intermediate_size = 128, .num_hidden_layers = 2,
//                            .num_attention_heads = 8, .num_key_value_heads = 2});
//   auto loaded = nn::models::Llama::from_pretrained("Llama-3.2-1B");
//   Tensor logits = (*loaded)(tokens);                             // tokens i64 [batch, time] → [batch, time, vocab]
#pragma once
#include "autograd/ops/rope.h"
#include "nn/layers/embedding.h"
#include "nn/layers/linear.h"
#include "nn/models/pretrained.h"

namespace weft::nn::models {

struct LlamaConfig {
  int64_t vocab_size = 32000;
  int64_t hidden_size = 4096;
  int64_t intermediate_size = 11008;
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 32;
  int64_t num_key_value_heads = 0;  // 0: as many as heads
  int64_t head_dim = 0;             // 0: hidden_size / heads
  int64_t max_position_embeddings = 2048;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000;
  RopeScaling rope_scaling = {};
  int64_t sliding_window = 0;  // 0: none
  bool attention_bias = false;
  bool mlp_bias = false;
  bool tie_word_embeddings = false;
  double initializer_range = 0.02;

  // From config.json of a Llama or Mistral model; an error for what this class does not do (other activations and
  // rope types).
  static LlamaConfig from_json(const Tree& config);
};

// x / sqrt(mean(x²) + eps) · weight.
struct LlamaRMSNorm : Module<LlamaRMSNorm> {
  LlamaRMSNorm(ModuleBase* parent, std::string name, const LlamaConfig& config);
  Tensor forward(const Tensor& x);

  Tensor weight;

 private:
  double eps_;
};

// What all layers of one call share.
struct LlamaContext {
  RopeTables rope;
  Tensor mask;  // bool [batch, 1, 1, time], or undefined
};

struct LlamaAttention : Module<LlamaAttention> {
  LlamaAttention(ModuleBase* parent, std::string name, const LlamaConfig& config);
  Tensor forward(const Tensor& x, const LlamaContext& context);

 private:
  int64_t heads_, kv_heads_, window_;

 public:
  Linear q_proj;
  Linear k_proj;
  Linear v_proj;
  Linear o_proj;
};

// down(silu(gate(x)) · up(x)).
struct LlamaMLP : Module<LlamaMLP> {
  LlamaMLP(ModuleBase* parent, std::string name, const LlamaConfig& config);
  Tensor forward(const Tensor& x);

  Linear gate_proj;
  Linear up_proj;
  Linear down_proj;
};

struct LlamaDecoderLayer : Module<LlamaDecoderLayer> {
  LlamaDecoderLayer(ModuleBase* parent, std::string name, const LlamaConfig& config);
  Tensor forward(const Tensor& x, const LlamaContext& context);

  LlamaAttention self_attn;
  LlamaMLP mlp;
  LlamaRMSNorm input_layernorm;
  LlamaRMSNorm post_attention_layernorm;
};

// Everything but the head: tokens [batch, time] → [batch, time, hidden_size].
struct LlamaModel : Module<LlamaModel> {
  LlamaModel(ModuleBase* parent, std::string name, const LlamaConfig& config);
  Tensor forward(const Tensor& tokens, const Tensor& attention_mask = {});

 private:
  LlamaConfig config_;

 public:
  Embedding embed_tokens;
  ModuleList<LlamaDecoderLayer> layers;
  LlamaRMSNorm norm;
};

struct Llama : Module<Llama> {
  explicit Llama(const LlamaConfig& config);
  // A folder of a LlamaForCausalLM or MistralForCausalLM.
  static std::unique_ptr<Llama> from_pretrained(const std::filesystem::path& folder, PretrainedOptions options = {});
  // tokens i64 [batch, time], attention_mask [batch, time] with 0 at padding, or undefined → logits [batch, time,
  // vocab_size].
  Tensor forward(const Tensor& tokens, const Tensor& attention_mask = {});

  const LlamaConfig config;
  LlamaModel model;
  Linear lm_head;  // tied to model.embed_tokens if the configuration says so
};

}  // namespace weft::nn::models
