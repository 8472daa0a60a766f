// More threads than elements and no test: the last block writes behind the end of y.
#include "tests/kernels/gallery/gallery.h"

namespace weft::WEFT_DEVICE::gallery {
namespace {

template <bool repaired>
__global__ void twice(const float* x, float* y, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (repaired && i >= n) return;
  y[i] = 2 * x[i % n];  // <- out of bounds
}

template <bool repaired>
void run_blocks(Stream stream, const float* x, float* y) {
  constexpr int threads = 192;  // 4096 elements take 21⅓ blocks
  launch(twice<repaired>, dim3((kElements + threads - 1) / threads), dim3(threads), 0, stream, x, y, kElements);
}

}  // namespace

const Exhibit write_out_of_bounds{.broken = run_blocks<false>, .repaired = run_blocks<true>};

}  // namespace weft::WEFT_DEVICE::gallery
