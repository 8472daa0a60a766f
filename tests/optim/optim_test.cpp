// Optimizers, clipping and schedules: state that continues bit for bit, groups, parameters without gradients, errors.
// golden_runner compares whole trajectories with PyTorch's.
#include "optim/optim.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "autograd/ops/ops.h"
#include "tensor/tree_file.h"
#include "tests/support/child_process.h"

namespace weft::optim {
namespace {

using Values = std::vector<double>;
constexpr double kInf = std::numeric_limits<double>::infinity();

std::vector<Tensor> parameters(DType dtype = f32) {
  Generator generator(4);
  std::vector<Tensor> result;
  for (const Shape& shape : {Shape{5, 3}, Shape{7}, Shape{}})
    result.push_back(randn(shape, {}, &generator).to(dtype).detach().clone().requires_grad_());
  return result;
}

// The gradients of step `step`.
void set_gradients(const std::vector<Tensor>& params, uint64_t step) {
  Generator generator(100 + step);
  for (const Tensor& p : params) p.set_grad(randn(p.shape(), {}, &generator).to(p.dtype()));
}

std::vector<Values> values_of(const std::vector<Tensor>& params) {
  std::vector<Values> result;
  for (const Tensor& p : params) result.push_back(p.to_vector());
  return result;
}

template <class Class>
struct Settings;
template <>
struct Settings<SGD> {
  static SgdOptions options() { return {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true}; }
};
template <>
struct Settings<Adam> {
  static AdamOptions options() { return {.lr = 0.01, .weight_decay = 0.1, .amsgrad = true}; }
};
template <>
struct Settings<AdamW> {
  static AdamWOptions options() { return {.lr = 0.01}; }
};

template <class Class>
class AnyOptimizer : public ::testing::Test {};
using Classes = ::testing::Types<SGD, Adam, AdamW>;
TYPED_TEST_SUITE(AnyOptimizer, Classes);

TYPED_TEST(AnyOptimizer, ContinuesBitForBit) {
  for (const DType dtype : {f32, f64}) {
    const auto straight = parameters(dtype), first = parameters(dtype);
    TypeParam whole(straight, Settings<TypeParam>::options()), half(first, Settings<TypeParam>::options());
    for (uint64_t step = 0; step < 10; ++step) {
      set_gradients(straight, step);
      whole.step();
      if (step >= 5) continue;
      set_gradients(first, step);
      half.step();
    }
    // Through a file, into other parameters with the same values.
    test::TemporaryFolder folder;
    save_tree(half.state_dict(), folder.path() / "optimizer.safetensors");
    std::vector<Tensor> second;
    for (const Tensor& p : first) second.push_back(p.detach().clone().requires_grad_());
    TypeParam resumed(second, {});
    resumed.load_state_dict(load_tree(folder.path() / "optimizer.safetensors"));
    for (uint64_t step = 5; step < 10; ++step) {
      set_gradients(second, step);
      resumed.step();
    }
    EXPECT_EQ(values_of(second), values_of(straight));
    EXPECT_TRUE(resumed.state_dict() == whole.state_dict());
  }
}

TYPED_TEST(AnyOptimizer, WithoutAGradientNothingMoves) {
  const auto params = parameters();
  TypeParam optimizer(params, Settings<TypeParam>::options());
  const Values before = params[1].to_vector();
  set_gradients(params, 0);
  params[1].set_grad({});
  optimizer.step();
  EXPECT_EQ(params[1].to_vector(), before) << "no weight decay, either";
  EXPECT_FALSE(optimizer.state_dict()["state"].contains("1")) << "and no state";
  optimizer.zero_grad();
  const auto values = values_of(params);
  optimizer.step();
  EXPECT_EQ(values_of(params), values);
}

TYPED_TEST(AnyOptimizer, LoadErrorsChangeNothing) {
  const auto params = parameters();
  TypeParam optimizer(params, Settings<TypeParam>::options());
  set_gradients(params, 0);
  optimizer.step();
  const Tree good = optimizer.state_dict().map_tensors([](const Tensor& t) { return t.clone(); });
  const auto refuses = [&](const Tree& bad) {
    EXPECT_THROW(optimizer.load_state_dict(bad), Error);
    EXPECT_TRUE(optimizer.state_dict() == good);
  };
  Tree bad = good;
  bad["param_groups"][0]["params"][0] = "another";
  refuses(bad);
  bad = good;
  bad["state"]["nobody"] = bad["state"]["0"];
  refuses(bad);
  bad = good;
  bad["param_groups"].push_back(bad["param_groups"][0]);
  refuses(bad);
  bad = good;
  for (auto& [key, member] : bad["state"]["0"].as_map())
    if (member.is_tensor()) member = ones({2, 2});
  refuses(bad);
  refuses(Tree::map());
}

TYPED_TEST(AnyOptimizer, GradientsOfAnyLayout) {
  const auto a = parameters(), b = parameters();
  TypeParam first(a, Settings<TypeParam>::options()), second(b, Settings<TypeParam>::options());
  set_gradients(a, 0);
  set_gradients(b, 0);
  b[0].set_grad(b[0].grad().t().contiguous().t());
  first.step();
  second.step();
  EXPECT_EQ(values_of(a), values_of(b));
}

TEST(Optimizer, GroupsAndNames) {
  const auto params = parameters();
  SGD optimizer({{{{"a", params[0]}}, {.lr = 1}}, {{{"b", params[1]}, {"c", params[2]}}, {.lr = 0.5}}});
  EXPECT_EQ(optimizer.group_count(), 2u);
  EXPECT_EQ(optimizer.lr(1), 0.5);
  const auto before = values_of(params);
  for (const Tensor& p : params) p.set_grad(ones_like(p));
  optimizer.step();
  EXPECT_FLOAT_EQ(static_cast<float>(before[0][0] - params[0].to_vector()[0]), 1);
  EXPECT_FLOAT_EQ(static_cast<float>(before[1][0] - params[1].to_vector()[0]), 0.5f);
  optimizer.set_lr(0.25, 1);
  EXPECT_EQ(optimizer.options(1).lr, 0.25);
  EXPECT_EQ(optimizer.state_dict()["param_groups"][1]["params"], Tree::list({"b", "c"}));
  EXPECT_THROW(SGD(std::vector<Tensor>{params[0], params[0]}), Error);
  EXPECT_THROW(SGD(NamedParameters{{"a", params[0]}, {"a", params[1]}}), Error);
  EXPECT_THROW(SGD(std::vector<Tensor>{}), Error);
  EXPECT_THROW(SGD(std::vector<Tensor>{params[0] * 2}), Error);
  EXPECT_THROW(SGD(std::vector<Tensor>{zeros({2}, i64)}), Error);
}

TEST(Optimizer, StepsAreSeenByBackward) {
  // A graph that saved a parameter cannot be run after a step.
  Tensor w = ones({2}, {.requires_grad = true});
  SGD optimizer(std::vector<Tensor>{w}, {.lr = 0.1});
  const Tensor loss = sum(w * w);
  w.set_grad(ones({2}));
  optimizer.step();
  EXPECT_THROW(loss.backward(), Error);
}

TEST(Cases, C131_adam_with_learning_rate_zero) {
  Tensor p = tensor({1, -2}, {.requires_grad = true});
  for (const double lr : {0.0, 1e-38}) {
    Adam adam(std::vector<Tensor>{p}, {.lr = lr});
    p.set_grad(zeros({2}));
    adam.step();
    EXPECT_EQ(p.to_vector(), (Values{1, -2}));
    AdamW adamw(std::vector<Tensor>{p}, {.lr = lr});
    p.set_grad(zeros({2}));
    adamw.step();
    EXPECT_EQ(p.to_vector(), (Values{1, -2}));
  }
}

TEST(Cases, C133_the_step_counter_is_resumed) {
  Tensor p = tensor({0}, {.dtype = f64, .requires_grad = true});
  Adam adam(std::vector<Tensor>{p}, {.lr = 1, .eps = 0});
  adam.load_state_dict(
      Tree::map({{"state", Tree::map({{"0", Tree::map({{"step", 1000},
                                                       {"exp_avg", tensor({0.5}, {.dtype = f64})},
                                                       {"exp_avg_sq", tensor({4}, {.dtype = f64})}})}})},
                 {"param_groups", adam.state_dict()["param_groups"]}}));
  p.set_grad(zeros({1}, f64));
  adam.step();
  EXPECT_EQ(adam.state_dict()["state"]["0"]["step"].as_int(), 1001);
  // m = 0.45 · 1.0, sqrt(v) = sqrt(3.996) · 1.2572180
  EXPECT_NEAR(p.item(), -0.45 / (std::sqrt(3.996) * 1.2572180), 1e-7);
}

TEST(Cases, C29_clipping_large_and_infinite_norms) {
  std::vector<Tensor> many;
  for (int i = 0; i < 100; ++i) {
    many.push_back(zeros({1}, {.requires_grad = true}));
    many.back().set_grad(full({1}, 1e20));
  }
  EXPECT_NEAR(clip_grad_norm_(many, 1) / 1e21, 1, 1e-6);
  for (const Tensor& p : many) EXPECT_FLOAT_EQ(static_cast<float>(p.grad().item()), 0.1f);

  Tensor p = zeros({2}, {.requires_grad = true});
  p.set_grad(tensor({3, kInf}));
  EXPECT_THROW(clip_grad_norm_({p}, 1, {.error_if_nonfinite = true}), Error);
  EXPECT_EQ(p.grad().to_vector(), (Values{3, kInf})) << "untouched";
  EXPECT_EQ(clip_grad_norm_({p}, 1), kInf);
  EXPECT_EQ(p.grad().to_vector()[0], 0);
  EXPECT_TRUE(std::isnan(p.grad().to_vector()[1]));
}

TEST(Clip, NormsAndValues) {
  Tensor a = zeros({2}, {.requires_grad = true}), b = zeros({1}, {.dtype = f64, .requires_grad = true});
  const Tensor none = zeros({1}, {.requires_grad = true});
  const auto fill = [&] {
    a.set_grad(tensor({3, 0}));
    b.set_grad(tensor({-4}, {.dtype = f64}));
  };
  fill();
  EXPECT_EQ(grad_norm({a, b, none}), 5);
  EXPECT_EQ(grad_norm({a, b, none}, 1), 7);
  EXPECT_EQ(grad_norm({a, b, none}, kInf), 4);
  EXPECT_EQ(clip_grad_norm_({a, b, none}, 10), 5);
  EXPECT_EQ(a.grad().to_vector(), (Values{3, 0})) << "below the limit nothing changes";
  EXPECT_EQ(clip_grad_norm_({a, b, none}, 1), 5);
  EXPECT_NEAR(grad_norm({a, b}), 1, 1e-6);
  fill();
  clip_grad_value_({a, b, none}, 2);
  EXPECT_EQ(a.grad().to_vector(), (Values{2, 0}));
  EXPECT_EQ(b.grad().item(), -2);
  EXPECT_FALSE(none.grad().defined());
  EXPECT_EQ(clip_grad_norm_({none}, 1), 0);
  EXPECT_THROW(clip_grad_norm_({a}, -1), Error);
  EXPECT_THROW(clip_grad_value_({a}, -1), Error);
}

TEST(Schedule, WarmupCosine) {
  Tensor p = zeros({1}, {.requires_grad = true});
  SGD optimizer(std::vector<Tensor>{p}, {.lr = 2});
  LambdaLR schedule = warmup_cosine(optimizer, {.warmup_steps = 4, .total_steps = 12, .min_factor = 0.1});
  Values rates;
  for (int step = 0; step < 14; ++step) {
    rates.push_back(optimizer.lr());
    schedule.step();
  }
  EXPECT_EQ(Values(rates.begin(), rates.begin() + 5), (Values{0.5, 1, 1.5, 2, 2}));
  EXPECT_NEAR(rates[8], 2 * 0.55, 1e-12) << "half way";
  EXPECT_NEAR(rates[12], 0.2, 1e-12);
  EXPECT_NEAR(rates[13], 0.2, 1e-12) << "and there it stays";
  EXPECT_THROW(warmup_cosine(optimizer, {.warmup_steps = 5, .total_steps = 4}), Error);
}

TEST(Schedule, StateContinues) {
  Tensor p = zeros({1}, {.requires_grad = true});
  SGD first(std::vector<Tensor>{p}, {.lr = 1}), second(std::vector<Tensor>{p}, {.lr = 7});
  const auto half = [](int64_t step) { return std::pow(0.5, static_cast<double>(step)); };
  LambdaLR a(first, half), b(second, half);
  a.step();
  a.step();
  b.load_state_dict(a.state_dict());
  EXPECT_EQ(b.last_epoch(), 2);
  EXPECT_EQ(second.lr(), 0.25);
  EXPECT_EQ(b.last_lr(), (Values{0.25}));
  b.step();
  EXPECT_EQ(second.lr(), 0.125);
}

}  // namespace
}  // namespace weft::optim
