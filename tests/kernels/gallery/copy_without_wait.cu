// An asynchronous copy that is used before it has arrived: cp.async returns at once, and a barrier does not wait for it.
#include "tests/kernels/gallery/gallery.h"

namespace weft::WEFT_DEVICE::gallery {
namespace {

template <bool repaired>
__global__ void reverse(const float* x, float* y) {
  alignas(16) __shared__ float tile[4 * kThreads];
  const unsigned t = threadIdx.x;
  const unsigned first = blockIdx.x * 4 * kThreads;
  cp_async16(&tile[4 * t], x + first + 4 * t);  // <- unfinished copy
  cp_async_commit();
  if (repaired) cp_async_wait<0>();
  __syncthreads();
  for (int i = 0; i < 4; ++i) {
    const unsigned at = i * kThreads + t;
    y[first + at] = tile[4 * kThreads - 1 - at];  // <- unfinished copy
  }
}

template <bool repaired>
void run_quarter(Stream stream, const float* x, float* y) {
  launch(reverse<repaired>, dim3(kElements / kThreads / 4), dim3(kThreads), 0, stream, x, y);
}

}  // namespace

const Exhibit copy_without_wait{.broken = run_quarter<false>, .repaired = run_quarter<true>};

}  // namespace weft::WEFT_DEVICE::gallery
