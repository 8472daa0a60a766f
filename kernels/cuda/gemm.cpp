// Matrix products by cuBLASLt. It stores matrices by columns, we by rows: c = a·b by rows is cᵀ = bᵀ·aᵀ by columns,
// over the same memory, so the operands change places and nothing is transposed.
//
// f32 computes in f32, or in TF32 where that is allowed (kernels/gemm/precision.h); bf16 and f16 multiply on the tensor
// cores and add in f32, also where a product is split along k. The library's heuristics choose the algorithm of a shape
// once; the choice is kept.
#include "kernels/gemm/gemm.h"

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <tuple>

#include "kernels/base/device_memory.h"
#include "kernels/cuda/libraries.h"
#include "kernels/device_table.h"
#include "kernels/gemm/precision.h"

namespace weft::cuda {
namespace {

// What cuBLAS itself takes on Hopper; smaller chips ask for less.
constexpr size_t kMaxWorkspace = size_t{32} << 20;

struct Precision {
  cudaDataType_t data;
  cublasComputeType_t compute;
  cudaDataType_t scale;
};

Precision precision_of(DType dtype, std::string_view op) {
  switch (dtype) {
    case DType::f64: return {CUDA_R_64F, CUBLAS_COMPUTE_64F, CUDA_R_64F};
    case DType::f32: return {CUDA_R_32F, allow_tf32() ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F};
    case DType::bf16: return {CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F};
    case DType::f16: return {CUDA_R_16F, CUBLAS_COMPUTE_32F, CUDA_R_32F};
    default: fail(ErrorCode::unsupported, op, "expected f32, f64, bf16 or f16, got {}", name(dtype));
  }
}

// The arguments of the three entries of the table.
struct Product {
  std::string_view op;
  Stream stream;
  DType dtype;
  bool transpose_a, transpose_b;
  int64_t m, n, k;
  double alpha;
  const void* a;
  int64_t lda, stride_a;
  const void* b;
  int64_t ldb, stride_b;
  double beta;
  void* c;
  int64_t ldc, stride_c;
  int64_t batch;
  const void* bias;
};

// An operand as cuBLASLt sees it: `rows` run along memory.
struct Operand {
  int64_t rows, columns, ld, stride;
};
Operand left(const Product& p) { return {p.transpose_b ? p.k : p.n, p.transpose_b ? p.n : p.k, p.ldb, p.stride_b}; }
Operand right(const Product& p) { return {p.transpose_a ? p.m : p.k, p.transpose_a ? p.k : p.m, p.lda, p.stride_a}; }
Operand result(const Product& p) { return {p.n, p.m, p.ldc, p.stride_c}; }

// Descriptors live on the stack: a product makes no heap allocation once its algorithm is known.
struct Layout {
  cublasLtMatrixLayoutOpaque_t opaque;
  cublasLtMatrixLayout_t get() { return &opaque; }

