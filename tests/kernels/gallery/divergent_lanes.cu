// Neighbouring lanes on different paths: a warp walks through both branches, each time with half of its lanes. The same
// split between warps costs nothing.
#include "tests/kernels/gallery/gallery.h"

namespace weft::WEFT_DEVICE::gallery {
namespace {

__global__ void fork(const float* x, float* y) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  if (i % 2 == 0)
    y[i] = expf(x[i]);  // <- divergent lanes
  else
    y[i] = logf(1 + x[i]);  // <- divergent lanes
}

__global__ void fork_repaired(const float* x, float* y) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  if (i / 32 % 2 == 0)
    y[i] = expf(x[i]);
  else
    y[i] = logf(1 + x[i]);
}

}  // namespace

const Exhibit divergent_lanes{.broken = run<fork>, .repaired = run<fork_repaired>};

}  // namespace weft::WEFT_DEVICE::gallery
