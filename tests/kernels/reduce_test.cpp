// Reduction kernels against plain loops in f64, over layouts that take every path of the walk.
#include "kernels/reduce/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/base/parallel.h"

namespace weft {
namespace {

const ReduceKernels& kernels = cpu::reduce_kernels;
constexpr double kInf = std::numeric_limits<double>::infinity();

struct Dim {
  int64_t size;
  int64_t stride;
};

struct Case {
  const char* name;
  std::vector<Dim> kept;
  std::vector<Dim> reduced;

  ReduceLayout layout() const {
    ReduceLayout result;
    for (Dim d : kept) result.keep(d.size, d.stride);
    for (Dim d : reduced) result.reduce(d.size, d.stride);
    return result;
  }
  int64_t elements() const {
    int64_t last = 0;
    for (Dim d : kept) last += (d.size - 1) * d.stride;
    for (Dim d : reduced) last += (d.size - 1) * d.stride;
    return last + 1;
  }
};

std::vector<int64_t> offsets(const std::vector<Dim>& dims) {
  std::vector<int64_t> result = {0};
  for (Dim d : dims) {
    std::vector<int64_t> next;
    for (int64_t base : result)
      for (int64_t i = 0; i < d.size; ++i) next.push_back(base + i * d.stride);
    result = next;
  }
  return result;
}

const std::vector<Case> kCases = {
    {"everything", {}, {{1000003, 1}}},
    {"one", {}, {{1, 1}}},
    {"short rows", {{300, 5}}, {{5, 1}}},
    {"long rows", {{7, 70001}}, {{70001, 1}}},
    {"many rows", {{100, 1000}}, {{1000, 1}}},
    {"bias", {{384, 1}}, {{2048, 384}}},
    {"narrow bias", {{10, 1}}, {{30001, 10}}},
    {"wide bias", {{1000, 1}}, {{70, 1000}}},
    {"middle", {{6, 33 * 40}, {33, 1}}, {{40, 33}}},
    {"outer and inner", {{5, 77}}, {{9, 5 * 77}, {77, 1}}},
    {"large outer and inner", {{3, 800}}, {{64, 3 * 800}, {800, 1}}},
    {"rows over two", {{24, 1}}, {{50, 3000}, {60, 48}}},
    {"strided", {{40, 300}}, {{100, 3}}},
    {"expanded", {{40, 1}}, {{100, 0}}},
    {"expanded both", {{4, 0}}, {{100, 0}}},
};

template <class T>
std::vector<T> random_values(int64_t n, uint32_t seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> draw(-2, 3);
  std::vector<T> values(static_cast<size_t>(n));
  for (T& v : values) v = static_cast<T>(draw(engine));
  return values;
}

template <class T>
void check(const Case& c) {
  SCOPED_TRACE(c.name);
  const std::vector<T> x = random_values<T>(c.elements(), 3);
  const std::vector<int64_t> kept = offsets(c.kept), reduced = offsets(c.reduced);
  const ReduceLayout layout = c.layout();
  const double unit = std::is_same_v<T, float> ? 0x1p-24 : 0x1p-52;
  const double n = static_cast<double>(reduced.size());
  std::vector<T> sum(kept.size()), mean(sum), max(sum), min(sum), lse(sum), var(sum), arg_value(sum);
  std::vector<T> norm1(sum), norm2(sum), norm3(sum), largest(sum), smallest(sum);
  std::vector<int64_t> index(kept.size());
  const DType dtype = dtype_of<T>;
  kernels.reduce({}, Reduction::sum, dtype, x.data(), layout, sum.data());
  kernels.reduce({}, Reduction::mean, dtype, x.data(), layout, mean.data());
  kernels.reduce({}, Reduction::max, dtype, x.data(), layout, max.data());
  kernels.reduce({}, Reduction::min, dtype, x.data(), layout, min.data());
  kernels.logsumexp({}, dtype, x.data(), layout, lse.data());
  kernels.norm({}, dtype, x.data(), layout, 1, norm1.data());
  kernels.norm({}, dtype, x.data(), layout, 2, norm2.data());
  kernels.norm({}, dtype, x.data(), layout, 3, norm3.data());
  kernels.norm({}, dtype, x.data(), layout, kInf, largest.data());
  kernels.norm({}, dtype, x.data(), layout, -kInf, smallest.data());
  kernels.variance({}, dtype, x.data(), layout, 1, var.data());
  kernels.arg_reduce({}, true, dtype, x.data(), layout, arg_value.data(), index.data());
  for (size_t k = 0; k < kept.size(); ++k) {
    double s = 0, s1 = 0, s2 = 0, s3 = 0, e = 0, hi = -kInf, lo = kInf, far = 0, near = kInf;
    size_t at = 0;
    for (size_t r = 0; r < reduced.size(); ++r) {
      const double v = x[static_cast<size_t>(kept[k] + reduced[r])];
      s += v, s1 += std::abs(v), s2 += v * v, s3 += std::pow(std::abs(v), 3), e += std::exp(v);
      if (v > hi) hi = v, at = r;
      lo = std::min(lo, v), far = std::max(far, std::abs(v)), near = std::min(near, std::abs(v));
    }
    double squares = 0;
    for (int64_t r : reduced) squares += std::pow(x[static_cast<size_t>(kept[k] + r)] - s / n, 2);
    ASSERT_NEAR(sum[k], s, (41 * unit + n * 0x1p-52) * s1);
    ASSERT_NEAR(mean[k], s / n, (41 * unit + n * 0x1p-52) * s1 / n);
    ASSERT_EQ(max[k], hi);
    ASSERT_EQ(min[k], lo);
    ASSERT_NEAR(lse[k], std::log(e), 1e-5 * unit / 0x1p-24 * std::max(1.0, std::abs(std::log(e))) + 1e-12);
    ASSERT_NEAR(norm1[k], s1, 2 * unit * s1 + n * 0x1p-52 * s1);
    ASSERT_NEAR(norm2[k], std::sqrt(s2), (4 * unit + n * 0x1p-52) * std::sqrt(s2));
    ASSERT_NEAR(norm3[k], std::cbrt(s3), (4 * unit + n * 0x1p-52) * std::cbrt(s3));
    ASSERT_EQ(largest[k], far);
    ASSERT_EQ(smallest[k], near);
    if (n > 1) {
      ASSERT_NEAR(var[k], squares / (n - 1), (4 * unit + n * 0x1p-50) * squares / (n - 1) + 1e-25);
    } else {
      ASSERT_TRUE(std::isnan(var[k]));
    }
    ASSERT_EQ(arg_value[k], hi);
    ASSERT_EQ(index[k], static_cast<int64_t>(at));
  }
}

TEST(Reduce, MatchesPlainLoops) {
  for (const Case& c : kCases) {
    check<float>(c);
    check<double>(c);
  }
}

TEST(Reduce, SameBitsForAnyNumberOfThreads) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const std::vector<float> x = random_values<float>(c.elements(), 5);
    std::vector<float> one(offsets(c.kept).size()), four(one);
    set_num_threads(1);
    kernels.reduce({}, Reduction::sum, f32, x.data(), c.layout(), one.data());
    set_num_threads(4);
    kernels.reduce({}, Reduction::sum, f32, x.data(), c.layout(), four.data());
    EXPECT_EQ(one, four);
  }
}

