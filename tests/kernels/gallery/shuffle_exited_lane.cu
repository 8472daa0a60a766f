// A shuffle with lanes that have gone. Threads beyond n return at once, yet the mask of the sum still names them.
#include "tests/kernels/gallery/gallery.h"

namespace weft::WEFT_DEVICE::gallery {
namespace {

__device__ float warp_total(float value) {
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(0xffffffffu, value, lanes);  // <- invalid mask
  return value;
}

__global__ void sum(const float* x, float* y, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;
  const float total = warp_total(x[i]);
  if (i % 32 == 0) y[i / 32] = total;
}

__global__ void sum_repaired(const float* x, float* y, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const float total = warp_total(i < n ? x[i] : 0.0f);
  if (i < n && i % 32 == 0) y[i / 32] = total;
}

template <void (*kernel)(const float*, float*, int)>
void run_some(Stream stream, const float* x, float* y) {
  launch(kernel, dim3(4), dim3(kThreads), 0, stream, x, y, 1000);
}

}  // namespace

const Exhibit shuffle_exited_lane{.broken = run_some<sum>, .repaired = run_some<sum_repaired>};

}  // namespace weft::WEFT_DEVICE::gallery
