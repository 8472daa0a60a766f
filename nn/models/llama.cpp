#include "nn/models/llama.h"

#include "autograd/ops/ops.h"
#include "nn/init.h"

namespace weft::nn::models {
namespace {

int64_t kv_heads(const LlamaConfig& config) {
  return config.num_key_value_heads > 0 ? config.num_key_value_heads : config.num_attention_heads;
}
int64_t head_dim(const LlamaConfig& config) {
  return config.head_dim > 0 ? config.head_dim : config.hidden_size / config.num_attention_heads;
}

const LlamaConfig& checked(const LlamaConfig& config) {
  WEFT_CHECK(config.vocab_size > 0 && config.hidden_size > 0 && config.intermediate_size > 0 &&
                 config.num_hidden_layers >= 0 && config.num_attention_heads > 0,
             "Llama", "sizes must be positive: vocab {}, hidden {}, intermediate {}, layers {}, heads {}",
             config.vocab_size, config.hidden_size, config.intermediate_size, config.num_hidden_layers,
             config.num_attention_heads);
  WEFT_CHECK(config.head_dim > 0 || config.hidden_size % config.num_attention_heads == 0, "Llama",
             "hidden size {} is not a multiple of {} heads", config.hidden_size, config.num_attention_heads);
  WEFT_CHECK(config.num_attention_heads % kv_heads(config) == 0, "Llama",
             "{} heads are not a multiple of {} key-value heads", config.num_attention_heads, kv_heads(config));
  WEFT_CHECK(head_dim(config) % 2 == 0, "Llama", "rotary positions need an even head size, got {}", head_dim(config));
  return config;
}

// A linear layer as Llama begins: normal(0, initializer_range), a bias of zero.
void begin(const Linear& layer, const LlamaConfig& config) {
  init::normal_(layer.weight, 0, config.initializer_range);
  if (layer.bias.defined()) init::zeros_(layer.bias);
}

RopeScaling scaling_of(const Tree& rope) {
  const std::string type = config_text(rope, "rope_type", config_text(rope, "type", "default"));
  if (type == "default") return {};
  const double factor = config_real(rope, "factor", 1);
  if (type == "linear") return {.factor = factor};
  if (type != "llama3") fail(ErrorCode::unsupported, "Llama", "the rope type '{}' is not supported", type);
  return {.factor = factor,
          .low_freq_factor = config_real(rope, "low_freq_factor", 1),
          .high_freq_factor = config_real(rope, "high_freq_factor", 4),
          .original_context = config_int(rope, "original_max_position_embeddings", 8192)};
}

}  // namespace

LlamaConfig LlamaConfig::from_json(const Tree& config) {
  const std::string type = config_text(config, "model_type", "llama");
  if (type != "llama" && type != "mistral")
    fail(ErrorCode::unsupported, "Llama", "expected model_type llama or mistral, got '{}'", type);
  if (const std::string activation = config_text(config, "hidden_act", "silu"); activation != "silu")
    fail(ErrorCode::unsupported, "Llama", "expected hidden_act silu, got '{}'", activation);
  const LlamaConfig base;
  LlamaConfig result{
      .vocab_size = config_int(config, "vocab_size", base.vocab_size),
      .hidden_size = config_int(config, "hidden_size", base.hidden_size),
      .intermediate_size = config_int(config, "intermediate_size", base.intermediate_size),
      .num_hidden_layers = config_int(config, "num_hidden_layers", base.num_hidden_layers),
      .num_attention_heads = config_int(config, "num_attention_heads", base.num_attention_heads),
      .num_key_value_heads = config_int(config, "num_key_value_heads", 0),
      .head_dim = config_int(config, "head_dim", 0),
      .max_position_embeddings = config_int(config, "max_position_embeddings", base.max_position_embeddings),
      .rms_norm_eps = config_real(config, "rms_norm_eps", base.rms_norm_eps),
      .rope_theta = config_real(config, "rope_theta", base.rope_theta),
      .sliding_window = type == "mistral" ? config_int(config, "sliding_window", 0) : 0,
      .attention_bias = config_flag(config, "attention_bias", false),
      .mlp_bias = config_flag(config, "mlp_bias", false),
      .tie_word_embeddings = config_flag(config, "tie_word_embeddings", false),
      .initializer_range = config_real(config, "initializer_range", base.initializer_range)};
  // Older files have rope_scaling beside rope_theta, newer ones rope_parameters with both.
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.contains(key) || config[key].is_null()) continue;
    result.rope_scaling = scaling_of(config[key]);
    result.rope_theta = config_real(config[key], "rope_theta", result.rope_theta);
  }
  return result;
}

LlamaRMSNorm::LlamaRMSNorm(ModuleBase* parent, std::string name, const LlamaConfig& config)
    : Module(parent, std::move(name)), eps_(config.rms_norm_eps) {
  register_parameter("weight", weight, ones({config.hidden_size}));
}

Tensor LlamaRMSNorm::forward(const Tensor& x) { return rms_norm(x, weight.shape(), weight, eps_); }

