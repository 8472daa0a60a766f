// Matrix products against plain loops: sizes from 0 to odd, all transpositions, padded rows, alpha and beta.
#include "kernels/gemm/gemm.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/base/parallel.h"

namespace weft {
namespace {

constexpr const GemmKernels& kernels = cpu::gemm_kernels;
const Stream stream{};

template <class T>
std::vector<T> random_values(int64_t count, uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<T> values(count);
  for (T& value : values) value = static_cast<T>(uniform(engine));
  return values;
}

struct Case {
  bool transpose_a, transpose_b;
  int64_t m, n, k, pad_a, pad_b, pad_c;
  double alpha, beta;
};

template <class T>
void check(const Case& t) {
  SCOPED_TRACE(testing::Message() << t.m << "x" << t.n << "x" << t.k << " ta " << t.transpose_a << " tb "
                                  << t.transpose_b << " alpha " << t.alpha << " beta " << t.beta);
  const int64_t lda = (t.transpose_a ? t.m : t.k) + t.pad_a, ldb = (t.transpose_b ? t.k : t.n) + t.pad_b;
  const int64_t ldc = t.n + t.pad_c;
  const auto a = random_values<T>((t.transpose_a ? t.k : t.m) * lda + 1, 1);
  const auto b = random_values<T>((t.transpose_b ? t.n : t.k) * ldb + 1, 2);
  auto c = random_values<T>(t.m * ldc + 1, 3);
  const auto before = c;
  if (t.beta == 0)
    for (int64_t i = 0; i < t.m; ++i)
      for (int64_t j = 0; j < t.n; ++j) c[i * ldc + j] = std::numeric_limits<T>::quiet_NaN();
  kernels.gemm(stream, dtype_of<T>, t.transpose_a, t.transpose_b, t.m, t.n, t.k, t.alpha, a.data(), lda, b.data(), ldb,
               t.beta, c.data(), ldc);
  const double tolerance = (sizeof(T) == 4 ? 1e-6 : 1e-15) * (4 + std::sqrt(static_cast<double>(t.k)) * 2);
  for (int64_t i = 0; i < t.m; ++i) {
    for (int64_t j = 0; j < t.n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < t.k; ++p)
        sum += static_cast<double>(t.transpose_a ? a[p * lda + i] : a[i * lda + p]) *
               static_cast<double>(t.transpose_b ? b[j * ldb + p] : b[p * ldb + j]);
      const double expected = t.alpha * sum + (t.beta == 0 ? 0 : t.beta * before[i * ldc + j]);
      ASSERT_NEAR(c[i * ldc + j], expected, tolerance) << "at " << i << ", " << j;
    }
    // The gap between rows belongs to someone else.
    for (int64_t j = t.n; j < ldc; ++j) ASSERT_EQ(c[i * ldc + j], before[i * ldc + j]);
  }
  ASSERT_EQ(c.back(), before.back());
}

template <class T>
void check_all(int64_t m, int64_t n, int64_t k, double alpha = 1, double beta = 0, int64_t pad = 0) {
  for (bool transpose_a : {false, true})
    for (bool transpose_b : {false, true})
      check<T>({transpose_a, transpose_b, m, n, k, pad, pad ? pad + 2 : 0, pad ? pad + 1 : 0, alpha, beta});
}

TEST(Gemm, SmallAndOddSizes) {
  for (int64_t m : {0, 1, 2, 5, 17})
    for (int64_t n : {0, 1, 3, 16, 33})
      for (int64_t k : {0, 1, 4, 7, 65}) {
        check_all<float>(m, n, k);
        check_all<double>(m, n, k);
      }
}

TEST(Gemm, AlphaBetaAndPaddedRows) {
  for (double alpha : {0.0, 1.0, -0.5})
    for (double beta : {0.0, 1.0, 2.5}) {
      check_all<float>(19, 23, 29, alpha, beta, 3);
      check_all<double>(19, 23, 29, alpha, beta, 3);
      check_all<float>(4, 6, 0, alpha, beta, 1);
      check_all<double>(4, 6, 0, alpha, beta, 1);
    }
}

TEST(Gemm, SizesThatAreCutIntoTiles) {
  set_num_threads(3);
  check_all<float>(257, 131, 129);
  check_all<float>(100, 128, 1024, 1, 1);
  check_all<float>(1500, 40, 128, 0.25, 0, 5);
  check_all<float>(7, 3001, 70);
  check_all<float>(300, 310, 320);
  check_all<double>(257, 131, 129);
  check_all<double>(70, 600, 130, 1, 1, 1);
  set_num_threads(2);
}

TEST(Gemm, AlphaZeroDoesNotReadTheOperands) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> a(12, nan), b(12, nan);
  std::vector<float> c(9, 2.0f);
  kernels.gemm(stream, f32, false, false, 3, 3, 4, 0.0, a.data(), 4, b.data(), 3, 0.5, c.data(), 3);
  for (float value : c) EXPECT_EQ(value, 1.0f);
}

TEST(Gemm, NaNAndInfinityPropagate) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> a{0, infinity}, b{std::numeric_limits<float>::quiet_NaN(), 1, 1, 1};
  std::vector<float> c(2);
  kernels.gemm(stream, f32, false, false, 1, 2, 2, 1.0, a.data(), 2, b.data(), 2, 0.0, c.data(), 2);
  EXPECT_TRUE(std::isnan(c[0]));
  EXPECT_EQ(c[1], infinity);
}

