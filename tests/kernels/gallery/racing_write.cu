// Two threads, one address. Each block writes the element behind its own, too, which is the first of the next block.
#include "tests/kernels/gallery/gallery.h"

namespace weft::WEFT_DEVICE::gallery {
namespace {

__global__ void spread(const float* x, float* y) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  y[i] = x[i];                                                            // <- global race
  if (threadIdx.x == kThreads - 1 && i + 1 < kElements) y[i + 1] = x[i];  // <- global race
}

__global__ void spread_repaired(const float* x, float* y) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  y[i] = threadIdx.x == 0 && i > 0 ? x[i - 1] : x[i];
}

}  // namespace

const Exhibit racing_write{.broken = run<spread>, .repaired = run<spread_repaired>};

}  // namespace weft::WEFT_DEVICE::gallery
