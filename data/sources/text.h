// Text as a sequence of characters, for language models.
//
//   data::TextCorpus corpus = data::load_text(data::data_directory() / "shakespeare");
//   auto train = std::make_shared<data::TextDataset>(corpus.train, data::TextOptions{.context = 128, .random = true});
//   auto [input, target] = train->get(0);                       // i64[128] each, target one character later
//   corpus.vocabulary.decode(input);                            // "ROMEO: …"
//
// A character is one byte (latin-1).
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"
#include "data/sources/data_directory.h"

namespace weft::data {

// The characters that occur, in the order of their codes: the token of a character is its place.
class Vocabulary {
 public:
  Vocabulary() = default;
  // The distinct characters of `text`; also takes what characters() gives, so that it can be saved.
  explicit Vocabulary(std::string_view text);
  int64_t size() const { return static_cast<int64_t>(characters_.size()); }
  const std::string& characters() const { return characters_; }
  bool contains(char character) const { return token(character) >= 0; }
  // u8[n]. Throws naming the first character that is not in the vocabulary, and its position.
  Tensor encode(std::string_view text) const;
  // From tokens of any integer dtype, in row-major order. Throws naming a token out of range.
  std::string decode(const Tensor& tokens) const;

 private:
  int token(char character) const { return tokens_[static_cast<unsigned char>(character)]; }
  std::string characters_;
  std::array<int16_t, 256> tokens_ = [] {
    std::array<int16_t, 256> none{};
    none.fill(-1);
    return none;
  }();
};

struct TextCorpus {
  Vocabulary vocabulary;
  Tensor train;       // u8[n]
  Tensor validation;  // u8[m]
};

// Every file in `folder` whose name ends in `suffix`, in the order of the names. The last tenth of each file (rounded
// down) is for validation, what stands before it for training; the parts follow one another. The vocabulary is that of
// both. Throws not_found when there is no such folder or no such file in it.
TextCorpus load_text(const std::filesystem::path& folder, std::string_view suffix = "_gut.txt");

struct TextOptions {
  int64_t context = 128;  // tokens of an input
  // False: windows one after another without overlap, each token but the first a target once (a rest shorter than
  // `context` is left out). True: sample i starts at an offset drawn from (seed, i) alone, by Philox, so sample i is the
  // same on any number of ranks and workers.
  bool random = false;
  uint64_t seed = 0;
  int64_t size = 0;  // samples an epoch; 0: as many as windows without overlap. Only with `random`.
};

// Windows of a sequence of tokens: "input" i64[context], and "target" i64[context] that starts one token later.
class TextDataset final : public Dataset {
 public:
  // tokens: one dimension, u8, i32 or i64, more than `context` of them. They are shared, not copied.
  TextDataset(Tensor tokens, const TextOptions& options);
  TextDataset(Tensor tokens, int64_t context) : TextDataset(std::move(tokens), TextOptions{.context = context}) {}
  int64_t size() const override { return size_; }
  Sample get(int64_t index) const override;
  Batch get_batch(std::span<const int64_t> indices) const override;
  bool endless() const override { return options_.random; }
  // Where the window of a sample starts.
  int64_t offset(int64_t index) const;

 private:
  void fill(int64_t index, int64_t* input, int64_t* target) const;
  Tensor tokens_;
  TextOptions options_;
  int64_t size_ = 0;
};

// latin-1 for a terminal, and a prompt from one. Throws when the text is not UTF-8 or has characters beyond latin-1.
std::string latin1_to_utf8(std::string_view text);
std::string utf8_to_latin1(std::string_view text);

}  // namespace weft::data
