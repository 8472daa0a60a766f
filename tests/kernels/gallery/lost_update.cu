// A sum without an atomic: two threads read the same old value, and one of the two updates is lost.
#include "tests/kernels/gallery/gallery.h"

namespace weft::WEFT_DEVICE::gallery {
namespace {

__global__ void total(const float* x, float* y) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  y[0] += x[i];  // <- global race
}

__global__ void total_repaired(const float* x, float* y) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  atomicAdd(y, x[i]);
}

}  // namespace

const Exhibit lost_update{.broken = run<total>, .repaired = run<total_repaired>};

}  // namespace weft::WEFT_DEVICE::gallery
