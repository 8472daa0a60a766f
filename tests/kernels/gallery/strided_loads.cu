// Each thread sums 16 neighbours, so that the lanes of a warp are 64 bytes apart and every load touches 32 sectors.
// Lanes that take neighbours, and strides that take the loop, need four.
#include "tests/kernels/gallery/gallery.h"

namespace weft::WEFT_DEVICE::gallery {
namespace {

constexpr unsigned kEach = 16;

__global__ void sums(const float* x, float* y) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  float sum = 0;
  for (unsigned k = 0; k < kEach; ++k) sum += x[i * kEach + k];  // <- uncoalesced
  y[i] = sum;
}

// Another order of the elements, which a sum over all of them does not mind.
__global__ void sums_repaired(const float* x, float* y) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  float sum = 0;
  for (unsigned k = 0; k < kEach; ++k) sum += x[k * (kElements / kEach) + i];
  y[i] = sum;
}

template <void (*kernel)(const float*, float*)>
void run_sixteenth(Stream stream, const float* x, float* y) {
  launch(kernel, dim3(kElements / kThreads / kEach), dim3(kThreads), 0, stream, x, y);
}

}  // namespace

const Exhibit strided_loads{.broken = run_sixteenth<sums>, .repaired = run_sixteenth<sums_repaired>};

}  // namespace weft::WEFT_DEVICE::gallery