  Layout(cudaDataType_t type, const Operand& operand, int64_t batch) {
    // A single column has no use for its leading dimension, which may then be anything.
    const int64_t ld = operand.columns == 1 ? std::max(operand.ld, operand.rows) : operand.ld;
    WEFT_CUDA_CHECK(cublasLtMatrixLayoutInit(get(), type, static_cast<uint64_t>(operand.rows),
                                             static_cast<uint64_t>(operand.columns), ld));
    if (batch == 1) return;
    const auto count = static_cast<int32_t>(batch);
    WEFT_CUDA_CHECK(cublasLtMatrixLayoutSetAttribute(get(), CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
    WEFT_CUDA_CHECK(cublasLtMatrixLayoutSetAttribute(get(), CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                     &operand.stride, sizeof operand.stride));
  }
};

struct Descriptor {
  cublasLtMatmulDescOpaque_t opaque;
  cublasLtMatmulDesc_t get() { return &opaque; }

  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, T value) {
    WEFT_CUDA_CHECK(cublasLtMatmulDescSetAttribute(get(), attribute, &value, sizeof value));
  }

  Descriptor(const Precision& precision, const Product& p) {
    WEFT_CUDA_CHECK(cublasLtMatmulDescInit(get(), precision.compute, precision.scale));
    set<cublasOperation_t>(CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set<cublasOperation_t>(CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (!p.bias) return;
    set<cublasLtEpilogue_t>(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set<const void*>(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  }
};

uint32_t alignment_of(const void* memory) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  return address == 0 ? 256 : static_cast<uint32_t>(std::min<uintptr_t>(256, address & -address));
}

struct Algorithm {
  cublasLtMatmulAlgo_t algorithm;
  size_t workspace;
};

Algorithm ask_heuristics(cublasLtHandle_t handle, const Product& p, Descriptor& descriptor, Layout& x, Layout& y,
                         Layout& z) {
  cublasLtMatmulPreferenceOpaque_t opaque;
  cublasLtMatmulPreference_t preference = &opaque;
  WEFT_CUDA_CHECK(cublasLtMatmulPreferenceInit(preference));
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    WEFT_CUDA_CHECK(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value));
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kMaxWorkspace});
  // Parts of a product split along k are added in f32 (f64), not in the type of the result.
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(p.b));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(p.a));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(p.c));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(p.c));
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle, descriptor.get(), x.get(), y.get(), z.get(),
                                                               z.get(), preference, 1, &found, &count);
  if (status != CUBLAS_STATUS_SUCCESS || count == 0 || found.state != CUBLAS_STATUS_SUCCESS)
    fail(ErrorCode::unsupported, p.op, "cuBLASLt has no algorithm for {} [{}, {}]·[{}, {}] ({})", name(p.dtype), p.m,
         p.k, p.k, p.n, cublas_status_name(status));
  return {found.algo, found.workspaceSize};
}

// Whatever the heuristics look at.
using Key = std::tuple<int, cudaDataType_t, cublasComputeType_t, bool, bool, std::tuple<int64_t, int64_t, int64_t>,
                       std::tuple<int64_t, int64_t, int64_t>, std::tuple<int64_t, int64_t, int64_t>, int64_t, bool,
                       std::tuple<uint32_t, uint32_t, uint32_t>>;

Algorithm algorithm_for(cublasLtHandle_t handle, const Precision& precision, const Product& p, Descriptor& descriptor,
                        Layout& x, Layout& y, Layout& z) {
  static std::shared_mutex mutex;
  static auto* const cache = new std::map<Key, Algorithm>;
  const Key key{p.stream.device.index,
                precision.data,
                precision.compute,
                p.transpose_a,
                p.transpose_b,
                {p.m, p.n, p.k},
                {p.lda, p.ldb, p.ldc},
                {p.stride_a, p.stride_b, p.stride_c},
                p.batch,
                p.bias != nullptr,
                {alignment_of(p.a), alignment_of(p.b), alignment_of(p.c)}};
  {
    const std::shared_lock lock(mutex);
    if (const auto found = cache->find(key); found != cache->end()) return found->second;
  }
  const Algorithm chosen = ask_heuristics(handle, p, descriptor, x, y, z);
  const std::unique_lock lock(mutex);
  return cache->emplace(key, chosen).first->second;
}

void multiply(const Product& p) {
  const Precision precision = precision_of(p.dtype, p.op);
  const cublasLtHandle_t handle = cublas_handle(p.stream.device);
  Descriptor descriptor(precision, p);
  Layout x(precision.data, left(p), p.batch), y(precision.data, right(p), p.batch);
  Layout z(precision.data, result(p), p.batch);
  const Algorithm chosen = algorithm_for(handle, precision, p, descriptor, x, y, z);
  const ScratchBuffer workspace(p.stream, static_cast<int64_t>(chosen.workspace));
  const auto alpha32 = static_cast<float>(p.alpha), beta32 = static_cast<float>(p.beta);
  const bool in_double = precision.scale == CUDA_R_64F;
  const void* alpha = in_double ? static_cast<const void*>(&p.alpha) : &alpha32;
  const void* beta = in_double ? static_cast<const void*>(&p.beta) : &beta32;
  WEFT_CUDA_CHECK(cublasLtMatmul(handle, descriptor.get(), alpha, p.b, x.get(), p.a, y.get(), beta, p.c, z.get(), p.c,
                                 z.get(), &chosen.algorithm, workspace.as<void>(), chosen.workspace, native(p.stream)));
}

