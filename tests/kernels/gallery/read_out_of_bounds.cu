// A stencil that forgets the end of the row: the last thread reads behind x.
#include "tests/kernels/gallery/gallery.h"

namespace weft::WEFT_DEVICE::gallery {
namespace {

__global__ void difference(const float* x, float* y) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  y[i] = x[i + 1] - x[i];  // <- out of bounds
}

__global__ void difference_repaired(const float* x, float* y) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  y[i] = i + 1 < kElements ? x[i + 1] - x[i] : 0.0f;
}

}  // namespace

const Exhibit read_out_of_bounds{.broken = run<difference>, .repaired = run<difference_repaired>};

}  // namespace weft::WEFT_DEVICE::gallery
