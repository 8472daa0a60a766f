#include "tensor/random.h"

#include "tests/golden/random.h"
#include "tests/golden/report.h"

namespace weft::testing {
namespace {

// Of the recipes that take logarithms and roots in f32.
constexpr Tolerance kRounded{1e-5, 1e-6};

void expect_list(const std::vector<double>& got, const Tree& want, Tolerance tolerance, const std::string& what) {
  WEFT_CHECK(static_cast<int64_t>(got.size()) == want.size(), "golden", "{}: {} values, expected {}", what, got.size(),
             want.size());
  for (size_t i = 0; i < got.size(); ++i)
    expect_close(got[i], want[static_cast<int64_t>(i)].as_double(), tolerance, fmt::format("{}[{}]", what, i));
}

template <class T>
std::vector<double> uniforms(Generator& generator, const Tree& want, double low = 0, double high = 1) {
  std::vector<T> values(static_cast<size_t>(want.size()));
  generator.fill_uniform(values.data(), want.size(), low, high);
  return {values.begin(), values.end()};
}
template <class T>
std::vector<double> normals(Generator& generator, const Tree& want, double mean = 0, double deviation = 1) {
  std::vector<T> values(static_cast<size_t>(want.size()));
  generator.fill_normal(values.data(), want.size(), mean, deviation);
  return {values.begin(), values.end()};
}
Tree permutation(Generator& generator, const Tree& want) {
  std::vector<int64_t> order(static_cast<size_t>(want.size()));
  generator.fill_permutation(order.data(), want.size());
  return Tree(Tree::List(order.begin(), order.end()));
}

void check_generator(const Tree& c) {
  const auto seed = static_cast<uint64_t>(c["seed"].as_int());
  const auto expect_draws = [&](const char* key, Tolerance tolerance, auto&& draw) {
    Generator generator(seed);
    std::vector<double> got;
    for (int64_t i = 0; i < c[key].size(); ++i) got.push_back(static_cast<double>(draw(generator)));
    expect_list(got, c[key], tolerance, key);
  };
  const auto expect_integers = [&](const char* key, auto&& draw) {
    Generator generator(seed);
    for (int64_t i = 0; i < c[key].size(); ++i) expect_equal(draw(generator), c[key][i], fmt::format("{}[{}]", key, i));
  };
  expect_integers("mt19937_first", [](Generator& g) { return g.next_u32(); });
  Generator late(seed);
  for (int i = 0; i < 620; ++i) late.next_u32();
  for (const Tree& word : c["mt19937_at_620"].as_list()) expect_equal(late.next_u32(), word, "mt19937_at_620");
  expect_draws("rand_f32", {}, [](Generator& g) { return g.uniform_f32(); });
  expect_draws("rand_f64", {}, [](Generator& g) { return g.uniform_f64(); });
  expect_draws("exponential", {1e-12, 0}, [](Generator& g) { return g.exponential(1.5); });
  expect_draws("bernoulli_03", {}, [](Generator& g) { return g.bernoulli(0.3); });
  expect_integers("randint_0_10", [](Generator& g) { return g.integer(0, 10); });
  expect_integers("randint_minus5_1000003", [](Generator& g) { return g.integer(-5, 1000003); });
  expect_integers("randint_0_2p28m1", [](Generator& g) { return g.integer(0, (1 << 28) - 1); });
  expect_integers("randint_0_2p28", [](Generator& g) { return g.integer(0, 1 << 28); });
  expect_integers("randint_0_2p40", [](Generator& g) { return g.integer(0, int64_t{1} << 40); });
  expect_integers("random_int64", [](Generator& g) { return g.random_i64(); });
  expect_integers("random_int32", [](Generator& g) { return g.random_i32(); });

  Generator g(seed);
  const auto restart = [&]() -> Generator& {
    g.manual_seed(seed);
    return g;
  };
  expect_list(uniforms<float>(restart(), c["uniform_minus2_3"], -2, 3), c["uniform_minus2_3"], {1e-6, 1e-6},
              "uniform_minus2_3");
  for (const auto& [n, want] : c["randn_f32"].as_map())
    expect_list(normals<float>(restart(), want), want, kRounded, "randn_f32 of " + n);
  for (const auto& [n, want] : c["randn_f64"].as_map())
    expect_list(normals<double>(restart(), want), want, {1e-12, 1e-14}, "randn_f64 of " + n);
  const Tree& shifted = c["normal_mean1_std05"];
  expect_list(normals<float>(restart(), shifted, 1, 0.5), shifted, kRounded, "normal_mean1_std05");
  for (const auto& [n, want] : c["randperm"].as_map())
    expect_equal(permutation(restart(), want), want, "randperm of " + n);

  const Tree& sequence = c["sequence"];
  restart();
  expect_list(uniforms<float>(g, sequence["rand3"]), sequence["rand3"], {}, "rand3");
  expect_list(normals<float>(g, sequence["randn2"]), sequence["randn2"], kRounded, "randn2");
  for (const Tree& want : sequence["randint4"].as_list()) expect_equal(g.integer(0, 1000), want, "randint4");
  expect_list(normals<float>(g, sequence["randn17"]), sequence["randn17"], kRounded, "randn17");
  expect_equal(permutation(g, sequence["randperm5"]), sequence["randperm5"], "randperm5");
  expect_list(uniforms<float>(g, sequence["rand1"]), sequence["rand1"], {}, "rand1");
}

template <size_t n>
std::array<uint32_t, n> words(const Tree& list) {
  std::array<uint32_t, n> result{};
  for (size_t i = 0; i < n; ++i) result[i] = static_cast<uint32_t>(list[static_cast<int64_t>(i)].as_int());
  return result;
}

}  // namespace

void check_random(const std::string& key, const Tree& c) {
  if (key == "cases") return check_generator(c);
  if (key != "philox4x32_10") throw Skip{fmt::format("{} is not in this version", key)};
  const auto got = philox4x32_10(words<4>(c["counter"]), words<2>(c["key"]));
  expect_equal(Tree(Tree::List(got.begin(), got.end())), c["output"], "output");
}

}  // namespace weft::testing