LlamaAttention::LlamaAttention(ModuleBase* parent, std::string name, const LlamaConfig& config)
    : Module(parent, std::move(name)),
      heads_(config.num_attention_heads),
      kv_heads_(kv_heads(config)),
      window_(config.sliding_window),
      q_proj(this, "q_proj",
             {.in = config.hidden_size, .out = heads_ * head_dim(config), .bias = config.attention_bias}),
      k_proj(this, "k_proj",
             {.in = config.hidden_size, .out = kv_heads_ * head_dim(config), .bias = config.attention_bias}),
      v_proj(this, "v_proj",
             {.in = config.hidden_size, .out = kv_heads_ * head_dim(config), .bias = config.attention_bias}),
      o_proj(this, "o_proj",
             {.in = heads_ * head_dim(config), .out = config.hidden_size, .bias = config.attention_bias}) {
  for (const Linear* layer : {&q_proj, &k_proj, &v_proj, &o_proj}) begin(*layer, config);
}

Tensor LlamaAttention::forward(const Tensor& x, const LlamaContext& context) {
  const auto turned = [&](const Tensor& t) { return apply_rope(t, context.rope.cos, context.rope.sin); };
  const Tensor q = turned(split_heads(q_proj(x), heads_)), k = turned(split_heads(k_proj(x), kv_heads_));
  const Tensor v = split_heads(v_proj(x), kv_heads_);
  return o_proj(
      merge_heads(scaled_dot_product_attention(q, k, v, {.causal = true, .mask = context.mask, .window = window_})));
}

LlamaMLP::LlamaMLP(ModuleBase* parent, std::string name, const LlamaConfig& config)
    : Module(parent, std::move(name)),
      gate_proj(this, "gate_proj",
                {.in = config.hidden_size, .out = config.intermediate_size, .bias = config.mlp_bias}),
      up_proj(this, "up_proj", {.in = config.hidden_size, .out = config.intermediate_size, .bias = config.mlp_bias}),
      down_proj(this, "down_proj",
                {.in = config.intermediate_size, .out = config.hidden_size, .bias = config.mlp_bias}) {
  for (const Linear* layer : {&gate_proj, &up_proj, &down_proj}) begin(*layer, config);
}

Tensor LlamaMLP::forward(const Tensor& x) { return down_proj(silu(gate_proj(x)) * up_proj(x)); }

LlamaDecoderLayer::LlamaDecoderLayer(ModuleBase* parent, std::string name, const LlamaConfig& config)
    : Module(parent, std::move(name)),
      self_attn(this, "self_attn", config),
      mlp(this, "mlp", config),
      input_layernorm(this, "input_layernorm", config),
      post_attention_layernorm(this, "post_attention_layernorm", config) {}

Tensor LlamaDecoderLayer::forward(const Tensor& x, const LlamaContext& context) {
  const Tensor y = x + self_attn(input_layernorm(x), context);
  return y + mlp(post_attention_layernorm(y));
}

LlamaModel::LlamaModel(ModuleBase* parent, std::string name, const LlamaConfig& config)
    : Module(parent, std::move(name)),
      config_(config),
      embed_tokens(this, "embed_tokens",
                   {.count = config.vocab_size, .dim = config.hidden_size, .init_std = config.initializer_range}),
      layers(this, "layers"),
      norm(this, "norm", config) {
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) layers.emplace_back(config);
}

Tensor LlamaModel::forward(const Tensor& tokens, const Tensor& attention_mask) {
  Tensor x = embed_tokens(tokens);
  LlamaContext context{
      rope_tables(arange(tokens.size(1), tokens.device()),
                  {.dim = head_dim(config_), .base = config_.rope_theta, .scaling = config_.rope_scaling}, x.dtype()),
      {}};
  if (attention_mask.defined()) {
    WEFT_CHECK(attention_mask.shape() == tokens.shape(), "Llama", "expected an attention_mask {}, got {}",
               tokens.shape(), describe(attention_mask));
    context.mask = ne(attention_mask, 0).unsqueeze(1).unsqueeze(1);
  }
  for (LlamaDecoderLayer& layer : layers) x = layer(x, context);
  return norm(x);
}

Llama::Llama(const LlamaConfig& options)
    : config(checked(options)),
      model(this, "model", config),
      lm_head(this, "lm_head",
              {.in = config.hidden_size,
               .out = config.vocab_size,
               .bias = false,
               .weight = config.tie_word_embeddings ? model.embed_tokens.weight : Tensor()}) {
  if (!config.tie_word_embeddings) begin(lm_head, config);
}

Tensor Llama::forward(const Tensor& tokens, const Tensor& attention_mask) {
  WEFT_CHECK(tokens.dim() == 2 && tokens.size(1) <= config.max_position_embeddings, "Llama",
             "expected tokens [batch, time] with time <= {}, got {}", config.max_position_embeddings, describe(tokens));
  return lm_head(model(tokens, attention_mask));
}

std::unique_ptr<Llama> Llama::from_pretrained(const std::filesystem::path& folder, PretrainedOptions options) {
  auto llama = std::make_unique<Llama>(LlamaConfig::from_json(read_config(folder)));
  const bool tied = llama->config.tie_word_embeddings;
  // Old files carry the frequencies of the rotary positions, which follow from the configuration.
  const StateDict weights = renamed(read_weights(folder), [tied](const std::string& name) {
    return name.ends_with("rotary_emb.inv_freq") || (tied && name == "lm_head.weight") ? std::string() : name;
  });
  load_pretrained(*llama, weights, options, "Llama", folder);
  return llama;
}

}  // namespace weft::nn::models
