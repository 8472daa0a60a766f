// Batch norm against plain f64 loops.
#include "kernels/norm/batch_norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "kernels/base/parallel.h"

namespace weft {
namespace {

constexpr double kEps = 1e-5, kMomentum = 0.3;

template <class T>
std::vector<T> random_values(int64_t count, unsigned seed, double mean = 0) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(mean, 1);
  std::vector<T> values(static_cast<size_t>(count));
  for (T& x : values) x = static_cast<T>(static_cast<float>(normal(generator)));
  return values;
}

template <class T>
struct Launch {
  BatchNormShape shape;
  std::vector<T> x, dy, weight, bias, y, mean, rstd, running_mean, running_var, dx, dweight, dbias;

  explicit Launch(BatchNormShape s) : shape(s) {
    const int64_t elements = s.outer * s.channels * s.inner;
    x = random_values<T>(elements, 1, 2);
    dy = random_values<T>(elements, 2);
    weight = random_values<T>(s.channels, 3);
    bias = random_values<T>(s.channels, 4);
    for (auto* v : {&y, &dx}) v->assign(static_cast<size_t>(elements) + 1, T(9));
    for (auto* v : {&mean, &rstd, &dweight, &dbias}) v->assign(static_cast<size_t>(s.channels) + 1, T(9));
    running_mean.assign(static_cast<size_t>(s.channels), T(0.5));
    running_var.assign(static_cast<size_t>(s.channels), T(2));
  }
  void both(bool affine) {
    const T *w = affine ? weight.data() : nullptr, *b = affine ? bias.data() : nullptr;
    cpu::batch_norm_kernels.forward({}, dtype_of<T>, shape, x.data(), w, b, y.data(), mean.data(), rstd.data(),
                                    running_mean.data(), running_var.data(), kMomentum, kEps);
    cpu::batch_norm_kernels.backward({}, dtype_of<T>, shape, dy.data(), x.data(), mean.data(), rstd.data(), w, true,
                                     dx.data(), dweight.data(), dbias.data());
  }
  // Calls f(i) for each element of a channel.
  template <class F>
  void of_channel(int64_t channel, F&& f) const {
    for (int64_t n = 0; n < shape.outer; ++n)
      for (int64_t k = 0; k < shape.inner; ++k)
        f(static_cast<size_t>((n * shape.channels + channel) * shape.inner + k));
  }
};

template <class T>
void check(BatchNormShape shape, bool affine, double tolerance) {
  SCOPED_TRACE(testing::Message() << shape.outer << " x " << shape.channels << " x " << shape.inner << ", affine "
                                  << affine);
  Launch<T> run(shape);
  run.both(affine);
  const auto n = static_cast<double>(shape.count());
  for (int64_t c = 0; c < shape.channels; ++c) {
    const auto at = static_cast<size_t>(c);
    double mean = 0, squares = 0, sum = 0, sum_h = 0;
    run.of_channel(c, [&](size_t i) { mean += run.x[i] / n; });
    run.of_channel(c, [&](size_t i) { squares += (run.x[i] - mean) * (run.x[i] - mean); });
    const double rstd = 1 / std::sqrt(squares / n + kEps), w = affine ? run.weight[at] : 1;
    run.of_channel(c, [&](size_t i) {
      sum += run.dy[i];
      sum_h += run.dy[i] * (run.x[i] - mean) * rstd;
    });
    ASSERT_NEAR(run.mean[at], mean, tolerance * 10);
    ASSERT_NEAR(run.rstd[at], rstd, tolerance * 10 * rstd);
    ASSERT_NEAR(run.running_mean[at], 0.5 * (1 - kMomentum) + kMomentum * mean, tolerance * 10);
    ASSERT_NEAR(run.running_var[at], 2 * (1 - kMomentum) + kMomentum * squares / (n - 1), tolerance * 20);
    ASSERT_NEAR(run.dbias[at], sum, tolerance * 10 * std::sqrt(n));
    ASSERT_NEAR(run.dweight[at], sum_h, tolerance * 10 * std::sqrt(n) * rstd);
    run.of_channel(c, [&](size_t i) {
      const double h = (run.x[i] - mean) * rstd;
      ASSERT_NEAR(run.y[i], h * w + (affine ? run.bias[at] : 0), tolerance * 10 * (1 + rstd));
      ASSERT_NEAR(run.dx[i], rstd * w * (run.dy[i] - sum / n - h * sum_h / n), tolerance * 10 * (1 + rstd * rstd));
    });
  }
  for (const auto* v : {&run.y, &run.dx, &run.mean, &run.rstd, &run.dweight, &run.dbias}) EXPECT_EQ(v->back(), T(9));
}

TEST(BatchNorm, AgreesWithTheFormula) {
  for (const bool affine : {true, false}) {
    for (const BatchNormShape shape : {BatchNormShape{1, 1, 2},
                                       {3, 5, 7},
                                       {2, 3, 49},
                                       {4, 70, 16},
                                       {1, 2, 1000},
                                       {2, 1, 1},
                                       {9, 3, 1},
                                       {200, 130, 1}}) {
      check<float>(shape, affine, 4e-6);
      check<double>(shape, affine, 1e-13);
    }
  }
}

TEST(BatchNorm, LargeCommonOffset) {
  // The variance of 1e4 + {-1, 0, 1, …}: a single pass of sums of squares in f32 would lose it.
  for (const BatchNormShape shape : {BatchNormShape{2, 1, 300}, {600, 1, 1}}) {
    Launch<float> run(shape);
    for (size_t i = 0; i < run.x.size(); ++i) run.x[i] = 1e4f + static_cast<float>(i % 3) - 1;
    run.both(false);
    EXPECT_NEAR(run.rstd[0], 1 / std::sqrt(2.0 / 3 + kEps), 1e-3);
  }
}

TEST(BatchNorm, MillionsOfElements) {
  // Sums of a long channel keep their digits: runs are added in f64.
  Launch<float> run({300, 1, 4096});
  for (float& x : run.x) x = 3;
  run.x[7] = 3.5f;
  run.both(false);
  EXPECT_NEAR(run.mean[0], 3 + 0.5 / (300 * 4096), 1e-6);
}

TEST(BatchNorm, GivenStatisticsAndResultsLeftOut) {
  for (const BatchNormShape shape : {BatchNormShape{3, 4, 5}, {6, 70, 1}}) {
    Launch<float> all(shape), some(shape);
    all.both(true);
    some.mean = all.mean;
    some.rstd = all.rstd;
    const auto& kernels = cpu::batch_norm_kernels;
    kernels.apply({}, f32, shape, some.x.data(), some.mean.data(), some.rstd.data(), some.weight.data(),
                  some.bias.data(), some.y.data());
    EXPECT_EQ(some.y, all.y);
    // With given statistics the gradient passes straight through.
    kernels.backward({}, f32, shape, some.dy.data(), some.x.data(), some.mean.data(), some.rstd.data(), nullptr, false,
                     some.dx.data(), nullptr, nullptr);
    for (int64_t c = 0; c < shape.channels; ++c)
      some.of_channel(c, [&](size_t i) { ASSERT_EQ(some.dx[i], some.rstd[static_cast<size_t>(c)] * some.dy[i]); });
    EXPECT_EQ(some.dweight[0], 9.0f);
    kernels.backward({}, f32, shape, some.dy.data(), some.x.data(), some.mean.data(), some.rstd.data(), nullptr, false,
                     nullptr, some.dweight.data(), some.dbias.data());
    EXPECT_EQ(some.dweight, all.dweight);
    EXPECT_EQ(some.dbias, all.dbias);
  }
}

TEST(BatchNorm, DoesNotDependOnTheNumberOfThreads) {
  const int before = num_threads();
  for (const BatchNormShape shape : {BatchNormShape{20, 60, 100}, {500, 200, 1}}) {
    Launch<float> one(shape), three(shape);
    set_num_threads(1);
    one.both(true);
    set_num_threads(3);
    three.both(true);
    EXPECT_EQ(one.y, three.y);
    EXPECT_EQ(one.dx, three.dx);
    EXPECT_EQ(one.dweight, three.dweight);
  }
  set_num_threads(before);
}

}  // namespace
}  // namespace weft
