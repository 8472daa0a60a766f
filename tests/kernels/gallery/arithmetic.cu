#include "tests/kernels/gallery/arithmetic.h"

namespace weft::WEFT_DEVICE::arithmetic {
namespace {

template <void (*kernel)(const float*, float*, int)>
void run(Stream stream, const float* x, float* y, int n) {
  launch(kernel, dim3(static_cast<unsigned>((n + kThreads - 1) / kThreads)), dim3(kThreads), 0, stream, x, y, n);
}

__device__ __forceinline__ int index() { return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); }

uint64_t reads_one_writes_one(uint64_t n) { return 8 * n; }
uint64_t reads_two_writes_one(uint64_t n) { return 12 * n; }

// Two each.
__global__ void saxpy_kernel(const float* x, float* y, int n) {
  const int i = index();
  if (i < n) y[i] = 3.25f * x[i] + y[i];
}

__global__ void saxpy_f64_kernel(const float* x, float* y, int n) {
  const int i = index();
  if (i < n) y[i] = static_cast<float>(3.25 * static_cast<double>(x[i]) + static_cast<double>(y[i]));
}

// One block: each thread adds its elements, then a tree over shared memory adds those; n - 1 in all, for n at least the
// number of threads. The first element of a thread is taken, not added to zero.
__global__ void sum_kernel(const float* x, float* y, int n) {
  __shared__ float part[kThreads];
  const int thread = static_cast<int>(threadIdx.x);
  float own = x[thread];
  for (int i = thread + kThreads; i < n; i += kThreads) own += x[i];
  part[thread] = own;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) part[thread] += part[thread + half];
  }
  if (thread == 0) y[0] = part[0];
}

void run_sum(Stream stream, const float* x, float* y, int n) {
  launch(sum_kernel, dim3(1), dim3(kThreads), 0, stream, x, y, n);
}

// A fused multiply-add is two.
__global__ void fused_kernel(const float* x, float* y, int n) {
  const int i = index();
  if (i < n) y[i] = fmaf(x[i], x[i], 1.5f);
}

// Each call one, the product one more.
__global__ void library_kernel(const float* x, float* y, int n) {
  const int i = index();
  if (i < n) y[i] = expf(x[i]) * logf(2.0f + x[i]) + tanhf(x[i]);
}

// A root and a division.
__global__ void divisions_kernel(const float* x, float* y, int n) {
  const int i = index();
  if (i < n) y[i] = sqrtf(x[i]) / (x[i] + 7.0f);
}

// Element i takes i % 4 turns of two operations: threads of a warp do different work.
__global__ void polynomial_kernel(const float* x, float* y, int n) {
  const int i = index();
  if (i >= n) return;
  float value = y[i];
  for (int k = 0; k < i % 4; ++k) value = value * x[i] + 0.5f;
  y[i] = value;
}

// From and to 64-bit numbers without sign, for which the processor has no instruction: the way round it computes, but
// is no arithmetic of the kernel's.
__global__ void conversions_kernel(const float* x, float* y, int n) {
  const int i = index();
  if (i >= n) return;
  const auto large = static_cast<unsigned long long>(x[i] * 1e19f);
  y[i] = static_cast<float>(large ^ 1u);
}

// 16-bit elements are converted, and computed on as float: one each.
__global__ void halves_kernel(const float* x, float* y, int n) {
  const int i = index();
  if (i < n) y[i] = to_float(from_float<Half>(x[i])) + to_float(from_float<BFloat16>(x[i]));
}

// Comparisons, minima, signs: nothing.
__global__ void minima_kernel(const float* x, float* y, int n) {
  const int i = index();
  if (i < n) y[i] = fmaxf(min(x[i], 0.75f), -fabsf(x[i]));
}

// A warp's product of 16 × 16 and 16 × 8.
__global__ void product_kernel(const float* x, float* y, int n) {
  const int i = index();
  float d[4] = {};
  uint32_t a[4] = {}, b[2] = {};
  a[0] = b[0] = __float_as_uint(x[i % n]);
  mma_m16n8k16(d, a, b, TypeTag<BFloat16>{});
  if (i < n) y[i] = d[0];
}

__global__ void atomics_kernel(const float* x, float* y, int n) {
  const int i = index();
  if (i < n) atomicAdd(y, x[i]);
}

}  // namespace

const Counted saxpy{run<saxpy_kernel>, [](uint64_t n) { return 2 * n; }, reads_two_writes_one};
const Counted saxpy_f64{run<saxpy_f64_kernel>, [](uint64_t n) { return 2 * n; }, reads_two_writes_one};
const Counted sum{run_sum, [](uint64_t n) { return n - 1; }, [](uint64_t n) { return 4 * n + 32; }};
const Counted fused{run<fused_kernel>, [](uint64_t n) { return 2 * n; }, nullptr};
const Counted library{run<library_kernel>, [](uint64_t n) { return 6 * n; }, nullptr};
const Counted divisions{run<divisions_kernel>, [](uint64_t n) { return 3 * n; }, nullptr};
const Counted polynomial{run<polynomial_kernel>,
                         [](uint64_t n) {
                           uint64_t turns = 0;
                           for (uint64_t i = 0; i < n; ++i) turns += i % 4;
                           return 2 * turns;
                         },
                         nullptr};
#ifdef __clang__
constexpr uint64_t kConversion = 1;  // its way round has no branches, and a subtraction that looks like any other
#else
constexpr uint64_t kConversion = 0;
#endif
const Counted conversions{run<conversions_kernel>, [](uint64_t n) { return (1 + kConversion) * n; }, nullptr};
const Counted halves{run<halves_kernel>, [](uint64_t n) { return n; }, nullptr};
const Counted minima{run<minima_kernel>, [](uint64_t) { return uint64_t{0}; }, nullptr};
const Counted product{run<product_kernel>, [](uint64_t n) { return (n + kThreads - 1) / kThreads * 4 * 4096; },
                      reads_one_writes_one};
const Counted atomics{run<atomics_kernel>, [](uint64_t n) { return n; }, nullptr};

}  // namespace weft::WEFT_DEVICE::arithmetic
