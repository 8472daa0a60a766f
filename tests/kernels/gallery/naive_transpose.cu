// A transpose straight from memory to memory. Rows are read in one piece, but the 32 lanes write 32 rows: each store
// touches 32 sectors of 32 bytes for 4 bytes in each. The repair is a tile in shared memory: unpadded_transpose.cu.
#include "tests/kernels/gallery/gallery.h"

namespace weft::WEFT_DEVICE::gallery {
namespace {

__global__ void transpose(const float* x, float* y) {
  constexpr unsigned size = 64;
  const unsigned column = blockIdx.x * 32 + threadIdx.x;
  const unsigned row = blockIdx.y * 8 + threadIdx.y;
  y[column * size + row] = x[row * size + column];  // <- uncoalesced
}

void run_tiles(Stream stream, const float* x, float* y) { launch(transpose, dim3(2, 8), dim3(32, 8), 0, stream, x, y); }

}  // namespace

const Exhibit naive_transpose{.broken = run_tiles};

}  // namespace weft::WEFT_DEVICE::gallery