TEST(Reduce, NanWins) {
  const float nan = std::nanf("");
  for (const int64_t n : {3, 40, 5000}) {
    for (const int64_t place : {int64_t{0}, n / 2, n - 1}) {
      std::vector<float> x = random_values<float>(n, 9);
      x[static_cast<size_t>(place)] = nan;
      ReduceLayout layout;
      layout.reduce(n, 1);
      float value = 0;
      int64_t index = -1;
      kernels.reduce({}, Reduction::max, f32, x.data(), layout, &value);
      EXPECT_TRUE(std::isnan(value));
      kernels.reduce({}, Reduction::min, f32, x.data(), layout, &value);
      EXPECT_TRUE(std::isnan(value));
      kernels.logsumexp({}, f32, x.data(), layout, &value);
      EXPECT_TRUE(std::isnan(value));
      for (bool largest : {true, false}) {
        kernels.arg_reduce({}, largest, f32, x.data(), layout, &value, &index);
        EXPECT_TRUE(std::isnan(value));
        EXPECT_EQ(index, place);
      }
    }
  }
}

TEST(Reduce, LogsumexpAtInfinity) {
  const float inf = std::numeric_limits<float>::infinity();
  const auto of = [](std::vector<float> x) {
    ReduceLayout layout;
    layout.reduce(static_cast<int64_t>(x.size()), 1);
    float value = 0;
    kernels.logsumexp({}, f32, x.data(), layout, &value);
    return value;
  };
  EXPECT_EQ(of({}), -inf);
  EXPECT_EQ(of(std::vector<float>(20, -inf)), -inf);
  EXPECT_EQ(of({1, inf, 2}), inf);
  std::vector<float> mixed(10000, -1000.0f);
  mixed[9000] = inf;
  EXPECT_EQ(of(mixed), inf);
  mixed[9000] = -inf;
  mixed[100] = 5000;
  EXPECT_EQ(of(mixed), 5000);
  EXPECT_NEAR(of(std::vector<float>(10000, -2000.0f)), -2000 + std::log(10000.0), 1e-3);
}

