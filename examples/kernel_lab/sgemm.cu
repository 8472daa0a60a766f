// The product of two matrices: each rung reads memory fewer times than the one before.
#include "examples/kernel_lab/lab.h"
#include "kernels/simt/simt.h"
#include "kernels/table.h"

namespace weft::WEFT_DEVICE {
namespace {

// 1. A thread a result; threadIdx.x walks down the rows. Neighbouring threads read x a row apart and write y a row
// apart: one useful value a sector.
__global__ void sgemm_naive(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y,
                            int64_t rows, int64_t columns, int64_t depth) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t column = static_cast<int64_t>(blockIdx.y) * blockDim.y + threadIdx.y;
  if (row >= rows || column >= columns) return;
  float sum = 0;
  for (int64_t k = 0; k < depth; ++k) sum += x[row * depth + k] * w[k * columns + column];
  y[row * columns + column] = sum;
}

// 2. The two indices swapped: neighbours read neighbouring columns of w, and the same x.
__global__ void sgemm_coalesced(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y,
                                int64_t rows, int64_t columns, int64_t depth) {
  const int64_t row = static_cast<int64_t>(blockIdx.y) * blockDim.y + threadIdx.y;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows || column >= columns) return;
  float sum = 0;
  for (int64_t k = 0; k < depth; ++k) sum += x[row * depth + k] * w[k * columns + column];
  y[row * columns + column] = sum;
}

// 3. Tiles of both matrices in shared memory: a value that was read once serves 32 threads.
constexpr int kTile = 32;
__global__ void sgemm_shared(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y,
                             int64_t rows, int64_t columns, int64_t depth) {
  __shared__ float xs[kTile][kTile];
  __shared__ float ws[kTile][kTile];
  const int tx = static_cast<int>(threadIdx.x);
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kTile + tx;
  float sums[4] = {0, 0, 0, 0};  // blockDim.y is kTile / 4: a thread has four rows of the tile
  for (int64_t k0 = 0; k0 < depth; k0 += kTile) {
    WEFT_UNROLL
    for (int e = 0; e < 4; ++e) {
      const int r = static_cast<int>(threadIdx.y) + e * (kTile / 4);
      const int64_t row = static_cast<int64_t>(blockIdx.y) * kTile + r;
      xs[r][tx] = row < rows && k0 + tx < depth ? x[row * depth + k0 + tx] : 0.0f;
      ws[r][tx] = k0 + r < depth && column < columns ? w[(k0 + r) * columns + column] : 0.0f;
    }
    __syncthreads();
    for (int k = 0; k < kTile; ++k) {
      WEFT_UNROLL
      for (int e = 0; e < 4; ++e) sums[e] += xs[static_cast<int>(threadIdx.y) + e * (kTile / 4)][k] * ws[k][tx];
    }
    __syncthreads();
  }
  WEFT_UNROLL
  for (int e = 0; e < 4; ++e) {
    const int64_t row = static_cast<int64_t>(blockIdx.y) * kTile + threadIdx.y + e * (kTile / 4);
    if (row < rows && column < columns) y[row * columns + column] = sums[e];
  }
}

// 4. Tiles in registers too: a thread computes 4 × 4 results from 4 + 4 values, 16 bytes an access. Tiles of 64 × 64,
// 16 deep, by 256 threads; rows, columns multiples of 64, depth of 16.
__global__ void __launch_bounds__(256) sgemm_registers(const float* __restrict__ x, const float* __restrict__ w,
                                                       float* __restrict__ y, int64_t columns, int64_t depth) {
  __shared__ __align__(16) float xs[16][64 + 4];  // transposed; padded so that the stores meet different banks
  __shared__ __align__(16) float ws[16][64];
  const int t = static_cast<int>(threadIdx.x);
  const int tx = t % 16, ty = t / 16;
  const int64_t row0 = static_cast<int64_t>(blockIdx.y) * 64, column0 = static_cast<int64_t>(blockIdx.x) * 64;
  float sums[4][4] = {};
  for (int64_t k0 = 0; k0 < depth; k0 += 16) {
    const auto a = load_pack<4>(x + (row0 + t / 4) * depth + k0 + t % 4 * 4);
    WEFT_UNROLL
    for (int e = 0; e < 4; ++e) xs[t % 4 * 4 + e][t / 4] = a[e];
    store_pack(&ws[ty][tx * 4], load_pack<4>(w + (k0 + ty) * columns + column0 + tx * 4));
    __syncthreads();
    WEFT_UNROLL
    for (int k = 0; k < 16; ++k) {
      const auto left = load_pack<4>(&xs[k][ty * 4]);
      const auto right = load_pack<4>(&ws[k][tx * 4]);
      WEFT_UNROLL
      for (int i = 0; i < 4; ++i) {
        WEFT_UNROLL
        for (int j = 0; j < 4; ++j) sums[i][j] += left[i] * right[j];
      }
    }
    __syncthreads();
  }
  WEFT_UNROLL
  for (int i = 0; i < 4; ++i)
    store_pack(y + (row0 + ty * 4 + i) * columns + column0 + tx * 4,
               Pack<float, 4>{{sums[i][0], sums[i][1], sums[i][2], sums[i][3]}});
}

