// The fused optimizer steps against the textbook, a parameter and an element at a time.
#include "kernels/optimizer/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/base/parallel.h"

namespace weft {
namespace {

const std::vector<int64_t> kSizes{1, 0, 3, 17, 1000, 40000, 0, 5, 70001, 16};

template <class T>
std::vector<std::vector<T>> random_lists(unsigned seed, bool positive = false) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(0, 1);
  std::vector<std::vector<T>> lists;
  for (const int64_t size : kSizes) {
    lists.emplace_back(static_cast<size_t>(size));
    for (T& x : lists.back()) {
      const double value = normal(generator);
      x = static_cast<T>(static_cast<float>(positive ? value * value : value));
    }
  }
  return lists;
}

template <class T>
void check_adam(const AdamOptions& o, bool amsgrad, double tolerance) {
  auto p = random_lists<T>(1), g = random_lists<T>(2), m = random_lists<T>(3), v = random_lists<T>(4, true),
       v_max = random_lists<T>(5, true);
  const auto p0 = p, m0 = m, v0 = v, v_max0 = v_max;
  std::vector<OptimizerSlice> slices(kSizes.size());
  for (size_t i = 0; i < slices.size(); ++i) {
    slices[i].param = p[i].data();
    slices[i].grad = g[i].data();
    slices[i].state[0] = m[i].data();
    slices[i].state[1] = v[i].data();
    slices[i].state[2] = amsgrad ? v_max[i].data() : nullptr;
    slices[i].size = kSizes[i];
    slices[i].step = static_cast<int64_t>(i * i + 1);
  }
  cpu::optimizer_kernels.step({}, dtype_of<T>, o, slices.data(), static_cast<int64_t>(slices.size()));
  for (size_t i = 0; i < slices.size(); ++i) {
    const auto step = static_cast<double>(slices[i].step);
    for (size_t j = 0; j < p[i].size(); ++j) {
      double param = p0[i][j], grad = o.maximize ? -g[i][j] : g[i][j];
      if (o.decoupled)
        param *= 1 - o.lr * o.weight_decay;
      else
        grad += o.weight_decay * param;
      const double mean = o.beta1 * m0[i][j] + (1 - o.beta1) * grad;
      const double square = o.beta2 * v0[i][j] + (1 - o.beta2) * grad * grad;
      const double used = amsgrad ? std::max<double>(square, v_max0[i][j]) : square;
      param -= o.lr / (1 - std::pow(o.beta1, step)) * mean /
               (std::sqrt(used) / std::sqrt(1 - std::pow(o.beta2, step)) + o.eps);
      ASSERT_NEAR(m[i][j], mean, tolerance * (1 + std::abs(mean)));
      ASSERT_NEAR(v[i][j], square, tolerance * (1 + square));
      ASSERT_NEAR(p[i][j], param, tolerance * (1 + std::abs(param))) << i << " " << j;
      if (amsgrad)
        ASSERT_NEAR(v_max[i][j], used, tolerance * (1 + used));
      else
        ASSERT_EQ(v_max[i][j], v_max0[i][j]);
    }
  }
}

TEST(Adam, AgreesWithTheFormula) {
  for (const bool decoupled : {false, true}) {
    for (const bool amsgrad : {false, true}) {
      for (const bool maximize : {false, true}) {
        AdamOptions o;
        o.lr = 0.01;
        o.weight_decay = 0.1;
        o.decoupled = decoupled;
        o.maximize = maximize;
        check_adam<float>(o, amsgrad, 2e-6);
        check_adam<double>(o, amsgrad, 1e-13);
      }
    }
  }
}

TEST(Adam, ZeroRateAndZeroGradientChangeNothing) {
  for (const double lr : {0.0, 1e-38, 1.0}) {
    for (const double eps : {1e-8, 0.0}) {
      float p[3] = {1, -2, 3}, g[3] = {}, m[3] = {}, v[3] = {};
      AdamOptions o;
      o.lr = lr;
      o.eps = eps;
      OptimizerSlice slice;
      slice.param = p;
      slice.grad = g;
      slice.state[0] = m;
      slice.state[1] = v;
      slice.size = 3;
      cpu::optimizer_kernels.step({}, f32, o, &slice, 1);
      EXPECT_EQ(p[0], 1.0f);
      EXPECT_EQ(p[1], -2.0f);
      EXPECT_EQ(p[2], 3.0f);
    }
  }
  float p = 1, g = 1, m = 0, v = 0;
  AdamOptions o;
  o.lr = 1e-38;
  OptimizerSlice slice;
  slice.param = &p;
  slice.grad = &g;
  slice.state[0] = &m;
  slice.state[1] = &v;
  slice.size = 1;
  cpu::optimizer_kernels.step({}, f32, o, &slice, 1);
  EXPECT_EQ(p, 1.0f);
}

TEST(Adam, BiasCorrectionFollowsTheStep) {
  // With m = v = 0 and g = 1: the first step moves by lr, step 1001 by lr · 0.1 · 1.0 / (sqrt(0.001) · 1.2572180).
  for (const int64_t step : {int64_t{1}, int64_t{1001}}) {
    double p = 0, g = 1, m = 0, v = 0;
    OptimizerSlice slice;
    slice.param = &p;
    slice.grad = &g;
    slice.state[0] = &m;
    slice.state[1] = &v;
    slice.size = 1;
    slice.step = step;
    cpu::optimizer_kernels.step({}, f64, AdamOptions{}, &slice, 1);
    EXPECT_NEAR(p, step == 1 ? -1e-3 : -1e-3 * 0.1 / (std::sqrt(0.001) * 1.2572180), 1e-9);
  }
}

template <class T>
void check_sgd(const SgdOptions& o, double tolerance) {
  auto p = random_lists<T>(1), g = random_lists<T>(2), b = random_lists<T>(3);
  const auto p0 = p, b0 = b;
  std::vector<OptimizerSlice> slices(kSizes.size());
  for (size_t i = 0; i < slices.size(); ++i) {
    slices[i].param = p[i].data();
    slices[i].grad = g[i].data();
    slices[i].state[0] = o.momentum != 0 ? b[i].data() : nullptr;
    slices[i].size = kSizes[i];
    slices[i].step = i % 2 == 0 ? 1 : 2;
  }
  cpu::optimizer_kernels.step({}, dtype_of<T>, o, slices.data(), static_cast<int64_t>(slices.size()));
  for (size_t i = 0; i < slices.size(); ++i) {
    for (size_t j = 0; j < p[i].size(); ++j) {
      double step = (o.maximize ? -g[i][j] : g[i][j]) + o.weight_decay * p0[i][j];
      if (o.momentum != 0) {
        const double buffer = slices[i].step == 1 ? step : o.momentum * b0[i][j] + (1 - o.dampening) * step;
        step = o.nesterov ? step + o.momentum * buffer : buffer;
        ASSERT_NEAR(b[i][j], buffer, tolerance * (1 + std::abs(buffer)));
      }
      ASSERT_NEAR(p[i][j], p0[i][j] - o.lr * step, tolerance * (1 + std::abs(step) + std::abs(p0[i][j])));
    }
  }
}

TEST(Sgd, AgreesWithTheFormula) {
  for (const double momentum : {0.0, 0.9}) {
    for (const bool nesterov : {false, true}) {
      for (const bool maximize : {false, true}) {
        SgdOptions o;
        o.lr = 0.1;
        o.momentum = momentum;
        o.dampening = nesterov ? 0 : 0.2;
        o.weight_decay = 0.01;
        o.nesterov = nesterov && momentum != 0;
        o.maximize = maximize;
        check_sgd<float>(o, 1e-6);
        check_sgd<double>(o, 1e-14);
      }
    }
  }
}

// bf16 and f16 are computed in f32, with state in f32, and rounded when stored.
template <class T>
void check_half(const char* what, const OptimizerRule& rule) {
  SCOPED_TRACE(testing::Message() << what << " " << name(dtype_of<T>));
  const size_t n = 1603;
  std::mt19937 generator(3);
  std::normal_distribution<float> normal(0, 1);
  std::vector<T> p(n), g(n);
  std::vector<float> wide_p(n), wide_g(n), state[3], wide_state[3];
  for (size_t i = 0; i < n; ++i) {
    p[i] = T(normal(generator));
    g[i] = T(normal(generator));
    wide_p[i] = static_cast<float>(p[i]);
    wide_g[i] = static_cast<float>(g[i]);
  }
  OptimizerSlice slice, wide;
  slice.param = p.data();
  slice.grad = g.data();
  wide.param = wide_p.data();
  wide.grad = wide_g.data();
  slice.size = wide.size = static_cast<int64_t>(n);
  slice.step = wide.step = 3;
  slice.product = wide.product = 0.5;
  for (int k = 0; k < 3; ++k) {
    state[k].assign(n, 0.25f);
    wide_state[k] = state[k];
    slice.state[k] = state[k].data();
    wide.state[k] = wide_state[k].data();
  }
  cpu::optimizer_kernels.step({}, dtype_of<T>, rule, &slice, 1);
  cpu::optimizer_kernels.step({}, f32, rule, &wide, 1);
  for (size_t i = 0; i < n; ++i)
    ASSERT_EQ(static_cast<float>(p[i]), static_cast<float>(T(wide_p[i]))) << "element " << i;
  for (int k = 0; k < 3; ++k) EXPECT_EQ(state[k], wide_state[k]);
}

TEST(Step, HalvesAreComputedInF32) {
  const auto check = [](const char* what, const OptimizerRule& rule) {
    check_half<BFloat16>(what, rule);
    check_half<Half>(what, rule);
  };
  check("sgd", SgdOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true});
  check("adam", AdamOptions{.lr = 0.1, .weight_decay = 0.1, .decoupled = true});
  check("adagrad", AdagradOptions{.lr = 0.1});
  check("rmsprop", RmspropOptions{.lr = 0.1, .momentum = 0.9});
  check("adadelta", AdadeltaOptions{});
  check("adamax", AdamaxOptions{.lr = 0.1});
  check("nadam", NadamOptions{.lr = 0.1});
  check("radam", RadamOptions{.lr = 0.1});
  check("lion", LionOptions{.lr = 0.1, .weight_decay = 0.1});
  check("lamb", LambDirection{.weight_decay = 0.1});
  check("lerp", Lerp{.weight = 0.25});
}