TEST(Reduce, IntegersWrapAndCount) {
  const std::vector<int64_t> x = {INT64_MAX, 1, -5, 7};
  ReduceLayout layout;
  layout.reduce(4, 1);
  int64_t out = 0;
  kernels.reduce({}, Reduction::sum, i64, x.data(), layout, &out);
  EXPECT_EQ(out, INT64_MIN + 2);
  kernels.reduce({}, Reduction::max, i64, x.data(), layout, &out);
  EXPECT_EQ(out, INT64_MAX);
  const bool flags[] = {false, false, true, false};
  bool any = false;
  kernels.reduce({}, Reduction::max, boolean, flags, layout, &any);
  EXPECT_TRUE(any);
  kernels.reduce({}, Reduction::min, boolean, flags, layout, &any);
  EXPECT_FALSE(any);
  EXPECT_THROW(kernels.reduce({}, Reduction::mean, i64, x.data(), layout, &out), Error);
}

TEST(Reduce, NothingToReduce) {
  ReduceLayout layout;
  layout.keep(3, 1);
  layout.reduce(0, 3);
  float out[3];
  kernels.reduce({}, Reduction::sum, f32, nullptr, layout, out);
  EXPECT_EQ(out[2], 0);
  kernels.reduce({}, Reduction::prod, f32, nullptr, layout, out);
  EXPECT_EQ(out[2], 1);
  kernels.reduce({}, Reduction::mean, f32, nullptr, layout, out);
  EXPECT_TRUE(std::isnan(out[2]));
  kernels.norm({}, f32, nullptr, layout, kInf, out);
  EXPECT_EQ(out[0], 0);
}

TEST(Reduce, ScansInPlace) {
  std::vector<float> x = {1, 2, 3, 4, 5, 6};
  kernels.scan({}, Scan::sum, f32, x.data(), x.data(), 1, 3, 2);
  EXPECT_EQ(x, (std::vector<float>{1, 2, 4, 6, 9, 12}));
  std::vector<int64_t> n = {2, 3, 4, 5};
  kernels.scan({}, Scan::prod, i64, n.data(), n.data(), 2, 2, 1);
  EXPECT_EQ(n, (std::vector<int64_t>{2, 6, 4, 20}));
}

}  // namespace
}  // namespace weft
