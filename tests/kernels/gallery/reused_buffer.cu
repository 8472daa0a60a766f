// A buffer used twice with one barrier: the first warp may write the second sum over the first before the last warp has
// read it.
#include "tests/kernels/gallery/gallery.h"

namespace weft::WEFT_DEVICE::gallery {
namespace {

template <bool repaired>
__device__ float first_of_block(float value) {
  __shared__ float first;
  if (threadIdx.x == 0) first = value;  // <- shared race
  __syncthreads();
  const float result = first;  // <- shared race
  if (repaired) __syncthreads();
  return result;
}

template <bool repaired>
__global__ void scale(const float* x, float* y) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  const float shift = first_of_block<repaired>(x[i]);
  const float factor = first_of_block<repaired>(x[i] + 1);
  y[i] = (x[i] - shift) * factor;
}

}  // namespace

const Exhibit reused_buffer{.broken = run<scale<false>>, .repaired = run<scale<true>>};

}  // namespace weft::WEFT_DEVICE::gallery