TEST(Clipping, NormDoesNotOverflow) {
  std::vector<float> gradients(100, 1e20f);
  std::vector<ConstSlice> slices;
  std::vector<MutableSlice> targets;
  for (float& g : gradients) {
    slices.push_back({&g, 1});
    targets.push_back({&g, 1});
  }
  double squares = 0;
  cpu::optimizer_kernels.power_sum({}, f32, 2, slices.data(), 100, &squares);
  EXPECT_NEAR(std::sqrt(squares) / 1e21, 1, 1e-6);
  cpu::optimizer_kernels.scale({}, f32, targets.data(), 100, 1 / std::sqrt(squares));
  for (const float g : gradients) EXPECT_NEAR(g, 0.1f, 1e-6);
  gradients[50] = std::numeric_limits<float>::infinity();
  cpu::optimizer_kernels.power_sum({}, f32, 2, slices.data(), 100, &squares);
  EXPECT_TRUE(std::isinf(squares));
}

TEST(Clipping, SumAndScaleOfManySlices) {
  auto lists = random_lists<float>(9);
  std::vector<ConstSlice> slices;
  std::vector<MutableSlice> targets;
  double expected = 0;
  for (size_t i = 0; i < lists.size(); ++i) {
    slices.push_back({lists[i].data(), kSizes[i]});
    targets.push_back({lists[i].data(), kSizes[i]});
    for (const float x : lists[i]) expected += static_cast<double>(x) * x;
  }
  double one = 0, three = 0, none = 7;
  const int before = num_threads();
  set_num_threads(1);
  cpu::optimizer_kernels.power_sum({}, f32, 2, slices.data(), static_cast<int64_t>(slices.size()), &one);
  set_num_threads(3);
  cpu::optimizer_kernels.power_sum({}, f32, 2, slices.data(), static_cast<int64_t>(slices.size()), &three);
  set_num_threads(before);
  EXPECT_NEAR(one / expected, 1, 1e-12);
  EXPECT_EQ(one, three);
  const auto original = lists;
  cpu::optimizer_kernels.scale({}, f32, targets.data(), static_cast<int64_t>(targets.size()), 0.5);
  for (size_t i = 0; i < lists.size(); ++i)
    for (size_t j = 0; j < lists[i].size(); ++j) ASSERT_EQ(lists[i][j], original[i][j] * 0.5f);
  cpu::optimizer_kernels.power_sum({}, f32, 2, nullptr, 0, &none);
  EXPECT_EQ(none, 0.0);
}

TEST(Optimizer, OtherDtypesAreAnError) {
  EXPECT_THROW(cpu::optimizer_kernels.step({}, DType::i32, AdamOptions{}, nullptr, 0), Error);
}

}  // namespace
}  // namespace weft
