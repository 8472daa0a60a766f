// A barrier that some threads never reach: half of each warp waits for the whole warp, which waits for the block.
#include "tests/kernels/gallery/gallery.h"

namespace weft::WEFT_DEVICE::gallery {
namespace {

template <bool repaired>
__global__ void hand_over(const float* x, float* y) {
  __shared__ float tile[kThreads];
  const unsigned t = threadIdx.x;
  const unsigned i = blockIdx.x * kThreads + t;
  tile[t] = x[i];
  if (repaired || t % 32 < 16) __syncwarp();  // <- deadlock
  __syncthreads();                            // <- deadlock
  y[i] = tile[t ^ 1];
}

}  // namespace

const Exhibit deadlock{.broken = run<hand_over<false>>, .repaired = run<hand_over<true>>};

}  // namespace weft::WEFT_DEVICE::gallery
