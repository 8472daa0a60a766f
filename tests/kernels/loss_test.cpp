// Cross entropy against plain f64 loops.
#include "kernels/loss/loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/base/error.h"

namespace weft {
namespace {

template <class T>
struct Results {
  std::vector<T> loss, row_max, log_sum, row_weight, dlogits;
};

template <class T>
Results<T> run(const CrossEntropyOptions& options, const std::vector<T>& logits, const std::vector<int64_t>& targets,
               const std::vector<T>& scale) {
  Results<T> r;
  const T nan = std::numeric_limits<T>::quiet_NaN();  // every result must be written
  for (auto* v : {&r.loss, &r.row_max, &r.log_sum, &r.row_weight}) v->assign(targets.size(), nan);
  r.dlogits.assign(logits.size(), nan);
  const auto rows = static_cast<int64_t>(targets.size());
  cpu::loss_kernels.cross_entropy_forward({}, dtype_of<T>, options, logits.data(), targets.data(), rows, r.loss.data(),
                                          r.row_max.data(), r.log_sum.data(), r.row_weight.data());
  cpu::loss_kernels.cross_entropy_backward({}, dtype_of<T>, options, logits.data(), targets.data(), rows,
                                           r.row_max.data(), r.log_sum.data(), scale.data(), scale.size() > 1 ? 1 : 0,
                                           r.dlogits.data());
  return r;
}

template <class T>
void check(int64_t rows, int64_t classes, bool weighted, double smoothing, double tolerance) {
  SCOPED_TRACE(testing::Message() << rows << " x " << classes << ", weighted " << weighted << ", " << smoothing);
  std::mt19937 generator(3);
  std::normal_distribution<double> normal(0, 3);
  std::vector<T> logits(static_cast<size_t>(rows * classes)), weight(static_cast<size_t>(classes)),
      scale(static_cast<size_t>(rows));
  for (auto* v : {&logits, &weight, &scale})
    for (T& x : *v) x = static_cast<T>(static_cast<float>(normal(generator)));
  for (T& w : weight) w = std::abs(w);
  std::vector<int64_t> targets(static_cast<size_t>(rows));
  for (int64_t i = 0; i < rows; ++i) targets[static_cast<size_t>(i)] = i % 5 == 3 ? -100 : i * 7 % classes;
  CrossEntropyOptions options;
  options.classes = classes;
  options.weight = weighted ? weight.data() : nullptr;
  options.label_smoothing = smoothing;
  const Results<T> r = run<T>(options, logits, targets, scale);
  for (int64_t row = 0; row < rows; ++row) {
    const auto at = static_cast<size_t>(row);
    const T* x = logits.data() + row * classes;
    const T* dx = r.dlogits.data() + row * classes;
    const int64_t target = targets[at];
    if (target == -100) {
      EXPECT_EQ(r.loss[at], T(0));
      EXPECT_EQ(r.row_weight[at], T(0));
      for (int64_t c = 0; c < classes; ++c) ASSERT_EQ(dx[c], T(0));
      continue;
    }
    const auto w = [&](int64_t c) { return weighted ? static_cast<double>(weight[static_cast<size_t>(c)]) : 1.0; };
    double largest = x[0], sum = 0, loss = 0, total = 0;
    for (int64_t c = 0; c < classes; ++c) largest = std::max<double>(largest, x[c]);
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(x[c] - largest);
    for (int64_t c = 0; c < classes; ++c) {
      const double part = (c == target ? 1 - smoothing : 0) + smoothing / static_cast<double>(classes);
      loss += part * w(c) * (largest + std::log(sum) - x[c]);
      total += part * w(c);
    }
    ASSERT_NEAR(r.loss[at], loss, tolerance * (1 + std::abs(loss)));
    ASSERT_NEAR(r.row_weight[at], w(target), tolerance);
    for (int64_t c = 0; c < classes; ++c) {
      const double part = (c == target ? 1 - smoothing : 0) + smoothing / static_cast<double>(classes);
      const double gradient = scale[at] * (total * std::exp(x[c] - largest) / sum - part * w(c));
      ASSERT_NEAR(dx[c], gradient, tolerance * (1 + 10 * std::abs(scale[at])));
    }
  }
}

TEST(CrossEntropy, AgreesWithTheFormula) {
  for (const int64_t classes : {1, 2, 3, 16, 17, 100, 5000}) {
    for (const bool weighted : {false, true}) {
      for (const double smoothing : {0.0, 0.1, 1.0}) {
        check<float>(23, classes, weighted, smoothing, 3e-6);
        check<double>(23, classes, weighted, smoothing, 1e-12);
      }
    }
  }
  check<float>(700, 100, false, 0, 3e-6);
  check<float>(0, 4, false, 0, 0);
}

TEST(CrossEntropy, LargeLogitsKeepTheLogarithm) {
  CrossEntropyOptions options;
  options.classes = 2;
  for (const float v : {1.0f, 1e4f, 1e6f, 1e8f}) {
    const Results<float> r = run<float>(options, {v, v}, {0}, {1.0f});
    EXPECT_FLOAT_EQ(r.loss[0], 0.6931472f) << v;
    EXPECT_FLOAT_EQ(r.dlogits[0], -0.5f) << v;
    EXPECT_FLOAT_EQ(r.dlogits[1], 0.5f) << v;
  }
}

TEST(CrossEntropy, IgnoredRowsCountForNothing) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CrossEntropyOptions options;
  options.classes = 3;
  options.ignore_index = -1;
  options.label_smoothing = 0.1;
  // NaN logits and a NaN scale (mean over no row) must not leak.
  const Results<float> r = run<float>(options, {1, nan, 3}, {-1}, {nan});
  EXPECT_EQ(r.loss[0], 0.0f);
  EXPECT_EQ(r.row_weight[0], 0.0f);
  for (const float g : r.dlogits) EXPECT_EQ(g, 0.0f);
  // An ignore_index that is a class.
  options.ignore_index = 2;
  EXPECT_EQ(run<float>(options, {1, 2, 3}, {2}, {1.0f}).loss[0], 0.0f);
}

TEST(CrossEntropy, InvalidTargetsAreNamed) {
  CrossEntropyOptions options;
  options.classes = 3;
  for (const int64_t bad : {int64_t{3}, int64_t{-1}, int64_t{1} << 40}) {
    try {
      run<float>(options, {1, 2, 3, 4, 5, 6}, {0, bad}, {1.0f});
      FAIL() << "accepted target " << bad;
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("row 1"), std::string::npos) << text;
      EXPECT_NE(text.find(std::to_string(bad)), std::string::npos) << text;
    }
  }
}

}  // namespace
}  // namespace weft
