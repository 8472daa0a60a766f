// The properties that the fuzzers look for, over their seeds and a fixed set of changes to them; with any compiler.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "tests/fuzz/properties.h"
#include "tests/support/nightly.h"

namespace weft::fuzz {
namespace {

const int kRounds = test::rounds(20000, 500000);

// One to four changes: a bit, a byte, a piece removed, doubled or taken from another seed.
std::string mutate(std::string text, const std::vector<std::string>& seeds, std::mt19937& random) {
  const auto below = [&](size_t n) { return n == 0 ? 0 : static_cast<size_t>(random()) % n; };
  const size_t changes = 1 + below(4);
  for (size_t i = 0; i < changes && !text.empty(); ++i) {
    const size_t at = below(text.size());
    const size_t length = std::min(text.size() - at, 1 + below(16));
    switch (below(6)) {
      case 0: text[at] = static_cast<char>(text[at] ^ (1 << below(8))); break;
      case 1: text[at] = static_cast<char>(below(256)); break;
      case 2: text.erase(at, length); break;
      case 3: text.insert(at, text.substr(at, length)); break;
      case 4: text[at] = "0123456789[]{}\",:-.e\\ "[below(22)]; break;
      default: {
        const std::string& other = seeds[below(seeds.size())];
        const size_t from = below(other.size());
        text.insert(at, other.substr(from, length));
      }
    }
  }
  return text;
}

TEST(Fuzz, SafetensorsSeedsAndTheirChanges) {
  const std::vector<std::string> seeds = safetensors_seeds();
  std::mt19937 random(1);
  int read = 0;
  const auto check = [&](const std::string& file) {
    read += check_safetensors(std::as_bytes(std::span(file.data(), file.size())));
  };
  for (const std::string& seed : seeds) ASSERT_NO_THROW(check(seed));
  for (int i = 0; i < kRounds; ++i) {
    const std::string& seed = seeds[static_cast<size_t>(i) % seeds.size()];
    std::string file;
    if (random() % 4 == 0) {
      file = mutate(seed, seeds, random);
    } else {  // a changed header with its true length, so that the checks behind the first are reached
      uint64_t length = 0;
      std::memcpy(&length, seed.data(), sizeof(length));
      length = std::min<uint64_t>(length, seed.size() - sizeof(length));
      file = raw_safetensors(mutate(seed.substr(sizeof(length), length), seeds, random),
                             seed.substr(sizeof(length) + length));
    }
    ASSERT_NO_THROW(check(file)) << "round " << i;
  }
  EXPECT_GT(read, kRounds / 200);  // else the changes test nothing but the first checks
}

TEST(Fuzz, JsonSeedsAndTheirChanges) {
  const std::vector<std::string> seeds = json_seeds();
  std::mt19937 random(2);
  int read = 0;
  for (int i = 0; i < kRounds; ++i) {
    const std::string& seed = seeds[static_cast<size_t>(i) % seeds.size()];
    const std::string text = i < static_cast<int>(seeds.size()) ? seed : mutate(seed, seeds, random);
    ASSERT_NO_THROW(read += check_json(text)) << "round " << i;
  }
  EXPECT_GT(read, kRounds / 50);
}

}  // namespace
}  // namespace weft::fuzz
