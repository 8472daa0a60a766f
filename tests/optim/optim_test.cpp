// Optimizers: state that continues bit for bit, groups, parameters without gradients, errors.
// golden_runner compares whole trajectories with PyTorch's.
#include "optim/optim.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "autograd/ops/ops.h"
#include "tensor/tree_file.h"
#include "tests/support/child_process.h"
#include "tests/support/test_devices.h"

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

template <>
struct Settings<Adagrad> {
  static AdagradOptions options() { return {.lr = 0.1, .lr_decay = 0.1, .initial_accumulator_value = 0.1}; }
};
template <>
struct Settings<RMSprop> {
  static RMSpropOptions options() { return {.lr = 0.01, .weight_decay = 0.1, .momentum = 0.5, .centered = true}; }
};
template <>
struct Settings<Adadelta> {
  static AdadeltaOptions options() { return {.lr = 0.5, .maximize = true}; }
};
template <>
struct Settings<Adamax> {
  static AdamaxOptions options() { return {.lr = 0.01, .weight_decay = 0.1}; }
};
template <>
struct Settings<NAdam> {
  static NAdamOptions options() { return {.lr = 0.01, .weight_decay = 0.1, .decoupled_weight_decay = true}; }
};
template <>
struct Settings<RAdam> {
  static RAdamOptions options() { return {.lr = 0.01, .weight_decay = 0.1}; }
};
template <>
struct Settings<Lion> {
  static LionOptions options() { return {.lr = 0.01, .weight_decay = 0.1}; }
};
template <>
struct Settings<Lamb> {
  static LambOptions options() { return {.lr = 0.01}; }
};
template <>
struct Settings<Adafactor> {
  static AdafactorOptions options() { return {.lr = 0.01, .eps1 = 1e-6, .weight_decay = 0.1}; }
};

template <class Class>
class AnyOptimizer : public ::testing::Test {};
using Classes =
    ::testing::Types<SGD, Adam, AdamW, Adagrad, RMSprop, Adadelta, Adamax, NAdam, RAdam, Lion, Lamb, Adafactor>;
TYPED_TEST_SUITE(AnyOptimizer, Classes);

