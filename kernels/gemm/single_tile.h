// One matrix product on the calling thread, for kernels that split their own work into tiles (gemm, conv).
//
// f32 is oneDNN's dnnl_sgemm, held to one thread; f64 is a plain blocked loop (it serves gradient checks, not training).
// oneDNN was chosen by measuring it against OpenBLAS 0.3.21 and BLIS 0.9: docs/performance.md.
#pragma once
#include <cstdint>

namespace weft::cpu {

// c = alpha · op(a) · op(b) + beta · c, row-major, with the rules of gemm.h.
void gemm_tile(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, float alpha, const float* a,
               int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc);
void gemm_tile(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, double alpha, const double* a,
               int64_t lda, const double* b, int64_t ldb, double beta, double* c, int64_t ldc);

// oneDNN from Debian runs on OpenMP, whose thread count is a setting of each calling thread: this holds it at one
// within a scope, and leaves what the program itself may do with OpenMP as it was.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

}  // namespace weft::cpu