// 5. Tensor cores: bf16 inputs, f32 sums. A warp computes 32 × 32 of the block's 64 × 64 by mma of 16 × 8 × 16; the next
// tiles travel by cp.async while these are multiplied. Sizes as above, depth a multiple of 32.
constexpr int kDepth = 32;
constexpr int kPad = 8;  // elements: rows begin in different banks, and ldmatrix stays 16-byte aligned
__global__ void __launch_bounds__(128) sgemm_tensor_core(const BFloat16* __restrict__ x, const BFloat16* __restrict__ w,
                                                         float* __restrict__ y, int64_t columns, int64_t depth) {
  __shared__ __align__(16) BFloat16 xs[2][64][kDepth + kPad];
  __shared__ __align__(16) BFloat16 ws[2][kDepth][64 + kPad];
  const int t = static_cast<int>(threadIdx.x);
  const int warp = t / 32, lane = t % 32;
  const int warp_row = warp / 2 * 32, warp_column = warp % 2 * 32;
  const int64_t row0 = static_cast<int64_t>(blockIdx.y) * 64, column0 = static_cast<int64_t>(blockIdx.x) * 64;

  const auto fetch = [&](int buffer, int64_t k0) {
    WEFT_UNROLL
    for (int e = 0; e < 2; ++e) {  // 256 pieces of 16 bytes each, two a thread
      const int piece = t + e * 128;
      cp_async16(&xs[buffer][piece / 4][piece % 4 * 8], x + (row0 + piece / 4) * depth + k0 + piece % 4 * 8);
      cp_async16(&ws[buffer][piece / 8][piece % 8 * 8], w + (k0 + piece / 8) * columns + column0 + piece % 8 * 8);
    }
    cp_async_commit();
  };

  float sums[2][4][4] = {};
  fetch(0, 0);
  for (int64_t k0 = 0; k0 < depth; k0 += kDepth) {
    const int buffer = static_cast<int>(k0 / kDepth % 2);
    if (k0 + kDepth < depth) {
      fetch(1 - buffer, k0 + kDepth);
      cp_async_wait<1>();
    } else {
      cp_async_wait<0>();
    }
    __syncthreads();
    WEFT_UNROLL
    for (int k = 0; k < kDepth; k += 16) {
      uint32_t a[2][4], b[2][4];
      WEFT_UNROLL
      for (int i = 0; i < 2; ++i) ldmatrix_x4(a[i], &xs[buffer][warp_row + i * 16 + lane % 16][k + lane / 16 * 8]);
      WEFT_UNROLL
      for (int j = 0; j < 2; ++j)
        ldmatrix_x4_trans(b[j], &ws[buffer][k + lane % 16][warp_column + j * 16 + lane / 16 * 8]);
      WEFT_UNROLL
      for (int i = 0; i < 2; ++i) {
        WEFT_UNROLL
        for (int j = 0; j < 4; ++j) {
          const uint32_t half[2] = {b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]};
          mma_m16n8k16(sums[i][j], a[i], half, TypeTag<BFloat16>{});
        }
      }
    }
    __syncthreads();
  }
  WEFT_UNROLL
  for (int i = 0; i < 2; ++i) {
    WEFT_UNROLL
    for (int j = 0; j < 4; ++j) {
      const int64_t row = row0 + warp_row + i * 16 + lane / 4;
      const int64_t column = column0 + warp_column + j * 8 + lane % 4 * 2;
      store_pack(y + row * columns + column, Pack<float, 2>{{sums[i][j][0], sums[i][j][1]}});
      store_pack(y + (row + 8) * columns + column, Pack<float, 2>{{sums[i][j][2], sums[i][j][3]}});
    }
  }
}

