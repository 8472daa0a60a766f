// A mask that leaves out the caller: sixteen lanes are named and thirty-two call.
#include "tests/kernels/gallery/gallery.h"

namespace weft::WEFT_DEVICE::gallery {
namespace {

template <bool repaired>
__global__ void pair_sums(const float* x, float* y) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  constexpr unsigned mask = repaired ? 0xffffffffu : 0x0000ffffu;
  y[i] = x[i] + __shfl_xor_sync(mask, x[i], 1);  // <- invalid mask
}

}  // namespace

const Exhibit shuffle_wrong_mask{.broken = run<pair_sums<false>>, .repaired = run<pair_sums<true>>};

}  // namespace weft::WEFT_DEVICE::gallery