TYPED_TEST(AnyOptimizer, ContinuesBitForBit) {
  for (const DType dtype : {f32, f64, bf16, f16}) {
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

TYPED_TEST(AnyOptimizer, ZeroGradientsGiveNoNaN) {
  for (const double lr : {0.0, 1e-38, 0.1}) {
    const auto params = parameters();
    typename TypeParam::Options options{.lr = lr};
    options.weight_decay = 0;
    TypeParam optimizer(params, options);
    const auto before = values_of(params);
    for (int step = 0; step < 3; ++step) {
      for (const Tensor& p : params) p.set_grad(zeros_like(p));
      optimizer.step();
    }
    EXPECT_EQ(values_of(params), before) << "lr " << lr;
  }
}

// State in f32: with bf16 state, averages over thousands of steps would stand still.
TYPED_TEST(AnyOptimizer, HalfParametersHaveStateInF32) {
  for (const DType dtype : {bf16, f16}) {
    const auto params = parameters(dtype);
    TypeParam optimizer(params, Settings<TypeParam>::options());
    const auto before = values_of(params);
    set_gradients(params, 0);
    optimizer.step();
    EXPECT_NE(values_of(params), before);
    optimizer.state_dict()["state"].for_each_tensor([](const Tensor& t) { EXPECT_EQ(t.dtype(), f32); });
  }
}

template <class Class>
void expect_the_cpus_steps(Device device, DType dtype) {
  const auto host = parameters(dtype);
  std::vector<Tensor> moved;
  for (const Tensor& p : host) moved.push_back(p.detach().to(device).requires_grad_());
  Class here(host, Settings<Class>::options()), there(moved, Settings<Class>::options());
  for (uint64_t step = 0; step < 3; ++step) {
    set_gradients(host, step);
    for (size_t i = 0; i < host.size(); ++i) moved[i].set_grad(host[i].grad().to(device));
    here.step();
    there.step();
  }
  const auto want = values_of(host), got = values_of(moved);
  const double tolerance = dtype == f32 ? 1e-6 : 0x1p-7;
  for (size_t i = 0; i < want.size(); ++i)
    for (size_t k = 0; k < want[i].size(); ++k)
      EXPECT_NEAR(got[i][k], want[i][k], tolerance * (1 + std::abs(want[i][k])));
}

TYPED_TEST(AnyOptimizer, DevicesStepAsTheCpu) {
  for (const Device device : test_devices())
    for (const DType dtype : {f32, bf16}) expect_the_cpus_steps<TypeParam>(device, dtype);
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

TEST(Lamb, StepsByTheRatioOfNorms) {
  Generator generator(3);
  const Tensor p = randn({6, 5}, {.dtype = f64}, &generator).requires_grad_();
  const Tensor still = zeros({3}, {.dtype = f64, .requires_grad = true});  // norm 0: a ratio of 1
  Lamb lamb(std::vector<Tensor>{p, still}, {.lr = 0.1, .weight_decay = 0.2});
  Values want = p.to_vector(), m(30, 0), v(30, 0);
  for (int t = 1; t <= 3; ++t) {
    const Tensor g = randn({6, 5}, {.dtype = f64}, &generator);
    p.set_grad(g);
    still.set_grad(ones({3}, f64));
    lamb.step();
    Values u(30);
    double norm_p = 0, norm_u = 0;
    for (size_t i = 0; i < 30; ++i) {
      const double gradient = g.to_vector()[i];
      m[i] = 0.9 * m[i] + 0.1 * gradient;
      v[i] = 0.999 * v[i] + 0.001 * gradient * gradient;
      u[i] = m[i] / (1 - std::pow(0.9, t)) / (std::sqrt(v[i] / (1 - std::pow(0.999, t))) + 1e-6) + 0.2 * want[i];
      norm_p += want[i] * want[i];
      norm_u += u[i] * u[i];
    }
    for (size_t i = 0; i < 30; ++i) {
      want[i] -= 0.1 * std::sqrt(norm_p / norm_u) * u[i];
      EXPECT_NEAR(p.to_vector()[i], want[i], 1e-12);
    }
    if (t == 1) {
      EXPECT_NEAR(still.to_vector()[0], -0.1, 1e-6);
    }
  }
}

TEST(Muon, MovesAlongAnOrthogonalMatrix) {
  Generator generator(5);
  for (const Shape& shape : {Shape{4, 9}, Shape{9, 4}}) {
    const Tensor p = zeros(shape, {.requires_grad = true});
    p.set_grad(randn(shape, {}, &generator));
    Muon muon(std::vector<Tensor>{p}, {.lr = 1, .adjust_lr_fn = "match_rms_adamw"});
    muon.step();
    const Tensor u = p.detach() * (1 / (0.2 * 3));
    const Tensor gram = shape[0] < shape[1] ? matmul(u, u.t()) : matmul(u.t(), u);
    const Values values = gram.to_vector();
    for (size_t i = 0; i < 16; ++i) EXPECT_NEAR(values[i], i % 5 == 0 ? 1 : 0, 0.6) << i;
    EXPECT_TRUE(muon.state_dict()["state"]["0"].contains("momentum_buffer"));
  }
  const Tensor vector = zeros({3}, {.requires_grad = true});
  EXPECT_THROW(Muon(std::vector<Tensor>{vector}), Error);
  const Tensor matrix = zeros({3, 3}, {.requires_grad = true});
  EXPECT_THROW(Muon(std::vector<Tensor>{matrix}, {.adjust_lr_fn = "other"}), Error);
}

// A tied weight, a bias and a product: what Lomo updates while backward still runs.
Tensor tied_loss(const std::vector<Tensor>& w, const Tensor& x) {
  return mean(square(matmul(tanh(matmul(x, w[0]) + w[1]), w[0].t()) - x));
}

TEST(Lomo, FusedBackwardIsDescent) {
  for (const bool clip : {false, true}) {
    Generator generator(7);
    const Tensor x = randn({8, 4}, {}, &generator), w = randn({4, 6}, {}, &generator);
    const auto make = [&] {
      return std::vector<Tensor>{w.clone().requires_grad_(), zeros({6}, {.requires_grad = true}),
                                 ones({2}, {.requires_grad = true})};
    };
    const auto a = make(), b = make();
    LomoOptions options{.lr = 0.1, .weight_decay = 0.01};
    if (clip) options.clip_grad_norm = 0.5;
    Lomo lomo(a, options);
    SGD sgd(b, {.lr = 0.1, .weight_decay = 0.01});
    for (int step = 0; step < 3; ++step) {
      const auto norm = lomo.fused_backward(tied_loss(a, x));
      tied_loss(b, x).backward();
      EXPECT_EQ(norm.has_value(), clip);
      if (clip) {
        EXPECT_NEAR(*norm, clip_grad_norm_(b, 0.5), 1e-6);
      }
      sgd.step();
      sgd.zero_grad();
      for (size_t i = 0; i < a.size(); ++i) {
        EXPECT_FALSE(a[i].grad().defined());
        const Values got = a[i].to_vector(), want = b[i].to_vector();
        for (size_t k = 0; k < got.size(); ++k) EXPECT_NEAR(got[k], want[k], 1e-6);
      }
    }
    EXPECT_EQ(a[2].to_vector(), (Values{1, 1})) << "not reached: left alone";
    tied_loss(a, x).backward();
    EXPECT_TRUE(a[0].grad().defined()) << "the hooks are gone";
  }
}

TEST(Lomo, ClipsValues) {
  const Tensor p = zeros({3}, {.requires_grad = true});
  Lomo lomo(std::vector<Tensor>{p}, {.lr = 1, .clip_grad_value = 2.0});
  lomo.fused_backward(sum(p * tensor({1, -5, 3})));
  EXPECT_EQ(p.to_vector(), (Values{-1, 2, -2}));
  p.set_grad(tensor({1, 1, 9}));
  lomo.step();
  EXPECT_EQ(p.to_vector(), (Values{-2, 1, -4}));
  EXPECT_THROW(Lomo({{{{"a", p}}, {.clip_grad_norm = 1.0}}, {{{"b", ones({1}, {.requires_grad = true})}}, {}}}), Error);
}

}  // namespace
}  // namespace weft::optim
