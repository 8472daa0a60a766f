// randn, rand, randint and randperm: dtypes, ranges, seeds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/ops/reduce.h"
#include "tensor/distributions.h"

namespace weft {
namespace {

using Values = std::vector<double>;

TEST(RandomFactories, SeedGivesTorchsValues) {
  manual_seed(0);
  EXPECT_FLOAT_EQ(randn({1}).item<float>(), 1.5409960746765137f);
  manual_seed(0);
  EXPECT_FLOAT_EQ(rand({2}).to_vector()[1], 0.7682217955589294f);
  Generator g(0);
  EXPECT_EQ(randint(0, 10, {4}, i64, &g).to_vector(), (Values{4, 9, 3, 0}));
  g.manual_seed(0);
  EXPECT_EQ(randperm(5, &g).to_vector(), (Values{4, 0, 1, 3, 2}));
}

TEST(RandomFactories, GivenGeneratorLeavesTheDefaultAlone) {
  manual_seed(3);
  const Values expected = rand({3}).to_vector();
  manual_seed(3);
  Generator g(9);
  randn({100}, {}, &g);
  EXPECT_EQ(rand({3}).to_vector(), expected);
}

TEST(RandomFactories, UniformStaysBelowOne) {
  for (DType dtype : {f64, f32, f16, bf16}) {
    SCOPED_TRACE(name(dtype));
    const Values values = rand({20000}, dtype).to_vector();
    EXPECT_GE(*std::min_element(values.begin(), values.end()), 0);
    EXPECT_LT(*std::max_element(values.begin(), values.end()), 1);
  }
}

TEST(RandomFactories, NormalMoments) {
  manual_seed(1);
  for (DType dtype : {f64, f32, f16, bf16}) {
    const Tensor x = randn({200, 100}, dtype).to(f64);
    EXPECT_NEAR(mean(x).item(), 0, 0.03);
    EXPECT_NEAR(var(x).item(), 1, 0.04);
  }
}

TEST(RandomFactories, NormalAndUniformOfOtherParameters) {
  for (DType dtype : {f64, f32, f16, bf16}) {
    SCOPED_TRACE(name(dtype));
    Generator g(2);
    const Tensor x = normal(3, 0.5, {200, 100}, {.dtype = dtype}, &g).to(f64);
    EXPECT_NEAR(mean(x).item(), 3, 0.015);
    EXPECT_NEAR(std(x).item(), 0.5, 0.01);
    const Tensor y = uniform(-2, 4, {200, 100}, {.dtype = dtype}, &g).to(f64);
    EXPECT_NEAR(mean(y).item(), 1, 0.05);
    EXPECT_NEAR(var(y).item(), 3, 0.06);
    EXPECT_GE(min(y).item(), -2);
    EXPECT_LE(max(y).item(), 4);  // halves round
  }
  // The same draws as randn and rand.
  Generator g(5);
  const Values standard = randn({20}, {.dtype = f64}, &g).to_vector();
  g.manual_seed(5);
  const Values moved = normal(1, 2, {20}, {.dtype = f64}, &g).to_vector();
  for (size_t i = 0; i < moved.size(); ++i) EXPECT_DOUBLE_EQ(moved[i], 1 + 2 * standard[i]);
  EXPECT_EQ(normal(4, 0, {3}).to_vector(), (Values{4, 4, 4}));
  EXPECT_EQ(uniform(4, 4, {3}).to_vector(), (Values{4, 4, 4}));
  EXPECT_TRUE(uniform(0, 1, {2}, {.device = meta_device}).is_meta());
}

TEST(RandomFactories, BernoulliFollowsItsProbabilities) {
  for (DType dtype : {f64, f32, f16, bf16}) {
    SCOPED_TRACE(name(dtype));
    Generator g(4);
    const Tensor p = tensor({0, 0.25, 0.75, 1}).to(dtype).expand({20000, 4});
    const Tensor drawn = bernoulli(p, &g);
    EXPECT_EQ(drawn.dtype(), dtype);
    const Values share = mean(drawn.to(f64), {0}).to_vector();
    EXPECT_EQ(share[0], 0);
    EXPECT_NEAR(share[1], 0.25, 0.012);
    EXPECT_NEAR(share[2], 0.75, 0.012);
    EXPECT_EQ(share[3], 1);
    g.manual_seed(4);
    EXPECT_EQ(bernoulli(p, &g).to_vector(), drawn.to_vector());
  }
  EXPECT_FALSE(bernoulli(full({3}, 0.5).requires_grad_()).requires_grad());
}

// Pearson's statistic of `counts` for draws with these probabilities.
double chi_square(const Values& counts, const Values& probabilities, double draws) {
  double sum = 0;
  for (size_t i = 0; i < counts.size(); ++i)
    if (probabilities[i] > 0) sum += std::pow(counts[i] - draws * probabilities[i], 2) / (draws * probabilities[i]);
  return sum;
}

TEST(RandomFactories, MultinomialFollowsItsWeights) {
  constexpr int64_t draws = 40000;
  constexpr double bound = 18.5;  // of 4 degrees of freedom: exceeded once in 1000
  const Values weights = {1, 0, 2, 3, 0.5, 3.5};
  Values probabilities = weights;
  for (double& p : probabilities) p /= 10;
  const auto counts_of = [&](const Tensor& picked) {
    Values counts(weights.size(), 0.0);
    for (double category : picked.to_vector()) ++counts[static_cast<size_t>(category)];
    return counts;
  };
  Generator g(6);
  const Tensor with = multinomial(tensor(weights), draws, true, &g);
  EXPECT_EQ(with.dtype(), i64);
  EXPECT_EQ(counts_of(with)[1], 0);
  EXPECT_LT(chi_square(counts_of(with), probabilities, draws), bound);
  g.manual_seed(6);
  EXPECT_EQ(multinomial(tensor(weights), draws, true, &g).to_vector(), with.to_vector());

  // Without replacement each row's first draw follows the weights, and its second those that are left.
  const Tensor rows = multinomial(tensor(weights).expand({draws, 6}), 2, false, &g);
  EXPECT_EQ(rows.shape(), (Shape{draws, 2}));
  EXPECT_LT(chi_square(counts_of(rows.select(1, 0)), probabilities, draws), bound);
  Values second(6, 0.0);
  for (size_t i = 0; i < 6; ++i)
    for (size_t first = 0; first < 6; ++first)
      if (first != i) second[i] += probabilities[first] * probabilities[i] / (1 - probabilities[first]);
  EXPECT_LT(chi_square(counts_of(rows.select(1, 1)), second, draws), bound);

  // All that can be drawn, each once.
  Values all = multinomial(tensor(weights), 5, false, &g).to_vector();
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, (Values{0, 2, 3, 4, 5}));
  EXPECT_EQ(multinomial(ones({0, 3}), 2).shape(), (Shape{0, 2}));
  EXPECT_TRUE(multinomial(ones({3}, {.device = meta_device}), 2).is_meta());
}

TEST(RandomFactories, WrongDistributions) {
  EXPECT_THROW(normal(0, -1, {2}), Error);
  EXPECT_THROW(normal(0, 1, {2}, {.dtype = i64}), Error);
  EXPECT_THROW(uniform(2, 1, {2}), Error);
  EXPECT_THROW(uniform(0, std::numeric_limits<double>::infinity(), {2}), Error);
  EXPECT_THROW(bernoulli(tensor({0.5, 1.5})), Error);
  EXPECT_THROW(bernoulli(tensor({std::nan("")})), Error);
  EXPECT_THROW(bernoulli(ones({2}, i64)), Error);
  EXPECT_THROW(multinomial(ones({}), 1), Error);
  EXPECT_THROW(multinomial(ones({2}, i64), 1), Error);
  EXPECT_THROW(multinomial(ones({2}), 3), Error);
  EXPECT_THROW(multinomial(ones({2}), 0), Error);
  EXPECT_THROW(multinomial(zeros({2}), 1, true), Error);
  EXPECT_THROW(multinomial(tensor({1.0, 0.0}), 2), Error);
  EXPECT_THROW(multinomial(tensor({1.0, -1.0}), 1), Error);
  EXPECT_THROW(multinomial(tensor({1.0, std::nan("")}), 1), Error);
}

TEST(RandomFactories, OptionsAndErrors) {
  EXPECT_TRUE(randn({2}, {.requires_grad = true}).requires_grad());
  EXPECT_TRUE(rand({2}, {.device = meta_device}).is_meta());
  EXPECT_EQ(randint(-3, 3, {5}, i8).dtype(), i8);
  EXPECT_EQ(randint(0, 2, {5}, boolean).dtype(), boolean);
  EXPECT_THROW(randn({2}, i64), Error);
  EXPECT_THROW(rand({2}, f8e4m3), Error);
  EXPECT_THROW(randint(5, 5, {1}), Error);
  EXPECT_THROW(randint(0, 300, {1}, u8), Error);
  EXPECT_THROW(randint(-1, 3, {1}, boolean), Error);
  EXPECT_THROW(randperm(-1), Error);
  EXPECT_EQ(randperm(0).numel(), 0);
}

TEST(RandomFactories, PermutationHoldsEveryNumberOnce) {
  Values order = randperm(1000).to_vector();
  std::sort(order.begin(), order.end());
  for (size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], static_cast<double>(i));
}

}  // namespace
}  // namespace weft
