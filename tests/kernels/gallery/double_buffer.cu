// A double buffer with the barrier on one side only. Tile k + 1 is loaded while tile k is used, which is right; but the
// barrier stands between load and use of the same half, so a fast warp refills the other half while a slow one reads it.
#include "tests/kernels/gallery/gallery.h"

namespace weft::WEFT_DEVICE::gallery {
namespace {

template <bool repaired>
__global__ void neighbours(const float* x, float* y) {
  __shared__ float tile[2][kThreads];
  const unsigned t = threadIdx.x;
  constexpr int tiles = kElements / kThreads;
  float sum = 0;
  tile[0][t] = x[t];
  __syncthreads();
  for (int k = 0; k < tiles; ++k) {
    if (k + 1 < tiles) tile[(k + 1) % 2][t] = x[(k + 1) * kThreads + t];  // <- shared race
    sum += tile[k % 2][(t + 32) % kThreads];                              // <- shared race
    if (repaired || k % 2 == 0) __syncthreads();
  }
  y[t] = sum;
}

template <bool repaired>
void run_one_block(Stream stream, const float* x, float* y) {
  launch(neighbours<repaired>, dim3(1), dim3(kThreads), 0, stream, x, y);
}

}  // namespace

const Exhibit double_buffer{.broken = run_one_block<false>, .repaired = run_one_block<true>};

}  // namespace weft::WEFT_DEVICE::gallery
