// A tile without its halo: the neighbour of the last thread lies behind the end of the shared memory that the launch
// asked for.
#include "tests/kernels/gallery/gallery.h"

namespace weft::WEFT_DEVICE::gallery {
namespace {

__global__ void smooth(const float* x, float* y) {
  WEFT_DYNAMIC_SHARED(float, tile);
  const unsigned t = threadIdx.x;
  const unsigned first = blockIdx.x * kThreads;
  tile[t] = x[first + t];
  __syncthreads();
  y[first + t] = 0.5f * (tile[t] + tile[t + 1]);  // <- out of bounds
}

__global__ void smooth_repaired(const float* x, float* y) {
  WEFT_DYNAMIC_SHARED(float, tile);
  const unsigned t = threadIdx.x;
  const unsigned first = blockIdx.x * kThreads;
  tile[t] = x[first + t];
  if (t == 0) tile[kThreads] = first + kThreads < kElements ? x[first + kThreads] : 0.0f;
  __syncthreads();
  y[first + t] = 0.5f * (tile[t] + tile[t + 1]);
}

void run_broken(Stream stream, const float* x, float* y) {
  launch(smooth, dim3(kElements / kThreads), dim3(kThreads), kThreads * sizeof(float), stream, x, y);
}
void run_repaired(Stream stream, const float* x, float* y) {
  launch(smooth_repaired, dim3(kElements / kThreads), dim3(kThreads), (kThreads + 1) * sizeof(float), stream, x, y);
}

}  // namespace

const Exhibit shared_out_of_bounds{.broken = run_broken, .repaired = run_repaired};

}  // namespace weft::WEFT_DEVICE::gallery
