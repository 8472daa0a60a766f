#include "nn/models/gpt2.h"

#include <cmath>

#include "autograd/ops/ops.h"
#include "nn/init.h"

namespace weft::nn::models {
namespace {

int64_t inner_size(const GPT2Config& config) { return config.n_inner > 0 ? config.n_inner : 4 * config.n_embd; }

const GPT2Config& checked(const GPT2Config& config) {
  WEFT_CHECK(
      config.vocab_size > 0 && config.n_positions > 0 && config.n_embd > 0 && config.n_layer >= 0 && config.n_head > 0,
      "GPT2", "sizes must be positive: vocab {}, positions {}, width {}, layers {}, heads {}", config.vocab_size,
      config.n_positions, config.n_embd, config.n_layer, config.n_head);
  WEFT_CHECK(config.n_embd % config.n_head == 0, "GPT2", "width {} is not a multiple of {} heads", config.n_embd,
             config.n_head);
  return config;
}

}  // namespace

GPT2Attention::GPT2Attention(ModuleBase* parent, std::string name, const GPT2Config& config)
    : Module(parent, std::move(name)),
      heads_(config.n_head),
      c_attn(this, "c_attn", {.in = config.n_embd, .out = 3 * config.n_embd}),
      c_proj(this, "c_proj", {.in = config.n_embd, .out = config.n_embd}),
      resid_dropout(this, "resid_dropout", {.p = config.dropout}) {
  // Residual projections start smaller, by the number of residual additions (GPT-2, section 2.3).
  init::normal_(c_proj.weight, 0, 0.02 / std::sqrt(2.0 * static_cast<double>(std::max<int64_t>(config.n_layer, 1))));
}

Tensor GPT2Attention::forward(const Tensor& x) {
  const int64_t batch = x.size(0), time = x.size(1), width = x.size(2);
  const std::vector<Tensor> qkv = split(c_attn(x), width, 2);
  const auto by_head = [&](const Tensor& t) {
    return t.reshape({batch, time, heads_, width / heads_}).transpose(1, 2);
  };
  const Tensor y = scaled_dot_product_attention(by_head(qkv[0]), by_head(qkv[1]), by_head(qkv[2]), {.causal = true});
  return resid_dropout(c_proj(y.transpose(1, 2).reshape({batch, time, width})));
}

GPT2Mlp::GPT2Mlp(ModuleBase* parent, std::string name, const GPT2Config& config)
    : Module(parent, std::move(name)),
      c_fc(this, "c_fc", {.in = config.n_embd, .out = inner_size(config)}),
      c_proj(this, "c_proj", {.in = inner_size(config), .out = config.n_embd}),
      dropout(this, "dropout", {.p = config.dropout}) {
  init::normal_(c_proj.weight, 0, 0.02 / std::sqrt(2.0 * static_cast<double>(std::max<int64_t>(config.n_layer, 1))));
}

Tensor GPT2Mlp::forward(const Tensor& x) { return dropout(c_proj(gelu_tanh(c_fc(x)))); }

GPT2Block::GPT2Block(ModuleBase* parent, std::string name, const GPT2Config& config)
    : Module(parent, std::move(name)),
      ln_1(this, "ln_1", {.dim = config.n_embd, .eps = config.layer_norm_epsilon}),
      attn(this, "attn", config),
      ln_2(this, "ln_2", {.dim = config.n_embd, .eps = config.layer_norm_epsilon}),
      mlp(this, "mlp", config) {}

Tensor GPT2Block::forward(const Tensor& x) {
  const Tensor y = x + attn(ln_1(x));
  return y + mlp(ln_2(y));
}

GPT2Transformer::GPT2Transformer(ModuleBase* parent, std::string name, const GPT2Config& config)
    : Module(parent, std::move(name)),
      wte(this, "wte", {.count = config.vocab_size, .dim = config.n_embd, .init_std = 0.02}),
      wpe(this, "wpe", {.count = config.n_positions, .dim = config.n_embd, .init_std = 0.02}),
      drop(this, "drop", {.p = config.dropout}),
      h(this, "h"),
      ln_f(this, "ln_f", {.dim = config.n_embd, .eps = config.layer_norm_epsilon}) {
  for (int64_t i = 0; i < config.n_layer; ++i) h.emplace_back(config);
}

Tensor GPT2Transformer::forward(const Tensor& tokens) {
  Tensor x = drop(wte(tokens) + wpe(arange(tokens.size(1), tokens.device())));
  for (GPT2Block& block : h) x = block(x);
  return ln_f(x);
}

GPT2::GPT2(const GPT2Config& options)
    : config(checked(options)),
      transformer(this, "transformer", config),
      lm_head(this, "lm_head",
              {.in = config.n_embd, .out = config.vocab_size, .bias = false, .weight = transformer.wte.weight}) {}

Tensor GPT2::forward(const Tensor& tokens) {
  WEFT_CHECK(tokens.dim() == 2 && tokens.size(1) <= config.n_positions, "GPT2",
             "expected tokens [batch, time] with time <= {}, got {}", config.n_positions, describe(tokens));
  return lm_head(transformer(tokens));
}

GPT2Config GPT2Config::from_json(const Tree& config) {
  if (const std::string type = config_text(config, "model_type", "gpt2"); type != "gpt2")
    fail(ErrorCode::unsupported, "GPT2", "expected model_type gpt2, got '{}'", type);
  const std::string activation = config_text(config, "activation_function", "gelu_new");
  if (activation != "gelu_new" && activation != "gelu_pytorch_tanh")
    fail(ErrorCode::unsupported, "GPT2", "expected activation_function gelu_new, got '{}'", activation);
  if (!config_flag(config, "scale_attn_weights", true) || config_flag(config, "scale_attn_by_inverse_layer_idx", false))
    fail(ErrorCode::unsupported, "GPT2", "attention is scaled by 1/sqrt(head size) alone here");
  const GPT2Config base;
  return {.vocab_size = config_int(config, "vocab_size", base.vocab_size),
          .n_positions = config_int(config, "n_positions", base.n_positions),
          .n_embd = config_int(config, "n_embd", base.n_embd),
          .n_layer = config_int(config, "n_layer", base.n_layer),
          .n_head = config_int(config, "n_head", base.n_head),
          .n_inner = config_int(config, "n_inner", 0),
          .dropout = config_real(config, "resid_pdrop", 0.1),
          .layer_norm_epsilon = config_real(config, "layer_norm_epsilon", base.layer_norm_epsilon)};
}

std::unique_ptr<GPT2> GPT2::from_pretrained(const std::filesystem::path& folder, PretrainedOptions options) {
  const StateDict weights = renamed(read_weights(folder), [](const std::string& name) {
    // Causal masks that older versions stored.
    if (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias")) return std::string();
    return name.starts_with("transformer.") || name.starts_with("lm_head.") ? name : "transformer." + name;
  });
  auto gpt = std::make_unique<GPT2>(GPT2Config::from_json(read_config(folder)));
  load_pretrained(*gpt, weights, options, "GPT2", folder);
  return gpt;
}

}  // namespace weft::nn::models
