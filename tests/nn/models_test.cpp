// Models of Hugging Face folders: configurations, shards, names; what is missing or unexpected; causality and padding.
#include <fmt/format.h>

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include <unistd.h>

#include "nn/nn.h"
#include "tensor/json.h"
#include "tensor/safetensors.h"

namespace weft::nn::models {
namespace {

using Names = std::vector<std::string>;

// A folder of this test's own, removed afterwards.
struct Folder {
  std::filesystem::path path;
  Folder() {
    static int made = 0;
    path = std::filesystem::temp_directory_path() /
           fmt::format("weft_models_{}_{}_{}", ::testing::UnitTest::GetInstance()->current_test_info()->name(),
                       ::getpid(), made++);
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  void config(const Tree& tree) const { write_file(path / "config.json", to_json(tree, 2)); }
  void weights(const StateDict& state) const { save_safetensors(state, path / "model.safetensors"); }
  // Every second tensor in each of two shards.
  void shards(const StateDict& state) const {
    StateDict parts[2];
    Tree map = Tree::map();
    size_t i = 0;
    for (const auto& [name, tensor] : state) {
      const std::string file = fmt::format("model-{:05}-of-00002.safetensors", i % 2 + 1);
      map[name] = file;
      parts[i++ % 2][name] = tensor;
    }
    for (size_t part = 0; part < 2; ++part)
      save_safetensors(parts[part], path / fmt::format("model-{:05}-of-00002.safetensors", part + 1));
    write_file(path / "model.safetensors.index.json",
               to_json(Tree::map({{"metadata", Tree::map({{"total_size", 1}})}, {"weight_map", map}})));
  }
};

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}
#define EXPECT_TEXT(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

Tree llama_json() {
  return Tree::map({{"model_type", "llama"},
                    {"vocab_size", 11},
                    {"hidden_size", 8},
                    {"intermediate_size", 12},
                    {"num_hidden_layers", 2},
                    {"num_attention_heads", 4},
                    {"num_key_value_heads", 2},
                    {"max_position_embeddings", 32},
                    {"rope_theta", 500000},
                    {"rope_scaling", Tree::map({{"rope_type", "llama3"},
                                                {"factor", 8.0},
                                                {"low_freq_factor", 1.0},
                                                {"high_freq_factor", 4.0},
                                                {"original_max_position_embeddings", 16}})}});
}
Tensor some_tokens(int64_t batch, int64_t time, int64_t vocab) {
  return remainder(arange(batch * time) * 7 + 3, vocab).to(i64).reshape({batch, time});
}

TEST(Llama, FromOneFileAndFromShards) {
  manual_seed(1);
  const Llama made(LlamaConfig::from_json(llama_json()));
  Llama& llama = const_cast<Llama&>(made);
  const Tensor tokens = some_tokens(2, 6, 11);
  const std::vector<double> logits = llama(tokens).to_vector();
  Folder one, many;
  one.config(llama_json());
  many.config(llama_json());
  one.weights(llama.state_dict());
  many.shards(llama.state_dict());
  for (const Folder* folder : {&one, &many}) {
    const auto loaded = Llama::from_pretrained(folder->path);
    EXPECT_FALSE(loaded->training());
    EXPECT_EQ((*loaded)(tokens).to_vector(), logits);
  }
  EXPECT_EQ(Llama::from_pretrained(one.path, {.dtype = bf16})->lm_head.weight.dtype(), bf16);
  std::filesystem::remove(many.path / "model-00002-of-00002.safetensors");
  EXPECT_TEXT(error_of([&] { Llama::from_pretrained(many.path); }), "model-00002-of-00002.safetensors");
  EXPECT_TEXT(error_of([&] { Llama::from_pretrained(many.path / "nowhere"); }), "nowhere");
}

TEST(Llama, NamesWhatIsMissingAndUnexpected) {
  const Llama llama(LlamaConfig::from_json(llama_json()));
  StateDict state = llama.state_dict();
  state.erase("model.norm.weight");
  state.erase("lm_head.weight");
  state["model.surplus"] = ones({1});
  state["model.layers.0.self_attn.rotary_emb.inv_freq"] = ones({1});
  Folder folder;
  folder.config(llama_json());
  folder.weights(state);
  const std::string text = error_of([&] { Llama::from_pretrained(folder.path); });
  EXPECT_TEXT(text, "missing: [model.norm.weight, lm_head.weight]");
  EXPECT_TEXT(text, "unexpected: [model.surplus]");
  LoadReport report;
  const auto loaded = Llama::from_pretrained(folder.path, {.report = &report});
  EXPECT_EQ(report.missing, (Names{"model.norm.weight", "lm_head.weight"}));
  EXPECT_EQ(report.unexpected, Names{"model.surplus"});
  EXPECT_EQ(loaded->model.embed_tokens.weight.to_vector(), llama.model.embed_tokens.weight.to_vector());
  state["model.norm.weight"] = ones({3});
  folder.weights(state);
  EXPECT_TEXT(error_of([&] { Llama::from_pretrained(folder.path, {.report = &report}); }), "model.norm.weight is [3]");
}

TEST(Llama, TiedHeadWindowAndOtherTypes) {
  Tree json = llama_json();
  json["tie_word_embeddings"] = true;
  const Llama llama(LlamaConfig::from_json(json));
  EXPECT_TRUE(llama.lm_head.weight.is(llama.model.embed_tokens.weight));
  StateDict state = llama.state_dict();
  state.erase("lm_head.weight");
  Folder folder;
  folder.config(json);
  folder.weights(state);
  const auto loaded = Llama::from_pretrained(folder.path);
  EXPECT_EQ(loaded->lm_head.weight.to_vector(), llama.model.embed_tokens.weight.to_vector());
  EXPECT_TRUE(loaded->lm_head.weight.is(loaded->model.embed_tokens.weight));
  json["model_type"] = "mistral";
  json["sliding_window"] = 3;
  EXPECT_EQ(LlamaConfig::from_json(json).sliding_window, 3);
  json["hidden_act"] = "gelu";
  EXPECT_TEXT(error_of([&] { LlamaConfig::from_json(json); }), "gelu");
  json["hidden_act"] = nullptr;
  json["rope_scaling"]["rope_type"] = "yarn";
  EXPECT_TEXT(error_of([&] { LlamaConfig::from_json(json); }), "yarn");
  EXPECT_THROW(Llama({.hidden_size = 6, .num_attention_heads = 4}), Error);
}

TEST(Llama, CausalAndPadding) {
  manual_seed(2);
  Llama llama(LlamaConfig::from_json(llama_json()));
  const NoGrad guard;
  const Tensor tokens = some_tokens(1, 8, 11), other = tokens.clone();
  other.select(1, 7).fill_(1);
  EXPECT_EQ(llama(tokens).slice(1, 0, 7).to_vector(), llama(other).slice(1, 0, 7).to_vector());
  // Padding in front shifts the positions, which only their differences matter for.
  Tensor padded = cat({zeros({1, 2}, i64), tokens}, 1), mask = ones({1, 10}, i64);
  mask.slice(1, 0, 2).fill_(0);
  EXPECT_LE(amax(abs(llama(padded, mask).slice(1, 2, {}) - llama(tokens))).item(), 1e-4);
  EXPECT_THROW(llama(zeros({1, 33}, i64)), Error);
  EXPECT_THROW(llama(tokens, mask), Error);
}

TEST(Gpt2, FromFoldersOfBothKinds) {
  const GPT2 gpt({.vocab_size = 11, .n_positions = 8, .n_embd = 6, .n_layer = 2, .n_head = 3});
  const Tree json = Tree::map({{"model_type", "gpt2"},
                               {"vocab_size", 11},
                               {"n_positions", 8},
                               {"n_embd", 6},
                               {"n_layer", 2},
                               {"n_head", 3},
                               {"n_inner", nullptr}});
  StateDict state = gpt.state_dict(), bare;
  state.erase("lm_head.weight");
  for (const auto& [name, tensor] : state) bare[name.substr(std::string("transformer.").size())] = tensor;
  bare["h.0.attn.bias"] = ones({1, 1, 8, 8});
  Folder with_head, without;
  with_head.config(json);
  without.config(json);
  with_head.weights(state);
  without.weights(bare);
  for (const Folder* folder : {&with_head, &without}) {
    const auto loaded = GPT2::from_pretrained(folder->path);
    for (const auto& [name, tensor] : gpt.state_dict())
      EXPECT_EQ(loaded->state_dict().at(name).to_vector(), tensor.to_vector()) << name;
  }
  Tree relu = json;
  relu["activation_function"] = "relu";
  EXPECT_THROW(GPT2Config::from_json(relu), Error);
}

TEST(Bert, FromFoldersOfBothKinds) {
  manual_seed(3);
  const Tree json = Tree::map({{"model_type", "bert"},
                               {"vocab_size", 11},
                               {"hidden_size", 8},
                               {"num_hidden_layers", 1},
                               {"num_attention_heads", 2},
                               {"intermediate_size", 12},
                               {"max_position_embeddings", 16}});
  Bert bert(BertConfig::from_json(json));
  EXPECT_TRUE(bert.state_dict().contains("encoder.layer.0.attention.output.LayerNorm.weight"));
  bert.eval();
  const Tensor tokens = some_tokens(2, 6, 11);
  Tensor mask = ones({2, 6}, i64);
  mask.select(0, 1).slice(0, 4, 6).fill_(0);
  const NoGrad guard;
  const auto [hidden, pooled] = bert(tokens, mask);
  EXPECT_EQ(pooled.shape(), (Shape{2, 8}));
  // Padding is not seen, and does not count in the mean.
  const Tensor shorter = tokens.slice(1, 0, 4);
  const Tensor alone = bert(shorter).first;
  EXPECT_LE(amax(abs(hidden[1].slice(0, 0, 4) - alone[1])).item(), 1e-5);
  const Tensor embeddings = mean_pooling(hidden, mask);
  EXPECT_LE(amax(abs(embeddings[1] - mean_pooling(alone, ones({2, 4}, i64))[1])).item(), 1e-5);
  EXPECT_NEAR(sum(square(embeddings[0])).item(), 1, 1e-5);

  StateDict with_head;
  for (const auto& [name, tensor] : bert.state_dict()) {
    std::string old = "bert." + name;
    if (old.ends_with("LayerNorm.weight")) old.replace(old.size() - 6, 6, "gamma");
    if (old.ends_with("LayerNorm.bias")) old.replace(old.size() - 4, 4, "beta");
    if (!name.starts_with("pooler.")) with_head[old] = tensor;
  }
  with_head["cls.predictions.bias"] = ones({11});
  Folder folder;
  folder.config(json);
  folder.weights(with_head);
  const auto loaded = Bert::from_pretrained(folder.path);
  const auto [again, none] = (*loaded)(tokens, mask, zeros({2, 6}, i64));
  EXPECT_EQ(again.to_vector(), hidden.to_vector());
  EXPECT_FALSE(none.defined()) << "the folder has no pooler";
}

TEST(ResNet, ForwardOfBothKindsAndNames) {
  manual_seed(4);
  ResNetConfig config;
  config.embedding_size = 8;
  config.hidden_sizes = {16, 32};
  config.depths = {1, 2};
  config.bottleneck = true;
  config.num_labels = 3;
  ResNet net(config);
  const StateDict state = net.state_dict();
  for (const char* name : {"conv1.weight", "bn1.running_var", "layer1.0.conv3.weight", "layer1.0.downsample.0.weight",
                           "layer2.1.bn3.bias", "fc.bias"})
    EXPECT_TRUE(state.contains(name)) << name;
  EXPECT_FALSE(state.contains("layer2.1.downsample.0.weight"));
  const Tensor x = randn({2, 3, 32, 32});
  EXPECT_EQ(net(x).shape(), (Shape{2, 3}));
  EXPECT_EQ(net.features(x).shape(), (Shape{2, 32}));
  EXPECT_THROW(net(randn({2, 1, 32, 32})), Error);
  config.depths = {1};
  EXPECT_THROW(ResNet{config}, Error);
}

TEST(ResNet, NamesOfTransformersAreTranslated) {
  manual_seed(5);
  Tree json = Tree::map({{"model_type", "resnet"},
                         {"embedding_size", 4},
                         {"hidden_sizes", Tree::list({4, 8})},
                         {"depths", Tree::list({1, 1})},
                         {"layer_type", "basic"},
                         {"id2label", Tree::map({{"0", "cat"}, {"1", "dog"}, {"2", "hen"}})}});
  ResNet net(ResNetConfig::from_json(json));
  net.eval();
  const Tensor x = randn({1, 3, 16, 16});
  const NoGrad guard;
  StateDict theirs;
  for (const auto& [name, tensor] : net.state_dict()) {
    std::string to = name;
    const auto replace = [&](const std::string& from, const std::string& by) {
      if (const size_t at = to.find(from); at != std::string::npos) to.replace(at, from.size(), by);
    };
    const bool inner = to.starts_with("layer");
    replace("layer1.", "resnet.encoder.stages.0.layers.");
    replace("layer2.", "resnet.encoder.stages.1.layers.");
    replace("downsample.0", "shortcut.convolution");
    replace("downsample.1", "shortcut.normalization");
    const std::string stem = inner ? "" : "resnet.embedder.embedder.";
    replace("conv1", inner ? "layer.0.convolution" : stem + "convolution");
    replace("bn1", inner ? "layer.0.normalization" : stem + "normalization");
    replace("conv2", "layer.1.convolution");
    replace("bn2", "layer.1.normalization");
    replace("fc.", "classifier.1.");
    theirs[to] = tensor;
  }
  Folder folder;
  folder.config(json);
  folder.weights(theirs);
  EXPECT_EQ((*ResNet::from_pretrained(folder.path))(x).to_vector(), net(x).to_vector());
  // timm's folders have torchvision's names.
  const ResNetConfig timm = ResNetConfig::from_json(Tree::map({{"architecture", "resnet50"}, {"num_classes", 10}}));
  EXPECT_TRUE(timm.bottleneck);
  EXPECT_EQ(timm.depths, (std::vector<int64_t>{3, 4, 6, 3}));
  EXPECT_EQ(timm.num_labels, 10);
  EXPECT_THROW(ResNetConfig::from_json(Tree::map({{"architecture", "vit"}})), Error);
}

}  // namespace
}  // namespace weft::nn::models
