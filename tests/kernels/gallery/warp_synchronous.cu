// A warp that trusts in running in step. Before Volta (2017) the 32 lanes did; since then each has its own program
// counter, and what one lane wrote another may read only after __syncwarp.
#include "tests/kernels/gallery/gallery.h"

namespace weft::WEFT_DEVICE::gallery {
namespace {

__global__ void sum(const float* x, float* y) {
  __shared__ float part[32];
  const unsigned lane = threadIdx.x;
  part[lane] = x[blockIdx.x * 32 + lane];  // <- shared race
  for (unsigned half = 16; half > 0; half /= 2) {
    if (lane < half) part[lane] += part[lane + half];  // <- shared race
  }
  if (lane == 0) y[blockIdx.x] = part[0];
}

__global__ void sum_repaired(const float* x, float* y) {
  __shared__ float part[32];
  const unsigned lane = threadIdx.x;
  part[lane] = x[blockIdx.x * 32 + lane];
  __syncwarp();
  for (unsigned half = 16; half > 0; half /= 2) {
    if (lane < half) part[lane] += part[lane + half];
    __syncwarp();
  }
  if (lane == 0) y[blockIdx.x] = part[0];
}

template <void (*kernel)(const float*, float*)>
void run_warps(Stream stream, const float* x, float* y) {
  launch(kernel, dim3(kElements / 32), dim3(32), 0, stream, x, y);
}

}  // namespace

const Exhibit warp_synchronous{.broken = run_warps<sum>, .repaired = run_warps<sum_repaired>};

}  // namespace weft::WEFT_DEVICE::gallery
