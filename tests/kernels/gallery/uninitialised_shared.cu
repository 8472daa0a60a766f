// Counters in shared memory that nobody set to zero. It holds what the block before left there; the emulator and the
// examination know what has been written.
#include "tests/kernels/gallery/gallery.h"

namespace weft::WEFT_DEVICE::gallery {
namespace {

template <bool repaired>
__global__ void histogram(const float* x, float* y) {
  __shared__ unsigned count[16];
  const unsigned t = threadIdx.x;
  if (repaired) {
    if (t < 16) count[t] = 0;
    __syncthreads();
  }
  atomicAdd(&count[static_cast<int>(x[blockIdx.x * kThreads + t] * 15.99f)], 1u);  // <- uninitialised shared
  __syncthreads();
  if (t < 16) y[blockIdx.x * 16 + t] = static_cast<float>(count[t]);
}

}  // namespace

const Exhibit uninitialised_shared{.broken = run<histogram<false>>, .repaired = run<histogram<true>>};

}  // namespace weft::WEFT_DEVICE::gallery
