// BERT (Devlin et al. 2018, arXiv:1810.04805): learned positions, post-norm blocks, bidirectional attention. Parameter
// names and layouts are those of Hugging Face's BertModel.
//
//   auto bert = nn::models::Bert::from_pretrained("all-MiniLM-L6-v2");
//   auto [hidden, pooled] = (*bert)(tokens, attention_mask);              // [batch, time, hidden], [batch, hidden]
//   Tensor embedding = nn::models::mean_pooling(hidden, attention_mask);  // of sentences, length 1
#pragma once
#include <utility>

#include "nn/layers/dropout.h"
#include "nn/layers/embedding.h"
#include "nn/layers/linear.h"
#include "nn/layers/norm.h"
#include "nn/models/pretrained.h"

namespace weft::nn::models {

struct BertConfig {
  int64_t vocab_size = 30522;
  int64_t hidden_size = 768;
  int64_t num_hidden_layers = 12;
  int64_t num_attention_heads = 12;
  int64_t intermediate_size = 3072;
  int64_t max_position_embeddings = 512;
  int64_t type_vocab_size = 2;
  double layer_norm_eps = 1e-12;
  double hidden_dropout_prob = 0;
  double attention_probs_dropout_prob = 0;
  double initializer_range = 0.02;
  bool gelu_tanh = false;         // the tanh form of gelu instead of the exact one
  bool add_pooling_layer = true;  // pooler.dense, on the first token

  // From config.json of a BERT model; an error for other activations and kinds of positions.
  static BertConfig from_json(const Tree& config);
};

// Words, positions and segments, summed and normalised.
struct BertEmbeddings : Module<BertEmbeddings> {
  BertEmbeddings(ModuleBase* parent, std::string name, const BertConfig& config);
  Tensor forward(const Tensor& tokens, const Tensor& token_type_ids);

  Embedding word_embeddings;
  Embedding position_embeddings;
  Embedding token_type_embeddings;
  LayerNorm layer_norm;  // "LayerNorm"
  Dropout dropout;
};

struct BertSelfAttention : Module<BertSelfAttention> {
  BertSelfAttention(ModuleBase* parent, std::string name, const BertConfig& config);
  Tensor forward(const Tensor& x, const Tensor& mask);

 private:
  int64_t heads_;
  double dropout_;

 public:
  Linear query;
  Linear key;
  Linear value;
};

// dense(x), added to the residual and normalised: behind attention ("output") and behind the feed-forward layer.
struct BertOutput : Module<BertOutput> {
  BertOutput(ModuleBase* parent, std::string name, int64_t in, const BertConfig& config);
  Tensor forward(const Tensor& x, const Tensor& residual);

  Linear dense;
  LayerNorm layer_norm;  // "LayerNorm"
  Dropout dropout;
};

struct BertAttention : Module<BertAttention> {
  BertAttention(ModuleBase* parent, std::string name, const BertConfig& config);
  Tensor forward(const Tensor& x, const Tensor& mask);

  BertSelfAttention self;
  BertOutput output;
};

struct BertIntermediate : Module<BertIntermediate> {
  BertIntermediate(ModuleBase* parent, std::string name, const BertConfig& config);
  Tensor forward(const Tensor& x);

  Linear dense;

 private:
  bool gelu_tanh_;
};

struct BertLayer : Module<BertLayer> {
  BertLayer(ModuleBase* parent, std::string name, const BertConfig& config);
  Tensor forward(const Tensor& x, const Tensor& mask);

  BertAttention attention;
  BertIntermediate intermediate;
  BertOutput output;
};

struct BertEncoder : Module<BertEncoder> {
  BertEncoder(ModuleBase* parent, std::string name, const BertConfig& config);
  Tensor forward(const Tensor& x, const Tensor& mask);

  ModuleList<BertLayer> layer;
};

// tanh(dense(first token)).
struct BertPooler : Module<BertPooler> {
  BertPooler(ModuleBase* parent, std::string name, const BertConfig& config);
  Tensor forward(const Tensor& hidden);

  Linear dense;
};

struct Bert : Module<Bert> {
  explicit Bert(const BertConfig& config);
  // A folder of a BertModel, or of a model with a head on one: names begin with "bert." there, and the head ("cls.",
  // "classifier.", "qa_outputs.") is left aside. A folder without a pooler gives a model without one.
  static std::unique_ptr<Bert> from_pretrained(const std::filesystem::path& folder, PretrainedOptions options = {});
  // tokens i64 [batch, time]; attention_mask [batch, time] with 0 at padding, token_type_ids i64 [batch, time], both or
  // either undefined (all ones; all zeros) → the last layer's output [batch, time, hidden], and the pooler's [batch,
  // hidden] (undefined without one).
  std::pair<Tensor, Tensor> forward(const Tensor& tokens, const Tensor& attention_mask = {},
                                    const Tensor& token_type_ids = {});

  const BertConfig config;
  BertEmbeddings embeddings;
  BertEncoder encoder;
  std::unique_ptr<BertPooler> pooler;
};

// Sentence embeddings (Reimers & Gurevych 2019, arXiv:1908.10084): the mean of hidden [batch, time, width] over the
// tokens whose attention_mask [batch, time] is not 0, divided by its length if `normalize` → [batch, width].
Tensor mean_pooling(const Tensor& hidden, const Tensor& attention_mask, bool normalize = true);

}  // namespace weft::nn::models
