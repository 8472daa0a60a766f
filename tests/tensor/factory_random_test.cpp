// randn, rand, randint and randperm: dtypes, ranges, seeds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "autograd/ops/reduce.h"
#include "tensor/factory.h"

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
