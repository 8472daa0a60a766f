#include "kernels/gemm/single_tile.h"

#include <dnnl.h>

#include <algorithm>

#include "kernels/base/error.h"
#include "kernels/base/scratch.h"

// From libgomp, on which Debian's oneDNN is built. omp.h belongs to GCC and is missing beside clang.
extern "C" {
int omp_get_max_threads(void);
void omp_set_num_threads(int count);
}

namespace weft::cpu {
namespace {

template <class T>
void scale(int64_t m, int64_t n, T beta, T* c, int64_t ldc) {
  if (beta == T{1}) return;
  for (int64_t i = 0; i < m; ++i) {
    T* row = c + i * ldc;
    if (beta == T{0})
      std::fill_n(row, n, T{0});
    else
      for (int64_t j = 0; j < n; ++j) row[j] *= beta;
  }
}

struct PackedB;

}  // namespace

OneThread::OneThread() : before_(omp_get_max_threads()) {
  if (before_ != 1) omp_set_num_threads(1);
}
OneThread::~OneThread() {
  if (before_ != 1) omp_set_num_threads(before_);
}

void gemm_tile(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, float alpha, const float* a,
               int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  if (m <= 0 || n <= 0) return;
  if (k <= 0 || alpha == 0) return scale(m, n, beta, c, ldc);
  const OneThread guard;
  const dnnl_status_t status =
      dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  if (status == dnnl_out_of_memory)
    fail(ErrorCode::out_of_memory, "gemm", "no memory to pack a {}×{}×{} product", m, n, k);
  if (status != dnnl_success)
    fail(ErrorCode::internal, "gemm", "dnnl_sgemm returned status {}", static_cast<int>(status));
}

// Rows of b (transposed into scratch memory where they are columns) are added to rows of c, a few at a time: every inner
// loop runs along contiguous memory, which the compiler vectorises.
void gemm_tile(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, double alpha, const double* a,
               int64_t lda, const double* b, int64_t ldb, double beta, double* c, int64_t ldc) {
  if (m <= 0 || n <= 0) return;
  scale(m, n, beta, c, ldc);
  if (k <= 0 || alpha == 0) return;
  constexpr int64_t kDepth = 64, kWidth = 256;
  double* packed = transpose_b ? scratch<PackedB, double>(kDepth * kWidth) : nullptr;
  const auto at_a = [&](int64_t i, int64_t p) { return alpha * (transpose_a ? a[p * lda + i] : a[i * lda + p]); };
  for (int64_t j0 = 0; j0 < n; j0 += kWidth) {
    const int64_t width = std::min(kWidth, n - j0);
    for (int64_t p0 = 0; p0 < k; p0 += kDepth) {
      const int64_t depth = std::min(kDepth, k - p0);
      const double* rows = b + p0 * ldb + j0;
      int64_t row_stride = ldb;
      if (transpose_b) {
        for (int64_t j = 0; j < width; ++j)
          for (int64_t p = 0; p < depth; ++p) packed[p * kWidth + j] = b[(j0 + j) * ldb + p0 + p];
        rows = packed;
        row_stride = kWidth;
      }
      for (int64_t i = 0; i < m; ++i) {
        double* __restrict out = c + i * ldc + j0;
        int64_t p = 0;
        for (; p + 4 <= depth; p += 4) {
          const double a0 = at_a(i, p0 + p), a1 = at_a(i, p0 + p + 1);
          const double a2 = at_a(i, p0 + p + 2), a3 = at_a(i, p0 + p + 3);
          const double* b0 = rows + p * row_stride;
          const double* b1 = b0 + row_stride;
          const double* b2 = b1 + row_stride;
          const double* b3 = b2 + row_stride;
          for (int64_t j = 0; j < width; ++j) out[j] += a0 * b0[j] + a1 * b1[j] + a2 * b2[j] + a3 * b3[j];
        }
        for (; p < depth; ++p) {
          const double a0 = at_a(i, p0 + p);
          const double* b0 = rows + p * row_stride;
          for (int64_t j = 0; j < width; ++j) out[j] += a0 * b0[j];
        }
      }
    }
  }
}

}  // namespace weft::cpu
