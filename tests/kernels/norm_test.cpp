// Layer norm and RMS norm against plain f64 loops.
#include "kernels/norm/norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/base/parallel.h"

namespace weft {
namespace {

template <class T>
std::vector<T> random_values(int64_t count, unsigned seed, double mean = 0) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(mean, 1);
  std::vector<T> values(static_cast<size_t>(count));
  for (T& x : values) x = static_cast<T>(static_cast<float>(normal(generator)));
  return values;
}

template <class T>
struct Results {
  std::vector<T> y, mean, rstd, dx, dweight, dbias;
};

template <class T>
Results<T> run(bool center, int64_t rows, int64_t columns, const std::vector<T>& x, const std::vector<T>& dy,
               const T* weight, const T* bias, double eps) {
  Results<T> r;
  for (auto* v : {&r.y, &r.dx}) v->assign(static_cast<size_t>(rows * columns) + 1, T(9));
  for (auto* v : {&r.mean, &r.rstd}) v->assign(static_cast<size_t>(rows) + 1, T(9));
  for (auto* v : {&r.dweight, &r.dbias}) v->assign(static_cast<size_t>(columns) + 1, T(9));
  const DType dtype = dtype_of<T>;
  if (center) {
    cpu::norm_kernels.layer_norm_forward({}, dtype, x.data(), weight, bias, r.y.data(), r.mean.data(), r.rstd.data(),
                                         rows, columns, eps);
    cpu::norm_kernels.layer_norm_backward({}, dtype, dy.data(), x.data(), weight, r.mean.data(), r.rstd.data(),
                                          r.dx.data(), r.dweight.data(), r.dbias.data(), rows, columns);
  } else {
    cpu::norm_kernels.rms_norm_forward({}, dtype, x.data(), weight, r.y.data(), r.rstd.data(), rows, columns, eps);
    cpu::norm_kernels.rms_norm_backward({}, dtype, dy.data(), x.data(), weight, r.rstd.data(), r.dx.data(),
                                        r.dweight.data(), rows, columns);
  }
  return r;
}

template <class T>
void check(bool center, int64_t rows, int64_t columns, bool affine, double tolerance) {
  SCOPED_TRACE(testing::Message() << "center " << center << ", " << rows << " x " << columns << ", affine " << affine);
  const double eps = 1e-5;
  const auto x = random_values<T>(rows * columns, 1, 2), dy = random_values<T>(rows * columns, 2);
  const auto weight = random_values<T>(columns, 3), bias = random_values<T>(columns, 4);
  const Results<T> r = run<T>(center, rows, columns, x, dy, affine ? weight.data() : nullptr,
                              affine && center ? bias.data() : nullptr, eps);
  std::vector<double> dweight(static_cast<size_t>(columns)), dbias(dweight);
  for (int64_t row = 0; row < rows; ++row) {
    const auto at = [&](int64_t i) { return static_cast<size_t>(row * columns + i); };
    const auto n = static_cast<double>(columns);
    double mean = 0, squares = 0, sum_g = 0, sum_gh = 0;
    for (int64_t i = 0; center && i < columns; ++i) mean += x[at(i)] / n;
    for (int64_t i = 0; i < columns; ++i) squares += (x[at(i)] - mean) * (x[at(i)] - mean);
    const double rstd = 1 / std::sqrt(squares / n + eps);
    for (int64_t i = 0; i < columns; ++i) {
      const auto c = static_cast<size_t>(i);
      const double h = (x[at(i)] - mean) * rstd, g = dy[at(i)] * (affine ? weight[c] : 1);
      sum_g += g;
      sum_gh += g * h;
      dweight[c] += dy[at(i)] * h;
      dbias[c] += dy[at(i)];
      const double y = h * (affine ? weight[c] : 1) + (affine && center ? bias[c] : 0);
      ASSERT_NEAR(r.y[at(i)], y, tolerance * (1 + std::abs(y)));
    }
    // A row of one element has variance 0 and rstd 1 / sqrt(eps): rounding shows up 300 times larger.
    const double loose = tolerance * std::max(1.0, rstd);
    for (int64_t i = 0; i < columns; ++i) {
      const double h = (x[at(i)] - mean) * rstd, g = dy[at(i)] * (affine ? weight[static_cast<size_t>(i)] : 1);
      const double dx = rstd * (g - (center ? sum_g / n : 0) - h * sum_gh / n);
      ASSERT_NEAR(r.dx[at(i)], dx, loose * (1 + std::abs(dx)));
    }
  }
  for (size_t i = 0; i < dweight.size(); ++i) {
    ASSERT_NEAR(r.dweight[i], dweight[i], 10 * tolerance * (1 + std::sqrt(static_cast<double>(rows))));
    if (!center) continue;
    ASSERT_NEAR(r.dbias[i], dbias[i], 10 * tolerance * (1 + std::sqrt(static_cast<double>(rows))));
  }
  EXPECT_EQ(r.y.back(), T(9));
  EXPECT_EQ(r.dx.back(), T(9));
  EXPECT_EQ(r.rstd.back(), T(9));
  EXPECT_EQ(r.dweight.back(), T(9));
}

TEST(Norm, AgreesWithTheFormula) {
  for (const bool center : {true, false}) {
    for (const bool affine : {true, false}) {
      for (const int64_t columns : {1, 3, 4, 16, 17, 100, 768}) {
        for (const int64_t rows : {1, 6, 97}) {
          check<float>(center, rows, columns, affine, 8e-6);
          check<double>(center, rows, columns, affine, 1e-12);
        }
      }
    }
    check<float>(center, 2000, 33, true, 8e-6);
  }
}

TEST(Norm, LargeCommonOffset) {
  // The variance of 1e4 + {-1, 0, 1, …}: a single pass of sums of squares in f32 would lose it.
  const int64_t columns = 64;
  std::vector<float> x, y(64), weight(64, 1.0f);
  for (int64_t i = 0; i < columns; ++i) x.push_back(1e4f + static_cast<float>(i % 3 - 1));
  float mean = 0, rstd = 0;
  cpu::norm_kernels.layer_norm_forward({}, f32, x.data(), nullptr, nullptr, y.data(), &mean, &rstd, 1, columns, 1e-5);
  double m = 0, v = 0;
  for (const float value : x) m += value / 64.0;
  for (const float value : x) v += (value - m) * (value - m) / 64;
  EXPECT_NEAR(rstd, 1 / std::sqrt(v + 1e-5), 2e-3);
}

TEST(Norm, ResultsMayBeLeftOut) {
  const auto x = random_values<float>(40, 1), dy = random_values<float>(40, 2);
  const Results<float> all = run<float>(true, 5, 8, x, dy, nullptr, nullptr, 1e-5);
  std::vector<float> dx(40), dbias(8);
  cpu::norm_kernels.layer_norm_backward({}, f32, dy.data(), x.data(), nullptr, all.mean.data(), all.rstd.data(),
                                        dx.data(), nullptr, nullptr, 5, 8);
  EXPECT_TRUE(std::equal(dx.begin(), dx.end(), all.dx.begin()));
  cpu::norm_kernels.layer_norm_backward({}, f32, dy.data(), x.data(), nullptr, all.mean.data(), all.rstd.data(),
                                        nullptr, nullptr, dbias.data(), 5, 8);
  EXPECT_TRUE(std::equal(dbias.begin(), dbias.end(), all.dbias.begin()));
}

TEST(Norm, NoRowsGiveZeroGradients) {
  const Results<float> r = run<float>(true, 0, 4, {}, {}, nullptr, nullptr, 1e-5);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(r.dweight[i] + r.dbias[i], 0.0f);
}

TEST(Norm, DoesNotDependOnTheNumberOfThreads) {
  const auto x = random_values<float>(3000 * 50, 1), dy = random_values<float>(3000 * 50, 2);
  const auto weight = random_values<float>(50, 3);
  const int before = num_threads();
  set_num_threads(1);
  const Results<float> one = run<float>(true, 3000, 50, x, dy, weight.data(), nullptr, 1e-5);
  set_num_threads(3);
  const Results<float> three = run<float>(true, 3000, 50, x, dy, weight.data(), nullptr, 1e-5);
  set_num_threads(before);
  EXPECT_EQ(one.dweight, three.dweight);
  EXPECT_EQ(one.dbias, three.dbias);
  EXPECT_EQ(one.dx, three.dx);
}

TEST(Norm, OtherDtypesAreAnError) {
  EXPECT_THROW(cpu::norm_kernels.rms_norm_forward({}, bf16, nullptr, nullptr, nullptr, nullptr, 1, 1, 0), Error);
}

}  // namespace
}  // namespace weft
