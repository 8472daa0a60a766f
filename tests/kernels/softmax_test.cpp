// Softmax and log-softmax against plain f64 loops.
#include "kernels/softmax/softmax.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/base/error.h"

namespace weft {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <class T>
std::vector<T> random_values(size_t count, double scale, unsigned seed = 5) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(0, scale);
  std::vector<T> values(count);
  for (T& x : values) x = static_cast<T>(static_cast<float>(normal(generator)));
  return values;
}

template <class T>
void check(int64_t outer, int64_t size, int64_t inner, bool log, double scale) {
  SCOPED_TRACE(testing::Message() << outer << " x " << size << " x " << inner << " log " << log);
  const auto count = static_cast<size_t>(outer * size * inner);
  const std::vector<T> x = random_values<T>(count, scale), dy = random_values<T>(count, 1, 6);
  std::vector<T> y(count + 1, T(9)), dx(count + 1, T(9));
  cpu::softmax_kernels.forward({}, dtype_of<T>, x.data(), y.data(), outer, size, inner, log);
  cpu::softmax_kernels.backward({}, dtype_of<T>, y.data(), dy.data(), dx.data(), outer, size, inner, log);
  EXPECT_EQ(y[count], T(9));
  EXPECT_EQ(dx[count], T(9));
  const double tolerance = sizeof(T) == 8 ? 1e-13 : 3e-6;
  for (int64_t row = 0; row < outer * inner; ++row) {
    const auto at = [&](int64_t i) { return static_cast<size_t>((row / inner * size + i) * inner + row % inner); };
    double largest = -kInfinity, sum = 0, dot = 0, total = 0;
    for (int64_t i = 0; i < size; ++i) largest = std::max<double>(largest, x[at(i)]);
    for (int64_t i = 0; i < size; ++i) sum += std::exp(x[at(i)] - largest);
    for (int64_t i = 0; i < size; ++i) {
      dot += std::exp(x[at(i)] - largest) / sum * dy[at(i)];
      total += dy[at(i)];
    }
    for (int64_t i = 0; i < size; ++i) {
      const double p = std::exp(x[at(i)] - largest) / sum;
      const double expected = log ? x[at(i)] - largest - std::log(sum) : p;
      ASSERT_NEAR(y[at(i)], expected, tolerance * (1 + std::abs(expected)));
      const double gradient = log ? dy[at(i)] - p * total : p * (dy[at(i)] - dot);
      ASSERT_NEAR(dx[at(i)], gradient, tolerance * (3 + std::abs(gradient) + (log ? p * std::abs(total) : 0)));
    }
  }
}

TEST(Softmax, AgreesWithTheFormula) {
  for (const bool log : {false, true}) {
    for (const int64_t size : {1, 2, 3, 15, 16, 17, 64, 100, 1000}) {
      check<float>(7, size, 1, log, 3);
      check<double>(7, size, 1, log, 3);
      check<float>(3, size, 5, log, 3);
      check<float>(2, size, 130, log, 3);
      check<double>(2, size, 67, log, 3);
    }
    check<float>(300, 333, 1, log, 20);
    check<float>(0, 4, 1, log, 1);
    check<float>(4, 0, 1, log, 1);
    check<float>(4, 4, 0, log, 1);
  }
}

TEST(Softmax, MinusInfinityIsProbabilityZero) {
  for (const int64_t inner : {1, 3}) {
    std::vector<float> x(static_cast<size_t>(3 * inner), 0.0f), y(x.size());
    for (int64_t c = 0; c < inner; ++c) x[static_cast<size_t>(inner + c)] = -kInfinity;
    cpu::softmax_kernels.forward({}, f32, x.data(), y.data(), 1, 3, inner, false);
    for (int64_t c = 0; c < inner; ++c) {
      EXPECT_EQ(y[static_cast<size_t>(c)], 0.5f);
      EXPECT_EQ(y[static_cast<size_t>(inner + c)], 0.0f);
      EXPECT_EQ(y[static_cast<size_t>(2 * inner + c)], 0.5f);
    }
  }
}

TEST(Softmax, RowsThatHaveNoDistributionAreNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const int64_t size = 17;
  for (const float bad : {nan, kInfinity}) {
    for (int64_t at = 0; at < size; ++at) {
      std::vector<float> x(static_cast<size_t>(size), 1.0f), y(x.size());
      x[static_cast<size_t>(at)] = bad;
      cpu::softmax_kernels.forward({}, f32, x.data(), y.data(), 1, size, 1, false);
      EXPECT_TRUE(std::isnan(y[static_cast<size_t>(at)])) << bad << " at " << at;
      EXPECT_TRUE(!std::isnan(bad) || std::isnan(y[static_cast<size_t>((at + 1) % size)]));
    }
  }
  std::vector<float> x(static_cast<size_t>(size), -kInfinity), y(x.size());
  cpu::softmax_kernels.forward({}, f32, x.data(), y.data(), 1, size, 1, false);
  for (const float p : y) EXPECT_TRUE(std::isnan(p));
}

TEST(Softmax, SumsToOneForLargeLogits) {
  for (const int64_t size : {1, 3, 17}) {
    for (const float offset : {0.0f, 1e4f, -1e4f, 3e38f}) {
      std::vector<float> x(static_cast<size_t>(size), offset), y(x.size());
      cpu::softmax_kernels.forward({}, f32, x.data(), y.data(), 1, size, 1, false);
      for (const float p : y) EXPECT_NEAR(p, 1.0 / static_cast<double>(size), 1e-6);
      cpu::softmax_kernels.forward({}, f32, x.data(), y.data(), 1, size, 1, true);
      for (const float p : y) EXPECT_NEAR(p, -std::log(static_cast<double>(size)), 1e-6);
    }
  }
}

TEST(Softmax, WorksInPlace) {
  std::vector<float> x = random_values<float>(5 * 37, 2), y(x.size());
  cpu::softmax_kernels.forward({}, f32, x.data(), y.data(), 5, 37, 1, false);
  cpu::softmax_kernels.forward({}, f32, x.data(), x.data(), 5, 37, 1, false);
  EXPECT_EQ(x, y);
}

TEST(Softmax, OtherDtypesAreAnError) {
  EXPECT_THROW(cpu::softmax_kernels.forward({}, f16, nullptr, nullptr, 1, 1, 1, false), Error);
}

}  // namespace
}  // namespace weft
