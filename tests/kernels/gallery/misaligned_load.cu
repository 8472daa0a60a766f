// A vector load from an odd place. A GPU reads four floats at once only from a multiple of 16 bytes, and ends the launch
// otherwise.
#include "tests/kernels/gallery/gallery.h"

namespace weft::WEFT_DEVICE::gallery {
namespace {

__global__ void shift(const float* x, float* y) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  if (4 * i + 5 > kElements) return;
  store_pack(y + 4 * i, load_pack<4>(x + 4 * i + 1));  // <- misaligned
}

__global__ void shift_repaired(const float* x, float* y) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  if (i + 1 < kElements) y[i] = x[i + 1];
}

}  // namespace

const Exhibit misaligned_load{.broken = run<shift>, .repaired = run<shift_repaired>};

}  // namespace weft::WEFT_DEVICE::gallery
