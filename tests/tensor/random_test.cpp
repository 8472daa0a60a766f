// Generators: known answers, state, arguments. golden_runner compares every recipe with recorded draws.
#include "tensor/random.h"

#include <gtest/gtest.h>

#include "kernels/base/error.h"

namespace weft {
namespace {

TEST(Random, KnownAnswers) {
  Generator g(5489);  // mt19937's reference seed
  EXPECT_EQ(g.next_u32(), 3499211612u);
  for (int i = 1; i < 9999; ++i) g.next_u32();
  EXPECT_EQ(g.next_u32(), 4123659995u);  // the 10000th, as the C++ standard states it
  g.manual_seed(0);
  EXPECT_EQ(g.uniform_f32(), 0.49625658988952637f);
  g.manual_seed(0);
  EXPECT_FLOAT_EQ(static_cast<float>(g.normal()), 1.5409960746765137f);
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}),
            (std::array<uint32_t, 4>{1713891541u, 3781805453u, 3159862348u, 2600524760u}));
}

TEST(Random, StateRoundTrip) {
  Generator g(7);
  for (int i = 0; i < 700; ++i) g.next_u32();
  g.normal();  // leaves a kept value
  const std::vector<uint8_t> state = g.save();
  Generator other;
  other.load(state);
  EXPECT_EQ(other.save(), state);
  EXPECT_EQ(other.seed(), 7u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(g.normal(), other.normal());

  std::vector<uint8_t> cut(state.begin(), state.end() - 1);
  EXPECT_THROW(other.load(cut), Error);
  std::vector<uint8_t> damaged = state;
  damaged[8 + 624 * 4 + 2] = 9;  // a position beyond the words
  EXPECT_THROW(other.load(damaged), Error);
  EXPECT_THROW(other.load({}), Error);
}

TEST(Random, Arguments) {
  Generator g;
  EXPECT_THROW(g.integer(3, 3), Error);
  EXPECT_THROW(g.bernoulli(1.5), Error);
  EXPECT_THROW(g.exponential(0), Error);
  const int64_t least = INT64_MIN, most = INT64_MAX;
  for (int i = 0; i < 100; ++i) {
    const int64_t value = g.integer(least, most);
    EXPECT_LT(value, most);
  }
  EXPECT_EQ(g.integer(5, 6), 5);
}

TEST(Random, ManualSeedRestartsBothStreams) {
  random_stream().step = 9;
  manual_seed(3);
  EXPECT_EQ(random_stream().step, 0u);
  EXPECT_EQ(random_stream().seed, 3u);
  const uint32_t first = default_generator().next_u32();
  manual_seed(3);
  EXPECT_EQ(default_generator().next_u32(), first);
}

}  // namespace
}  // namespace weft
