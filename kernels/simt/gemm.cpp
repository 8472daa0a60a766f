// Matrix products on the emulator: what cuBLASLt does on a GPU, the CPU's library does here. bf16 and f16 are computed
// in f32 and rounded once, as the tensor cores do.
#include "kernels/gemm/gemm.h"

#include "kernels/device_table.h"
#include "kernels/simt/float_copy.h"
#include "kernels/simt/submit.h"

namespace weft::simt {
namespace {

// A batch of matrices as it lies in memory: rows × columns, `ld` apart, `stride` from one matrix to the next.
ArrayShape matrices(int64_t rows, int64_t columns, int64_t ld, int64_t stride, int64_t batch) {
  // One matrix for the whole batch is copied once.
  return {{stride == 0 ? 1 : batch, rows, columns}, {stride, ld, 1}};
}

void half_gemm(DType dtype, bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, double alpha,
               const void* a, int64_t lda, int64_t stride_a, const void* b, int64_t ldb, int64_t stride_b, double beta,
               void* c, int64_t ldc, int64_t stride_c, int64_t batch) {
  const bool reads = k > 0 && alpha != 0;
  const ArrayShape a_shape = matrices(transpose_a ? k : m, transpose_a ? m : k, lda, stride_a, reads ? batch : 0);
  const ArrayShape b_shape = matrices(transpose_b ? n : k, transpose_b ? k : n, ldb, stride_b, reads ? batch : 0);
  const ArrayShape c_shape = {{batch, m, n}, {stride_c, ldc, 1}};
  const FloatCopy x = reads ? FloatCopy(dtype, a, a_shape) : FloatCopy(ArrayShape::dense(0));
  const FloatCopy y = reads ? FloatCopy(dtype, b, b_shape) : FloatCopy(ArrayShape::dense(0));
  const FloatCopy sum = beta != 0 ? FloatCopy(dtype, c, c_shape) : FloatCopy(c_shape);
  const int64_t x_stride = stride_a == 0 ? 0 : m * k, y_stride = stride_b == 0 ? 0 : k * n;
  cpu::gemm_kernels.gemm_batched({}, f32, transpose_a, transpose_b, m, n, reads ? k : 0, alpha, x.data(),
                                 transpose_a ? m : k, x_stride, y.data(), transpose_b ? k : n, y_stride, beta,
                                 sum.data(), n, m * n, batch);
  sum.store(dtype, c);
}

void gemm_batched(Stream stream, DType dtype, bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                  double alpha, const void* a, int64_t lda, int64_t stride_a, const void* b, int64_t ldb,
                  int64_t stride_b, double beta, void* c, int64_t ldc, int64_t stride_c, int64_t batch) {
  if (m <= 0 || n <= 0 || batch <= 0) return;
  submit(stream, [=] {
    if (is_half(dtype))
      return half_gemm(dtype, transpose_a, transpose_b, m, n, k, alpha, a, lda, stride_a, b, ldb, stride_b, beta, c,
                       ldc, stride_c, batch);
    cpu::gemm_kernels.gemm_batched({}, dtype, transpose_a, transpose_b, m, n, k, alpha, a, lda, stride_a, b, ldb,
                                   stride_b, beta, c, ldc, stride_c, batch);
  });
}

void gemm(Stream stream, DType dtype, bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, double alpha,
          const void* a, int64_t lda, const void* b, int64_t ldb, double beta, void* c, int64_t ldc) {
  if (m <= 0 || n <= 0) return;
  submit(stream, [=] {
    if (is_half(dtype))
      return half_gemm(dtype, transpose_a, transpose_b, m, n, k, alpha, a, lda, 0, b, ldb, 0, beta, c, ldc, 0, 1);
    cpu::gemm_kernels.gemm({}, dtype, transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  });
}

void gemm_bias(Stream stream, DType dtype, bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
               double alpha, const void* a, int64_t lda, const void* b, int64_t ldb, const void* bias, void* c,
               int64_t ldc) {
  if (m <= 0 || n <= 0) return;
  submit(stream, [=] {
    if (!is_half(dtype))
      return cpu::gemm_kernels.gemm_bias({}, dtype, transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, bias, c,
                                         ldc);
    const bool reads = k > 0 && alpha != 0;
    const FloatCopy x(dtype, a, matrices(transpose_a ? k : m, transpose_a ? m : k, lda, 0, 1));
    const FloatCopy y(dtype, b, matrices(transpose_b ? n : k, transpose_b ? k : n, ldb, 0, 1));
    const FloatCopy added(dtype, bias, ArrayShape::dense(bias ? n : 0));
    const FloatCopy sum({{1, m, n}, {0, ldc, 1}});
    cpu::gemm_kernels.gemm_bias({}, f32, transpose_a, transpose_b, m, n, reads ? k : 0, alpha, x.data(),
                                transpose_a ? m : k, y.data(), transpose_b ? k : n, bias ? added.data() : nullptr,
                                sum.data(), n);
    sum.store(dtype, c);
  });
}

}  // namespace

extern const GemmKernels gemm_kernels = {.gemm = gemm, .gemm_batched = gemm_batched, .gemm_bias = gemm_bias};

}  // namespace weft::simt