void run_naive(Stream s, const lab::Problem& p, int block) {
  const auto side = static_cast<unsigned>(block / 8);
  launch(sgemm_naive, dim3(lab::blocks_for(p.rows, side), lab::blocks_for(p.columns, 8)), dim3(side, 8), 0, s, p.x, p.w,
         p.y, p.rows, p.columns, p.depth);
}
void run_coalesced(Stream s, const lab::Problem& p, int block) {
  const auto side = static_cast<unsigned>(block / 32);
  launch(sgemm_coalesced, dim3(lab::blocks_for(p.columns, 32), lab::blocks_for(p.rows, side)), dim3(32, side), 0, s,
         p.x, p.w, p.y, p.rows, p.columns, p.depth);
}
void run_shared(Stream s, const lab::Problem& p, int) {
  launch(sgemm_shared, dim3(lab::blocks_for(p.columns, kTile), lab::blocks_for(p.rows, kTile)), dim3(kTile, kTile / 4),
         0, s, p.x, p.w, p.y, p.rows, p.columns, p.depth);
}
void run_registers(Stream s, const lab::Problem& p, int) {
  launch(sgemm_registers, dim3(lab::blocks_for(p.columns, 64), lab::blocks_for(p.rows, 64)), dim3(256), 0, s, p.x, p.w,
         p.y, p.columns, p.depth);
}
void run_tensor_core(Stream s, const lab::Problem& p, int) {
  launch(sgemm_tensor_core, dim3(lab::blocks_for(p.columns, 64), lab::blocks_for(p.rows, 64)), dim3(128), 0, s, p.x16,
         p.w16, p.y, p.columns, p.depth);
}

void reference(const lab::Problem& p, double* y) {
  for (int64_t r = 0; r < p.rows; ++r) {
    double* to = y + r * p.columns;
    for (int64_t c = 0; c < p.columns; ++c) to[c] = 0;
    for (int64_t k = 0; k < p.depth; ++k) {
      const double left = p.x[r * p.depth + k];
      for (int64_t c = 0; c < p.columns; ++c) to[c] += left * p.w[k * p.columns + c];
    }
  }
}

}  // namespace
}  // namespace weft::WEFT_DEVICE

const lab::Ladder& lab::sgemm_ladder() {
  using namespace weft::WEFT_DEVICE;
  static const Ladder ladder = {
      .name = "sgemm",
      .formula = "y[r, c] = sum over k of x[r, k] · w[k, c]",
      .size = {.rows = 128, .columns = 128, .depth = 128},
      .gpu_size = {.rows = 4096, .columns = 4096, .depth = 4096},
      .rungs = {{"naive", "a thread a result, neighbours down a column", run_naive, {128, 256}},
                {"coalesced", "neighbours along a row", run_coalesced, {128, 256, 512}},
                {"shared", "tiles in shared memory", run_shared, {256}},
                {"registers", "4 × 4 results a thread, 16 bytes an access", run_registers, {256}},
                {"tensor_core", "mma on bf16, cp.async, two buffers", run_tensor_core, {128}, true}},
      .max_columns = 65536,
      .outputs = -1,
      .bytes =
          [](const Problem& p) {
            return 4.0 * static_cast<double>(p.rows * p.depth + p.depth * p.columns + p.rows * p.columns);
          },
      .flops = [](const Problem& p) { return 2.0 * static_cast<double>(p.rows * p.columns * p.depth); },
      .reference = reference,
      .library =
          [](weft::Stream s, const Problem& p) {
            weft::kernel_table(s.device.type, "lab")
                .gemm.gemm(s, weft::f32, false, false, p.rows, p.columns, p.depth, 1, p.x, p.depth, p.w, p.columns, 0,
                           p.y, p.columns);
          },
  };
  return ladder;
}
