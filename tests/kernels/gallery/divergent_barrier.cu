// A barrier in a branch. Half of the block waits at one __syncthreads, half at another: CUDA leaves undefined what
// happens then. It may hang, or pass as if all was well until the next compiler.
#include "tests/kernels/gallery/gallery.h"

namespace weft::WEFT_DEVICE::gallery {
namespace {

__global__ void swap_halves(const float* x, float* y) {
  __shared__ float tile[kThreads];
  const unsigned t = threadIdx.x;
  const unsigned i = blockIdx.x * kThreads + t;
  if (t < kThreads / 2) {
    tile[t] = x[i];
    __syncthreads();  // <- divergent barrier
  } else {
    tile[t] = 2 * x[i];
    __syncthreads();  // <- divergent barrier
  }
  y[i] = tile[(t + kThreads / 2) % kThreads];
}

__global__ void swap_halves_repaired(const float* x, float* y) {
  __shared__ float tile[kThreads];
  const unsigned t = threadIdx.x;
  const unsigned i = blockIdx.x * kThreads + t;
  tile[t] = t < kThreads / 2 ? x[i] : 2 * x[i];
  __syncthreads();
  y[i] = tile[(t + kThreads / 2) % kThreads];
}

}  // namespace

const Exhibit divergent_barrier{.broken = run<swap_halves>, .repaired = run<swap_halves_repaired>};

}  // namespace weft::WEFT_DEVICE::gallery
