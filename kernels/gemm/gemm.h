// Matrix products: the kernels under matmul, linear and convolution.
//
//   gemm_kernels.gemm(stream, f32, false, true, m, n, k, 1.0, x, k, weight, k, 0.0, y, n);   // y = x·weightᵀ
//
// Matrices are row-major with a leading dimension: element (i, j) of c is c[i * ldc + j]. transpose_a says that the
// memory at `a` holds a k×m matrix, transpose_b that the memory at `b` holds an n×k one. Any size may be zero and any
// may exceed 2^31 elements. As in BLAS, beta == 0 overwrites c without reading it, and k == 0 or alpha == 0 gives
// c = beta·c without reading a and b. The split of the work into tiles depends on the sizes alone, so the bits of a
// result do not depend on the number of threads.
#pragma once
#include <cstdint>

#include "kernels/base/dtype.h"
#include "kernels/base/stream.h"

namespace weft {

struct GemmKernels {
  // c[m, n] = alpha · op(a)[m, k] · op(b)[k, n] + beta · c. dtype: f32 or f64.
  void (*gemm)(Stream stream, DType dtype, bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
               double alpha, const void* a, int64_t lda, const void* b, int64_t ldb, double beta, void* c, int64_t ldc);

  // The same for `batch` matrices, each a stride (in elements) after the one before. stride_a and stride_b may be 0: one
  // matrix for the whole batch. The matrices of c must not overlap.
  void (*gemm_batched)(Stream stream, DType dtype, bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                       double alpha, const void* a, int64_t lda, int64_t stride_a, const void* b, int64_t ldb,
                       int64_t stride_b, double beta, void* c, int64_t ldc, int64_t stride_c, int64_t batch);

  // c[m, n] = alpha · op(a) · op(b) + bias[n], the bias added to every row; bias may be null.
  void (*gemm_bias)(Stream stream, DType dtype, bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                    double alpha, const void* a, int64_t lda, const void* b, int64_t ldb, const void* bias, void* c,
                    int64_t ldc);
};

namespace cpu {
extern const GemmKernels gemm_kernels;
}

}  // namespace weft
