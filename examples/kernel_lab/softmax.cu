// Softmax of rows, in four steps: who works on a row, and how often is it read?
#include "examples/kernel_lab/lab.h"
#include "kernels/simt/block_reduce.h"
#include "kernels/simt/simt.h"
#include "kernels/table.h"

#include <algorithm>

namespace weft::WEFT_DEVICE {
namespace {

// 1. A thread a row. Neighbouring threads read addresses a whole row apart: each 32-byte sector that memory delivers
// holds one useful value.
__global__ void softmax_naive(const float* __restrict__ x, float* __restrict__ y, int64_t rows, int64_t columns) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const float* from = x + row * columns;
  float* to = y + row * columns;
  float top = -INFINITY;
  for (int64_t i = 0; i < columns; ++i) top = fmaxf(top, from[i]);
  float sum = 0;
  for (int64_t i = 0; i < columns; ++i) sum += __expf(from[i] - top);
  for (int64_t i = 0; i < columns; ++i) to[i] = __expf(from[i] - top) / sum;
}

// 2. A warp a row: its 32 lanes read 32 neighbours at once, and share maximum and sum by shuffles.
__global__ void softmax_warp(const float* __restrict__ x, float* __restrict__ y, int64_t rows, int64_t columns) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  if (row >= rows) return;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const float* from = x + row * columns;
  float* to = y + row * columns;
  float top = -INFINITY;
  for (int64_t i = lane; i < columns; i += 32) top = fmaxf(top, from[i]);
  top = warp_max(top);
  float sum = 0;
  for (int64_t i = lane; i < columns; i += 32) sum += __expf(from[i] - top);
  sum = warp_sum(sum);
  for (int64_t i = lane; i < columns; i += 32) to[i] = __expf(from[i] - top) / sum;
}

// 3. A block a row, which is kept in shared memory: global memory is read once instead of three times, and exp is
// computed once.
__global__ void softmax_shared(const float* __restrict__ x, float* __restrict__ y, int64_t columns) {
  WEFT_DYNAMIC_SHARED(float, kept);
  const float* from = x + static_cast<int64_t>(blockIdx.x) * columns;
  float* to = y + static_cast<int64_t>(blockIdx.x) * columns;
  float top = -INFINITY;
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) {
    kept[i] = from[i];
    top = fmaxf(top, kept[i]);
  }
  top = block_max(top);
  float sum = 0;
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) {  // each thread meets only what it stored itself
    kept[i] = __expf(kept[i] - top);
    sum += kept[i];
  }
  const float scale = 1 / block_sum(sum);
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) to[i] = kept[i] * scale;
}

// 4. The same with 16 bytes an access: a quarter of the instructions, and more bytes in flight.
__global__ void softmax_vector(const float* __restrict__ x, float* __restrict__ y, int64_t columns) {
  WEFT_DYNAMIC_SHARED(float, kept);
  const float* from = x + static_cast<int64_t>(blockIdx.x) * columns;
  float* to = y + static_cast<int64_t>(blockIdx.x) * columns;
  const int64_t stride = static_cast<int64_t>(blockDim.x) * 4;
  float top = -INFINITY;
  for (int64_t i = threadIdx.x * 4; i < columns; i += stride) {
    const auto v = load_pack<4>(from + i);
    store_pack(kept + i, v);
    top = fmaxf(fmaxf(top, fmaxf(v[0], v[1])), fmaxf(v[2], v[3]));
  }
  top = block_max(top);
  float sum = 0;
  for (int64_t i = threadIdx.x * 4; i < columns; i += stride) {
    auto v = load_pack<4>(kept + i);
    WEFT_UNROLL
    for (int e = 0; e < 4; ++e) {
      v[e] = __expf(v[e] - top);
      sum += v[e];
    }
    store_pack(kept + i, v);
  }
  const float scale = 1 / block_sum(sum);
  for (int64_t i = threadIdx.x * 4; i < columns; i += stride) {
    auto v = load_pack<4>(kept + i);
    WEFT_UNROLL
    for (int e = 0; e < 4; ++e) v[e] *= scale;
    store_pack(to + i, v);
  }
}

void run_naive(Stream s, const lab::Problem& p, int block) {
  launch(softmax_naive, dim3(lab::blocks_for(p.rows, block)), dim3(static_cast<unsigned>(block)), 0, s, p.x, p.y,
         p.rows, p.columns);
}
void run_warp(Stream s, const lab::Problem& p, int block) {
  launch(softmax_warp, dim3(lab::blocks_for(p.rows, block / 32)), dim3(static_cast<unsigned>(block)), 0, s, p.x, p.y,
         p.rows, p.columns);
}
void run_shared(Stream s, const lab::Problem& p, int block) {
  launch(softmax_shared, dim3(static_cast<unsigned>(p.rows)), dim3(static_cast<unsigned>(block)),
         static_cast<size_t>(p.columns) * sizeof(float), s, p.x, p.y, p.columns);
}
void run_vector(Stream s, const lab::Problem& p, int block) {
  launch(softmax_vector, dim3(static_cast<unsigned>(p.rows)), dim3(static_cast<unsigned>(block)),
         static_cast<size_t>(p.columns) * sizeof(float), s, p.x, p.y, p.columns);
}

void reference(const lab::Problem& p, double* y) {
  for (int64_t r = 0; r < p.rows; ++r) {
    const float* x = p.x + r * p.columns;
    const double top = *std::max_element(x, x + p.columns);
    double sum = 0;
    for (int64_t i = 0; i < p.columns; ++i) sum += std::exp(x[i] - top);
    for (int64_t i = 0; i < p.columns; ++i) y[r * p.columns + i] = std::exp(x[i] - top) / sum;
  }
}

}  // namespace
}  // namespace weft::WEFT_DEVICE

const lab::Ladder& lab::softmax_ladder() {
  using namespace weft::WEFT_DEVICE;
  static const Ladder ladder = {
      .name = "softmax",
      .formula = "y[r, c] = exp(x[r, c] - max x[r]) / sum exp(x[r] - max x[r])",
      .size = {.rows = 256, .columns = 1024},
      .gpu_size = {.rows = 16384, .columns = 4096},
      .rungs = {{"naive", "a thread a row", run_naive, {64, 128, 256}},
                {"warp", "a warp a row: coalesced, shuffles", run_warp, {64, 128, 256}},
                {"shared", "a block a row, read once into shared memory", run_shared, {128, 256, 512}},
                {"vector", "16 bytes an access", run_vector, {64, 128, 256, 512}}},
      .max_columns = 8192,
      .outputs = -1,
      .bytes = [](const Problem& p) { return 8.0 * static_cast<double>(p.rows * p.columns); },
      .flops = [](const Problem&) { return 0.0; },
      .reference = reference,
      .library =
          [](weft::Stream s, const Problem& p) {
            weft::kernel_table(s.device.type, "lab")
                .softmax.forward(s, weft::f32, p.x, p.y, p.rows, p.columns, 1, false);
          },
  };
  return ladder;
}
