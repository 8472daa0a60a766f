#include "nn/models/bert.h"

#include <array>

#include "autograd/ops/ops.h"
#include "nn/init.h"

namespace weft::nn::models {
namespace {

const BertConfig& checked(const BertConfig& config) {
  WEFT_CHECK(
      config.vocab_size > 0 && config.hidden_size > 0 && config.intermediate_size > 0 &&
          config.num_hidden_layers >= 0 && config.num_attention_heads > 0 && config.max_position_embeddings > 0 &&
          config.type_vocab_size > 0,
      "Bert",
      "sizes must be positive: vocab {}, hidden {}, intermediate {}, layers {}, heads {}, positions {}, types {}",
      config.vocab_size, config.hidden_size, config.intermediate_size, config.num_hidden_layers,
      config.num_attention_heads, config.max_position_embeddings, config.type_vocab_size);
  WEFT_CHECK(config.hidden_size % config.num_attention_heads == 0, "Bert",
             "hidden size {} is not a multiple of {} heads", config.hidden_size, config.num_attention_heads);
  return config;
}

// A linear layer as BERT begins: normal(0, initializer_range), a bias of zero.
void begin(const Linear& layer, const BertConfig& config) {
  init::normal_(layer.weight, 0, config.initializer_range);
  init::zeros_(layer.bias);
}
EmbeddingOptions table(int64_t count, const BertConfig& config) {
  return {.count = count, .dim = config.hidden_size, .init_std = config.initializer_range};
}
LayerNormOptions norm_options(const BertConfig& config) {
  return {.dim = config.hidden_size, .eps = config.layer_norm_eps};
}

}  // namespace

BertConfig BertConfig::from_json(const Tree& config) {
  if (const std::string type = config_text(config, "model_type", "bert"); type != "bert")
    fail(ErrorCode::unsupported, "Bert", "expected model_type bert, got '{}'", type);
  const std::string activation = config_text(config, "hidden_act", "gelu");
  if (activation != "gelu" && activation != "gelu_new" && activation != "gelu_pytorch_tanh")
    fail(ErrorCode::unsupported, "Bert", "expected hidden_act gelu or gelu_new, got '{}'", activation);
  if (const std::string kind = config_text(config, "position_embedding_type", "absolute"); kind != "absolute")
    fail(ErrorCode::unsupported, "Bert", "expected position_embedding_type absolute, got '{}'", kind);
  const BertConfig base;
  return {.vocab_size = config_int(config, "vocab_size", base.vocab_size),
          .hidden_size = config_int(config, "hidden_size", base.hidden_size),
          .num_hidden_layers = config_int(config, "num_hidden_layers", base.num_hidden_layers),
          .num_attention_heads = config_int(config, "num_attention_heads", base.num_attention_heads),
          .intermediate_size = config_int(config, "intermediate_size", base.intermediate_size),
          .max_position_embeddings = config_int(config, "max_position_embeddings", base.max_position_embeddings),
          .type_vocab_size = config_int(config, "type_vocab_size", base.type_vocab_size),
          .layer_norm_eps = config_real(config, "layer_norm_eps", base.layer_norm_eps),
          .hidden_dropout_prob = config_real(config, "hidden_dropout_prob", 0.1),
          .attention_probs_dropout_prob = config_real(config, "attention_probs_dropout_prob", 0.1),
          .initializer_range = config_real(config, "initializer_range", base.initializer_range),
          .gelu_tanh = activation != "gelu"};
}

BertEmbeddings::BertEmbeddings(ModuleBase* parent, std::string name, const BertConfig& config)
    : Module(parent, std::move(name)),
      word_embeddings(this, "word_embeddings", table(config.vocab_size, config)),
      position_embeddings(this, "position_embeddings", table(config.max_position_embeddings, config)),
      token_type_embeddings(this, "token_type_embeddings", table(config.type_vocab_size, config)),
      layer_norm(this, "LayerNorm", norm_options(config)),
      dropout(this, "dropout", {.p = config.hidden_dropout_prob}) {}

Tensor BertEmbeddings::forward(const Tensor& tokens, const Tensor& token_type_ids) {
  // Without segments every token is of the first.
  const Tensor segments = token_type_ids.defined() ? token_type_embeddings(token_type_ids)
                                                   : token_type_embeddings(arange(1, tokens.device()));
  const Tensor positions = position_embeddings(arange(tokens.size(1), tokens.device()));
  return dropout(layer_norm(word_embeddings(tokens) + segments + positions));
}

BertSelfAttention::BertSelfAttention(ModuleBase* parent, std::string name, const BertConfig& config)
    : Module(parent, std::move(name)),
      heads_(config.num_attention_heads),
      dropout_(config.attention_probs_dropout_prob),
      query(this, "query", {.in = config.hidden_size, .out = config.hidden_size}),
      key(this, "key", {.in = config.hidden_size, .out = config.hidden_size}),
      value(this, "value", {.in = config.hidden_size, .out = config.hidden_size}) {
  for (const Linear* layer : {&query, &key, &value}) begin(*layer, config);
}

Tensor BertSelfAttention::forward(const Tensor& x, const Tensor& mask) {
  return merge_heads(scaled_dot_product_attention(split_heads(query(x), heads_), split_heads(key(x), heads_),
                                                  split_heads(value(x), heads_),
                                                  {.mask = mask, .dropout = training() ? dropout_ : 0}));
}

BertOutput::BertOutput(ModuleBase* parent, std::string name, int64_t in, const BertConfig& config)
    : Module(parent, std::move(name)),
      dense(this, "dense", {.in = in, .out = config.hidden_size}),
      layer_norm(this, "LayerNorm", norm_options(config)),
      dropout(this, "dropout", {.p = config.hidden_dropout_prob}) {
  begin(dense, config);
}

Tensor BertOutput::forward(const Tensor& x, const Tensor& residual) { return layer_norm(dropout(dense(x)) + residual); }

BertAttention::BertAttention(ModuleBase* parent, std::string name, const BertConfig& config)
    : Module(parent, std::move(name)), self(this, "self", config), output(this, "output", config.hidden_size, config) {}

Tensor BertAttention::forward(const Tensor& x, const Tensor& mask) { return output(self(x, mask), x); }

BertIntermediate::BertIntermediate(ModuleBase* parent, std::string name, const BertConfig& config)
    : Module(parent, std::move(name)),
      dense(this, "dense", {.in = config.hidden_size, .out = config.intermediate_size}),
      gelu_tanh_(config.gelu_tanh) {
  begin(dense, config);
}

Tensor BertIntermediate::forward(const Tensor& x) { return gelu_tanh_ ? weft::gelu_tanh(dense(x)) : gelu(dense(x)); }

BertLayer::BertLayer(ModuleBase* parent, std::string name, const BertConfig& config)
    : Module(parent, std::move(name)),
      attention(this, "attention", config),
      intermediate(this, "intermediate", config),
      output(this, "output", config.intermediate_size, config) {}

Tensor BertLayer::forward(const Tensor& x, const Tensor& mask) {
  const Tensor y = attention(x, mask);
  return output(intermediate(y), y);
}

BertEncoder::BertEncoder(ModuleBase* parent, std::string name, const BertConfig& config)
    : Module(parent, std::move(name)), layer(this, "layer") {
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) layer.emplace_back(config);
}

