// A missing barrier. Thread t reads what thread 255 - t wrote to shared memory, but nothing makes it wait for that.
#include "tests/kernels/gallery/gallery.h"

namespace weft::WEFT_DEVICE::gallery {
namespace {

__global__ void reverse(const float* x, float* y) {
  __shared__ float tile[kThreads];
  const unsigned t = threadIdx.x;
  const unsigned first = blockIdx.x * kThreads;
  tile[t] = x[first + t];                 // <- shared race
  y[first + t] = tile[kThreads - 1 - t];  // <- shared race
}

__global__ void reverse_repaired(const float* x, float* y) {
  __shared__ float tile[kThreads];
  const unsigned t = threadIdx.x;
  const unsigned first = blockIdx.x * kThreads;
  tile[t] = x[first + t];
  __syncthreads();
  y[first + t] = tile[kThreads - 1 - t];
}

}  // namespace

const Exhibit missing_barrier{.broken = run<reverse>, .repaired = run<reverse_repaired>};

}  // namespace weft::WEFT_DEVICE::gallery