// c = bias in every row.
void spread_bias(const Product& p) {
  const int64_t sizes[] = {p.m, p.n}, from[] = {0, 1}, to[] = {p.ldc, 1};
  copy_kernels.copy(p.stream, 2, sizes, p.dtype, p.bias, from, p.dtype, p.c, to);
}

// c = beta·c, which is what a product of no depth leaves.
void scale(const Product& p) {
  if (p.beta == 1) return;
  use_device(p.stream.device);
  const auto element = static_cast<size_t>(size_of(p.dtype));
  if (p.beta == 0) {
    for (int64_t i = 0; i < p.batch; ++i)
      WEFT_CUDA_CHECK(cudaMemset2DAsync(static_cast<std::byte*>(p.c) + i * p.stride_c * size_of(p.dtype),
                                        static_cast<size_t>(std::max(p.ldc, p.n)) * element, 0,
                                        static_cast<size_t>(p.n) * element, static_cast<size_t>(p.m),
                                        native(p.stream)));
    return;
  }
  // A product with a column and a row of zeros: rare enough to need no kernel of its own.
  const int64_t length = std::max(p.m, p.n);
  const ScratchBuffer zeros(p.stream, length * size_of(p.dtype));
  WEFT_CUDA_CHECK(cudaMemsetAsync(zeros.as<void>(), 0, static_cast<size_t>(length) * element, native(p.stream)));
  Product product = p;
  product.transpose_a = product.transpose_b = false;
  product.k = 1;
  product.alpha = 1;
  product.a = product.b = zeros.as<void>();
  product.lda = 1;
  product.ldb = p.n;
  product.stride_a = product.stride_b = 0;
  multiply(product);
}

void run(Product p) {
  if (p.m <= 0 || p.n <= 0 || p.batch <= 0) return;
  WEFT_CHECK(p.batch <= INT32_MAX, p.op, "{} matrices in a batch; at most {} fit one call", p.batch, INT32_MAX);
  precision_of(p.dtype, p.op);
  const bool empty = p.k <= 0 || p.alpha == 0;
  // The library adds a bias in f32, bf16 and f16 only.
  if (p.bias && (empty || p.dtype == DType::f64)) {
    spread_bias(p);
    p.bias = nullptr;
    p.beta = 1;
  }
  if (empty)
    scale(p);
  else
    multiply(p);
}

// --- the table ----------------------------------------------------------------------------------------------------

void gemm(Stream stream, DType dtype, bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, double alpha,
          const void* a, int64_t lda, const void* b, int64_t ldb, double beta, void* c, int64_t ldc) {
  run({"gemm", stream, dtype, transpose_a, transpose_b, m, n,   k, alpha, a,      lda,
       0,      b,      ldb,   0,           beta,        c, ldc, 0, 1,     nullptr});
}

void gemm_batched(Stream stream, DType dtype, bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                  double alpha, const void* a, int64_t lda, int64_t stride_a, const void* b, int64_t ldb,
                  int64_t stride_b, double beta, void* c, int64_t ldc, int64_t stride_c, int64_t batch) {
  run({"gemm_batched", stream, dtype, transpose_a, transpose_b, m, n,   k,        alpha, a,      lda,
       stride_a,       b,      ldb,   stride_b,    beta,        c, ldc, stride_c, batch, nullptr});
}

void gemm_bias(Stream stream, DType dtype, bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
               double alpha, const void* a, int64_t lda, const void* b, int64_t ldb, const void* bias, void* c,
               int64_t ldc) {
  run({"gemm_bias", stream, dtype, transpose_a, transpose_b, m, n,   k, alpha, a,   lda,
       0,           b,      ldb,   0,           0.0,         c, ldc, 0, 1,     bias});
}

}  // namespace

extern const GemmKernels gemm_kernels = {.gemm = gemm, .gemm_batched = gemm_batched, .gemm_bias = gemm_bias};

}  // namespace weft::cuda