Tensor BertEncoder::forward(const Tensor& x, const Tensor& mask) {
  Tensor y = x;
  for (BertLayer& one : layer) y = one(y, mask);
  return y;
}

BertPooler::BertPooler(ModuleBase* parent, std::string name, const BertConfig& config)
    : Module(parent, std::move(name)), dense(this, "dense", {.in = config.hidden_size, .out = config.hidden_size}) {
  begin(dense, config);
}

Tensor BertPooler::forward(const Tensor& hidden) { return tanh(dense(hidden.select(1, 0))); }

Bert::Bert(const BertConfig& options)
    : config(checked(options)), embeddings(this, "embeddings", config), encoder(this, "encoder", config) {
  if (config.add_pooling_layer) pooler = std::make_unique<BertPooler>(this, "pooler", config);
}

std::pair<Tensor, Tensor> Bert::forward(const Tensor& tokens, const Tensor& attention_mask,
                                        const Tensor& token_type_ids) {
  WEFT_CHECK(tokens.dim() == 2 && tokens.size(1) <= config.max_position_embeddings, "Bert",
             "expected tokens [batch, time] with time <= {}, got {}", config.max_position_embeddings, describe(tokens));
  for (const Tensor& other : {attention_mask, token_type_ids})
    WEFT_CHECK(!other.defined() || other.shape() == tokens.shape(), "Bert",
               "expected attention_mask and token_type_ids of the tokens' shape {}, got {}", tokens.shape(),
               describe(other));
  const Tensor mask = attention_mask.defined() ? ne(attention_mask, 0).unsqueeze(1).unsqueeze(1) : Tensor();
  const Tensor hidden = encoder(embeddings(tokens, token_type_ids), mask);
  return {hidden, pooler ? (*pooler)(hidden) : Tensor()};
}

std::unique_ptr<Bert> Bert::from_pretrained(const std::filesystem::path& folder, PretrainedOptions options) {
  const StateDict stored = read_weights(folder);
  const StateDict weights = renamed(stored, [](std::string name) {
    for (const char* head : {"cls.", "classifier.", "qa_outputs."})
      if (name.starts_with(head)) return std::string();
    if (name.starts_with("bert.")) name.erase(0, 5);
    if (name == "embeddings.position_ids") return std::string();  // a buffer of older versions: 0, 1, 2, …
    // As the first BERT called them.
    if (name.ends_with("LayerNorm.gamma")) return name.substr(0, name.size() - 5) + "weight";
    if (name.ends_with("LayerNorm.beta")) return name.substr(0, name.size() - 4) + "bias";
    return name;
  });
  BertConfig config = BertConfig::from_json(read_config(folder));
  config.add_pooling_layer = weights.contains("pooler.dense.weight");
  auto bert = std::make_unique<Bert>(config);
  load_pretrained(*bert, weights, options, "Bert", folder);
  return bert;
}

Tensor mean_pooling(const Tensor& hidden, const Tensor& attention_mask, bool normalize) {
  WEFT_CHECK(hidden.dim() == 3 && attention_mask.shape() == Shape({hidden.size(0), hidden.size(1)}), "mean_pooling",
             "expected hidden [batch, time, width] and a mask [batch, time], got {} and {}", describe(hidden),
             describe(attention_mask));
  const Tensor weight = ne(attention_mask, 0).to(hidden.dtype()).unsqueeze(2);
  const Tensor average = sum(hidden * weight, {1}) / clamp(sum(weight, {1}), 1e-9);
  return normalize ? average / clamp(norm(average, 2, {1}, true), 1e-12) : average;
}

}  // namespace weft::nn::models
