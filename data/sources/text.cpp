#include "data/sources/text.h"

#include <algorithm>

#include "tensor/factory.h"
#include "tensor/file.h"
#include "tensor/random.h"

namespace weft::data {
namespace {

template <class F>
void visit_tokens(DType dtype, std::string_view op, F&& f) {
  switch (dtype) {
    case DType::u8: return f(TypeTag<uint8_t>{});
    case DType::i32: return f(TypeTag<int32_t>{});
    case DType::i64: return f(TypeTag<int64_t>{});
    default: fail(ErrorCode::unsupported, op, "expected tokens of dtype u8, i32 or i64, got {}", dtype);
  }
}

}  // namespace

Vocabulary::Vocabulary(std::string_view text) {
  std::array<bool, 256> seen{};
  for (const char character : text) seen[static_cast<unsigned char>(character)] = true;
  for (size_t code = 0; code < seen.size(); ++code) {
    if (!seen[code]) continue;
    tokens_[code] = static_cast<int16_t>(characters_.size());
    characters_ += static_cast<char>(code);
  }
}

Tensor Vocabulary::encode(std::string_view text) const {
  Tensor tokens = empty({static_cast<int64_t>(text.size())}, u8);
  auto* out = tokens.data<uint8_t>();
  for (size_t i = 0; i < text.size(); ++i) {
    const int value = token(text[i]);
    WEFT_CHECK(value >= 0, "encode", "character {} (code {}) is not among the {} of the vocabulary", i,
               static_cast<int>(static_cast<unsigned char>(text[i])), size());
    out[i] = static_cast<uint8_t>(value);
  }
  return tokens;
}

std::string Vocabulary::decode(const Tensor& tokens) const {
  const Tensor packed = tokens.contiguous();
  std::string text(static_cast<size_t>(packed.numel()), '\0');
  visit_tokens(packed.dtype(), "decode", [&](auto type) {
    const auto* values = packed.data<typename decltype(type)::type>();
    for (size_t i = 0; i < text.size(); ++i) {
      const auto value = static_cast<int64_t>(values[i]);
      WEFT_CHECK(value >= 0 && value < size(), "decode", "token {} is out of range for a vocabulary of {}", value,
                 size());
      text[i] = characters_[static_cast<size_t>(value)];
    }
  });
  return text;
}

TextCorpus load_text(const std::filesystem::path& folder, std::string_view suffix) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(require_data(folder, "load_text"), error))
    if (entry.is_regular_file() && entry.path().filename().string().ends_with(suffix)) files.push_back(entry.path());
  if (error) fail(ErrorCode::io, "load_text", "{}: {}", folder.string(), error.message());
  if (files.empty()) fail(ErrorCode::not_found, "load_text", "no file *{} in {}", suffix, folder.string());
  std::sort(files.begin(), files.end());

  std::string train, validation;
  for (const auto& file : files) {
    const std::string text = read_file(file);
    const size_t cut = text.size() - text.size() / 10;
    train.append(text, 0, cut);
    validation.append(text, cut);
  }
  TextCorpus corpus{.vocabulary = Vocabulary(train + validation), .train = {}, .validation = {}};
  corpus.train = corpus.vocabulary.encode(train);
  corpus.validation = corpus.vocabulary.encode(validation);
  return corpus;
}

TextDataset::TextDataset(Tensor tokens, const TextOptions& options) : tokens_(std::move(tokens)), options_(options) {
  WEFT_CHECK(tokens_.defined() && tokens_.dim() == 1, "text_dataset", "expected tokens of one dimension, got {}",
             describe(tokens_));
  visit_tokens(tokens_.dtype(), "text_dataset", [](auto) {});
  WEFT_CHECK(options.context >= 1, "text_dataset", "expected a context of at least 1, got {}", options.context);
  WEFT_CHECK(tokens_.numel() > options.context, "text_dataset", "a context of {} needs at least {} tokens, got {}",
             options.context, options.context + 1, tokens_.numel());
  WEFT_CHECK(options.size >= 0 && (options.size == 0 || options.random), "text_dataset",
             "size is for random windows, and at least 0; got {}", options.size);
  tokens_ = tokens_.contiguous();
  size_ = options.size > 0 ? options.size : (tokens_.numel() - 1) / options.context;
}

int64_t TextDataset::offset(int64_t index) const {
  WEFT_CHECK(index >= 0 && (options_.random || index < size_), "text_dataset",
             "index {} is out of range for {} samples", index, size_);
  if (!options_.random) return index * options_.context;
  const auto at = static_cast<uint64_t>(index);
  const auto words = philox4x32_10({static_cast<uint32_t>(at), static_cast<uint32_t>(at >> 32), 0, 0},
                                   {static_cast<uint32_t>(options_.seed), static_cast<uint32_t>(options_.seed >> 32)});
  const auto places = static_cast<uint64_t>(tokens_.numel() - options_.context);
  return static_cast<int64_t>((static_cast<uint64_t>(words[0]) << 32 | words[1]) % places);
}

void TextDataset::fill(int64_t index, int64_t* input, int64_t* target) const {
  const int64_t start = offset(index);
  visit_tokens(tokens_.dtype(), "text_dataset", [&](auto type) {
    const auto* from = tokens_.data<typename decltype(type)::type>() + start;
    std::copy_n(from, options_.context, input);
    std::copy_n(from + 1, options_.context, target);
  });
}

Sample TextDataset::get(int64_t index) const {
  Tensor input = empty({options_.context}, i64), target = empty({options_.context}, i64);
  fill(index, input.data<int64_t>(), target.data<int64_t>());
  return {{"input", input}, {"target", target}};
}

Batch TextDataset::get_batch(std::span<const int64_t> indices) const {
  const Shape shape = {static_cast<int64_t>(indices.size()), options_.context};
  Tensor input = empty(shape, i64), target = empty(shape, i64);
  int64_t row = 0;
  for (const int64_t index : indices) {
    fill(index, input.data<int64_t>() + row, target.data<int64_t>() + row);
    row += options_.context;
  }
  return {{"input", input}, {"target", target}};
}

std::string latin1_to_utf8(std::string_view text) {
  std::string result;
  for (const char character : text) {
    const auto code = static_cast<unsigned char>(character);
    if (code < 0x80) {
      result += character;
    } else {
      result += static_cast<char>(0xc0 | (code >> 6));
      result += static_cast<char>(0x80 | (code & 0x3f));
    }
  }
  return result;
}

std::string utf8_to_latin1(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto code = static_cast<unsigned char>(text[i]);
    if (code < 0x80) {
      result += text[i];
      continue;
    }
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0u;
    WEFT_CHECK((code == 0xc2 || code == 0xc3) && (next & 0xc0) == 0x80, "utf8_to_latin1",
               "byte {} does not begin a character of latin-1 in UTF-8", i);
    result += static_cast<char>((code & 0x03) << 6 | (next & 0x3f));
    ++i;
  }
  return result;
}

}  // namespace weft::data
