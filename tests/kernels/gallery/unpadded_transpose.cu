// A transpose through a tile of 32 × 32. Reading a column, all lanes hit the same of the 32 banks of shared memory and
// are served one after the other. One element of padding a row moves each row to the next bank.
#include "tests/kernels/gallery/gallery.h"

namespace weft::WEFT_DEVICE::gallery {
namespace {

template <int pitch>
__global__ void transpose(const float* x, float* y) {
  constexpr unsigned size = 64;
  __shared__ float tile[32][pitch];
  const unsigned lane = threadIdx.x;
  const unsigned row = blockIdx.y * 32;
  const unsigned column = blockIdx.x * 32;
  for (unsigned r = threadIdx.y; r < 32; r += blockDim.y) tile[r][lane] = x[(row + r) * size + column + lane];
  __syncthreads();
  for (unsigned r = threadIdx.y; r < 32; r += blockDim.y)
    y[(column + r) * size + row + lane] = tile[lane][r];  // <- bank conflict
}

template <int pitch>
void run_tiles(Stream stream, const float* x, float* y) {
  launch(transpose<pitch>, dim3(2, 2), dim3(32, 8), 0, stream, x, y);
}

}  // namespace

const Exhibit unpadded_transpose{.broken = run_tiles<32>, .repaired = run_tiles<33>};

}  // namespace weft::WEFT_DEVICE::gallery