template <class T>
void check_bias(int64_t m, int64_t n, int64_t k, bool with_bias) {
  const auto a = random_values<T>(m * k, 1), b = random_values<T>(n * k, 2), bias = random_values<T>(n, 3);
  std::vector<T> c(m * n, std::numeric_limits<T>::quiet_NaN());
  kernels.gemm_bias(stream, dtype_of<T>, false, true, m, n, k, 2.0, a.data(), k, b.data(), k,
                    with_bias ? bias.data() : nullptr, c.data(), n);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < k; ++p) sum += static_cast<double>(a[i * k + p]) * static_cast<double>(b[j * k + p]);
      ASSERT_NEAR(c[i * n + j], 2 * sum + (with_bias ? bias[j] : 0), sizeof(T) == 4 ? 4e-5 : 1e-13);
    }
}

TEST(Gemm, Bias) {
  for (bool with_bias : {true, false}) {
    check_bias<float>(300, 200, 100, with_bias);
    check_bias<double>(30, 20, 10, with_bias);
    check_bias<float>(3, 5, 0, with_bias);
    check_bias<float>(0, 5, 3, with_bias);
  }
}

template <class T>
void check_batched(int64_t batch, int64_t m, int64_t n, int64_t k, bool share_a, bool share_b) {
  SCOPED_TRACE(testing::Message() << batch << " of " << m << "x" << n << "x" << k);
  const auto a = random_values<T>(batch * m * k + 1, 1), b = random_values<T>(batch * n * k + 1, 2);
  const int64_t stride_a = share_a ? 0 : m * k, stride_b = share_b ? 0 : n * k, stride_c = m * n + 3;
  std::vector<T> c(batch * stride_c, T{7});
  kernels.gemm_batched(stream, dtype_of<T>, true, false, m, n, k, 0.5, a.data(), m, stride_a, b.data(), n, stride_b,
                       0.0, c.data(), n, stride_c, batch);
  for (int64_t q = 0; q < batch; ++q) {
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t p = 0; p < k; ++p)
          sum += static_cast<double>(a[q * stride_a + p * m + i]) * static_cast<double>(b[q * stride_b + p * n + j]);
        ASSERT_NEAR(c[q * stride_c + i * n + j], 0.5 * sum, sizeof(T) == 4 ? 4e-5 : 1e-13);
      }
    for (int64_t gap = 0; gap < 3; ++gap) ASSERT_EQ(c[q * stride_c + m * n + gap], T{7});
  }
}

TEST(Gemm, Batched) {
  check_batched<float>(0, 3, 4, 5, false, false);
  check_batched<float>(64, 17, 9, 13, false, false);
  check_batched<float>(500, 16, 16, 16, false, true);
  check_batched<float>(5, 64, 128, 32, true, false);
  check_batched<float>(2, 300, 301, 130, false, false);
  check_batched<float>(3, 4, 5, 0, false, false);
  check_batched<double>(20, 33, 31, 40, true, true);
}

TEST(Gemm, BitsDoNotDependOnTheNumberOfThreads) {
  constexpr int64_t m = 513, n = 129, k = 700;
  const auto a = random_values<float>(m * k, 1), b = random_values<float>(n * k, 2);
  std::vector<std::vector<float>> results;
  for (int threads : {1, 2, 5}) {
    set_num_threads(threads);
    std::vector<float> c(m * n);
    kernels.gemm(stream, f32, true, true, m, n, k, 1.0, a.data(), m, b.data(), k, 0.0, c.data(), n);
    results.push_back(c);
  }
  set_num_threads(2);
  EXPECT_EQ(std::memcmp(results[0].data(), results[1].data(), m * n * sizeof(float)), 0);
  EXPECT_EQ(std::memcmp(results[0].data(), results[2].data(), m * n * sizeof(float)), 0);
}

// Rows 2^30 elements apart, in memory of which only a few pages are ever touched.
TEST(Gemm, OffsetsBeyond32Bits) {
  constexpr int64_t stride = int64_t{1} << 30, rows = 4;
  constexpr size_t bytes = static_cast<size_t>(rows) * stride * sizeof(float);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "no address space of " << bytes << " bytes";
  float* a = static_cast<float*>(memory);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < 3; ++j) a[i * stride + j] = static_cast<float>(i + 1);
  const std::vector<float> ones(9, 1.0f);
  std::vector<float> c(rows * 3);
  kernels.gemm(stream, f32, false, false, rows, 3, 3, 1, a, stride, ones.data(), 3, 0, c.data(), 3);
  for (int64_t i = 0; i < rows; ++i) EXPECT_EQ(c[i * 3 + 2], static_cast<float>(3 * (i + 1)));
  const std::vector<float> row(rows, 1.0f);
  kernels.gemm(stream, f32, false, false, 1, 3, rows, 1, row.data(), rows, a, stride, 0, c.data(), 3);
  for (int64_t j = 0; j < 3; ++j) EXPECT_EQ(c[j], 10.0f);
  munmap(memory, bytes);
}

TEST(Gemm, OtherDtypesAreErrors) {
  EXPECT_THROW(kernels.gemm(stream, f16, false, false, 1, 1, 1, 1, nullptr, 1, nullptr, 1, 0, nullptr, 1), Error);
  EXPECT_THROW(kernels.gemm(stream, i64, false, false, 1, 1, 1, 1, nullptr, 1, nullptr, 1, 0, nullptr, 1), Error);
}

}  // namespace
}  // namespace weft
