// Normalisation layers: names, running statistics, modes.
#include "nn/layers/norm.h"

#include <gtest/gtest.h>

#include "autograd/ops/ops.h"

namespace weft::nn {
namespace {

using Names = std::vector<std::string>;

Names names_of(const ModuleBase& module) {
  Names names;
  for (const auto& entry : module.state_dict()) names.push_back(entry.first);
  return names;
}

void expect_near(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.shape(), want.shape());
  const std::vector<double> a = got.to_vector(), b = want.to_vector();
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6) << i;
}

TEST(BatchNorm, NamesAreThoseOfTorch) {
  EXPECT_EQ(names_of(BatchNorm2d({.features = 4})),
            (Names{"weight", "bias", "running_mean", "running_var", "num_batches_tracked"}));
  EXPECT_EQ(names_of(BatchNorm1d({.features = 4, .affine = false, .track_running_stats = false})), Names{});
  EXPECT_EQ(names_of(GroupNorm({.groups = 2, .channels = 4})), (Names{"weight", "bias"}));
  EXPECT_EQ(names_of(InstanceNorm2d({.features = 4})), Names{});
  EXPECT_EQ(names_of(RMSNorm({.dim = 4})), Names{"weight"});
  EXPECT_EQ(names_of(LayerNorm({.bias = false, .normalized_shape = {2, 4}})), Names{"weight"});
}

TEST(BatchNorm, RunningStatisticsMoveWhileTraining) {
  manual_seed(1);
  BatchNorm2d norm({.features = 3, .momentum = 0.25});
  const Tensor x = randn({2, 3, 4, 5}) * 2 + 1;
  norm(x);
  expect_near(norm.running_mean, 0.25 * mean(x, {0, 2, 3}));
  expect_near(norm.running_var, 0.75 + 0.25 * var(x, {0, 2, 3}));
  EXPECT_EQ(norm.num_batches_tracked.item<int64_t>(), 1);
  norm.eval();
  const Tensor before = norm.running_mean.clone();
  const Tensor y = norm(x);
  expect_near(norm.running_mean, before);
  EXPECT_EQ(norm.num_batches_tracked.item<int64_t>(), 1);
  const auto by_channel = [](const Tensor& t) { return t.reshape({3, 1, 1}); };
  expect_near(y, (x - by_channel(norm.running_mean)) * rsqrt(by_channel(norm.running_var) + 1e-5));
}

TEST(BatchNorm, WithoutMomentumTheyAreAverages) {
  manual_seed(1);
  BatchNorm1d norm({.features = 3, .momentum = std::nullopt});
  const Tensor a = randn({5, 3}), b = randn({5, 3}), c = randn({5, 3});
  for (const Tensor& x : {a, b, c}) norm(x);
  expect_near(norm.running_mean, (mean(a, {0}) + mean(b, {0}) + mean(c, {0})) / 3);
  expect_near(norm.running_var, (var(a, {0}) + var(b, {0}) + var(c, {0})) / 3);
}

TEST(BatchNorm, WithoutRunningStatisticsTheBatchCounts) {
  BatchNorm1d norm({.features = 3, .track_running_stats = false});
  const Tensor x = randn({5, 3});
  const Tensor trained = norm(x);
  norm.eval();
  expect_near(norm(x), trained);
}

TEST(BatchNorm, BackwardAfterTheStatisticsMovedOn) {
  BatchNorm1d norm({.features = 3});
  const Tensor x = randn({5, 3}), other = randn({5, 3}) + 4;
  norm(x);
  norm.eval();
  const Tensor leaf = x.clone().requires_grad_();
  const Tensor y = norm(leaf);
  const Tensor expected = rsqrt(norm.running_var + 1e-5).expand({5, 3}).clone();
  norm.train();
  norm(other);
  y.backward(ones_like(y));
  expect_near(leaf.grad(), expected);
}

TEST(BatchNorm, HalvesKeepStatisticsInTheirDtype) {
  BatchNorm1d norm({.features = 3});
  const Tensor x = randn({8, 3}).to(bf16);
  EXPECT_EQ(norm(x).dtype(), bf16);  // f32 parameters beside bf16 activations
  norm.to(bf16);
  EXPECT_EQ(norm(x).dtype(), bf16);
  EXPECT_EQ(norm.running_mean.dtype(), bf16);
  EXPECT_EQ(norm.num_batches_tracked.dtype(), i64);
}

TEST(BatchNorm, Errors) {
  EXPECT_THROW(BatchNorm2d({.features = 3})(randn({2, 3})), Error);
  EXPECT_THROW(BatchNorm1d({.features = 3})(randn({2, 3, 4, 5})), Error);
  EXPECT_THROW(BatchNorm1d({.features = 3})(randn({2, 4})), Error);
  EXPECT_THROW(BatchNorm1d({.features = 3})(randn({1, 3})), Error);  // one value a channel
  EXPECT_THROW(batch_norm(randn({4, 3}), {}, {}), Error);            // no statistics to use
  EXPECT_THROW(GroupNorm({.groups = 2, .channels = 3}), Error);
  EXPECT_THROW(InstanceNorm1d({.features = 3})(randn({2, 3, 1})), Error);
}

TEST(GroupNorm, NormalisesEachGroup) {
  manual_seed(1);
  GroupNorm norm({.groups = 2, .channels = 4});
  const Tensor x = randn({3, 4, 5});
  const Tensor groups = x.reshape({3, 2, 10});
  const Tensor want = (groups - mean(groups, {2}, true)) * rsqrt(var(groups, {2}, 0, true) + 1e-5);
  expect_near(norm(x), want.reshape({3, 4, 5}));
}

TEST(InstanceNorm, OneSampleOrMany) {
  manual_seed(1);
  InstanceNorm1d norm({.features = 3, .affine = true, .track_running_stats = true});
  const Tensor x = randn({2, 3, 6});
  expect_near(norm(x)[0], norm(x[0]));
  norm.eval();
  EXPECT_EQ(norm(x).shape(), x.shape());
}

TEST(RMSNorm, EpsilonOfTheDtype) {
  const Tensor x = zeros({1, 4});
  RMSNorm norm({.dim = 4});
  expect_near(norm(x), x);
  const Tensor tiny = full({1, 4}, 1e-4);
  expect_near(norm(tiny), tiny * rsqrt(square(tiny) + 1.1920929e-07));
}

}  // namespace
}  // namespace weft::nn
