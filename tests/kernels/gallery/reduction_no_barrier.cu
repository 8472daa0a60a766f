// A sum by halving, its barrier deleted from the loop: a warp may add numbers that another has not written yet.
#include "tests/kernels/gallery/gallery.h"

namespace weft::WEFT_DEVICE::gallery {
namespace {

__global__ void sum(const float* x, float* y) {
  __shared__ float part[kThreads];
  const unsigned t = threadIdx.x;
  part[t] = x[blockIdx.x * kThreads + t];
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (t < half) part[t] += part[t + half];  // <- shared race
  }
  if (t == 0) y[blockIdx.x] = part[0];
}

__global__ void sum_repaired(const float* x, float* y) {
  __shared__ float part[kThreads];
  const unsigned t = threadIdx.x;
  part[t] = x[blockIdx.x * kThreads + t];
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (t < half) part[t] += part[t + half];
    __syncthreads();
  }
  if (t == 0) y[blockIdx.x] = part[0];
}

}  // namespace

const Exhibit reduction_no_barrier{.broken = run<sum>, .repaired = run<sum_repaired>};

}  // namespace weft::WEFT_DEVICE::gallery
