// torch's CPU generator, value for value. With WEFT_GOLDENS (or ../shared/goldens) every recipe is compared with the
// recorded draws; without it the literal values below still are.
#include "tensor/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/base/error.h"

namespace weft {
namespace {

using nlohmann::json;

json read_golden() {
  const char* folder = std::getenv("WEFT_GOLDENS");
  std::ifstream file(std::string(folder ? folder : "../shared/goldens") + "/data_rng.json");
  return file ? json::parse(file) : json();
}

void expect_close(const std::vector<double>& got, const json& want, double rtol, double atol) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const double w = want[i].get<double>();
    EXPECT_LE(std::abs(got[i] - w), atol + rtol * std::abs(w)) << "element " << i << ": " << got[i] << " and " << w;
  }
}

template <class F>
void expect_draws(uint64_t seed, const json& want, F&& draw) {
  Generator generator(seed);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(draw(generator), want[i].get<decltype(draw(generator))>()) << i;
}

template <class T>
std::vector<double> normals(Generator& generator, int64_t count, double mean = 0, double deviation = 1) {
  std::vector<T> values(static_cast<size_t>(count));
  generator.fill_normal(values.data(), count, mean, deviation);
  return {values.begin(), values.end()};
}

template <class T>
std::vector<double> uniforms(Generator& generator, int64_t count, double low = 0, double high = 1) {
  std::vector<T> values(static_cast<size_t>(count));
  generator.fill_uniform(values.data(), count, low, high);
  return {values.begin(), values.end()};
}

TEST(Random, MatchesRecordedDraws) {
  const json golden = read_golden();
  if (golden.is_null()) GTEST_SKIP() << "data_rng.json is not there; set WEFT_GOLDENS";
  for (const json& c : golden["cases"]) {
    const uint64_t seed = c["seed"].get<uint64_t>();
    SCOPED_TRACE(seed);
    expect_draws(seed, c["mt19937_first"], [](Generator& g) { return g.next_u32(); });
    Generator at_620(seed);
    for (int i = 0; i < 620; ++i) at_620.next_u32();
    for (const json& word : c["mt19937_at_620"]) EXPECT_EQ(at_620.next_u32(), word.get<uint32_t>());
    expect_draws(seed, c["rand_f32"], [](Generator& g) { return g.uniform_f32(); });
    expect_draws(seed, c["rand_f64"], [](Generator& g) { return g.uniform_f64(); });
    Generator g(seed);
    const auto restart = [&]() -> Generator& {
      g.manual_seed(seed);
      return g;
    };
    const auto count = [](const json& want) { return static_cast<int64_t>(want.size()); };
    expect_close(uniforms<float>(restart(), count(c["uniform_minus2_3"]), -2, 3), c["uniform_minus2_3"], 1e-6, 1e-6);
    for (const auto& [n, want] : c["randn_f32"].items())
      expect_close(normals<float>(restart(), count(want)), want, 1e-5, 1e-6);
    for (const auto& [n, want] : c["randn_f64"].items())
      expect_close(normals<double>(restart(), count(want)), want, 1e-12, 1e-14);
    const json& shifted = c["normal_mean1_std05"];
    expect_close(normals<float>(restart(), count(shifted), 1, 0.5), shifted, 1e-5, 1e-6);
    expect_draws(seed, c["randint_0_10"], [](Generator& g) { return g.integer(0, 10); });
    expect_draws(seed, c["randint_minus5_1000003"], [](Generator& g) { return g.integer(-5, 1000003); });
    expect_draws(seed, c["randint_0_2p28m1"], [](Generator& g) { return g.integer(0, (1 << 28) - 1); });
    expect_draws(seed, c["randint_0_2p28"], [](Generator& g) { return g.integer(0, 1 << 28); });
    expect_draws(seed, c["randint_0_2p40"], [](Generator& g) { return g.integer(0, int64_t{1} << 40); });
    expect_draws(seed, c["random_int64"], [](Generator& g) { return g.random_i64(); });
    expect_draws(seed, c["random_int32"], [](Generator& g) { return g.random_i32(); });
    expect_draws(seed, c["bernoulli_03"], [](Generator& g) { return g.bernoulli(0.3) ? 1 : 0; });
    restart();
    std::vector<double> waits;
    for (size_t i = 0; i < c["exponential"].size(); ++i) waits.push_back(g.exponential(1.5));
    expect_close(waits, c["exponential"], 1e-12, 0);
    for (const auto& [n, want] : c["randperm"].items()) {
      std::vector<int64_t> order(want.size());
      restart().fill_permutation(order.data(), count(want));
      EXPECT_EQ(json(order), want);
    }

    const json& sequence = c["sequence"];
    restart();
    expect_close(uniforms<float>(g, 3), sequence["rand3"], 0, 0);
    expect_close(normals<float>(g, 2), sequence["randn2"], 1e-5, 1e-6);
    for (const json& want : sequence["randint4"]) EXPECT_EQ(g.integer(0, 1000), want.get<int64_t>());
    expect_close(normals<float>(g, 17), sequence["randn17"], 1e-5, 1e-6);
    std::vector<int64_t> order(5);
    g.fill_permutation(order.data(), 5);
    EXPECT_EQ(json(order), sequence["randperm5"]);
    expect_close(uniforms<float>(g, 1), sequence["rand1"], 0, 0);
  }
  for (const json& c : golden["philox4x32_10"])
    EXPECT_EQ(json(philox4x32_10(c["counter"].get<std::array<uint32_t, 4>>(), c["key"].get<std::array<uint32_t, 2>>())),
              c["output"]);
}

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
