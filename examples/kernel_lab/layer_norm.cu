// Layer norm of rows: a reduction inside, so the steps are softmax's; the last keeps the row in registers.
#include "examples/kernel_lab/lab.h"
#include "kernels/simt/block_reduce.h"
#include "kernels/simt/simt.h"
#include "kernels/table.h"

namespace weft::WEFT_DEVICE {
namespace {

constexpr float kEps = 1e-5f;

// 1. A thread a row, three walks over it.
__global__ void layer_norm_naive(const float* __restrict__ x, const float* __restrict__ w,
                                 const float* __restrict__ bias, float* __restrict__ y, int64_t rows, int64_t columns) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const float* from = x + row * columns;
  const auto n = static_cast<float>(columns);
  float sum = 0;
  for (int64_t i = 0; i < columns; ++i) sum += from[i];
  const float mean = sum / n;
  float squares = 0;
  for (int64_t i = 0; i < columns; ++i) squares += (from[i] - mean) * (from[i] - mean);
  const float rstd = rsqrtf(squares / n + kEps);
  for (int64_t i = 0; i < columns; ++i) y[row * columns + i] = (from[i] - mean) * rstd * w[i] + bias[i];
}

// 2. A warp a row.
__global__ void layer_norm_warp(const float* __restrict__ x, const float* __restrict__ w,
                                const float* __restrict__ bias, float* __restrict__ y, int64_t rows, int64_t columns) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  if (row >= rows) return;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const float* from = x + row * columns;
  const auto n = static_cast<float>(columns);
  float sum = 0;
  for (int64_t i = lane; i < columns; i += 32) sum += from[i];
  const float mean = warp_sum(sum) / n;
  float squares = 0;
  for (int64_t i = lane; i < columns; i += 32) squares += (from[i] - mean) * (from[i] - mean);
  const float rstd = rsqrtf(warp_sum(squares) / n + kEps);
  for (int64_t i = lane; i < columns; i += 32) y[row * columns + i] = (from[i] - mean) * rstd * w[i] + bias[i];
}

// 3. A block a row, kept in shared memory.
__global__ void layer_norm_shared(const float* __restrict__ x, const float* __restrict__ w,
                                  const float* __restrict__ bias, float* __restrict__ y, int64_t columns) {
  WEFT_DYNAMIC_SHARED(float, kept);
  const int64_t start = static_cast<int64_t>(blockIdx.x) * columns;
  const auto n = static_cast<float>(columns);
  float sum = 0;
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) {
    kept[i] = x[start + i];
    sum += kept[i];
  }
  const float mean = block_sum(sum) / n;
  float squares = 0;
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) squares += (kept[i] - mean) * (kept[i] - mean);
  const float rstd = rsqrtf(block_sum(squares) / n + kEps);
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) y[start + i] = (kept[i] - mean) * rstd * w[i] + bias[i];
}

// 4. A warp a row in registers, 16 bytes an access: no shared memory and no barrier at all. Rows of up to 32 × 4 ×
// kPacks values.
constexpr int kPacks = 16;
__global__ void layer_norm_registers(const float* __restrict__ x, const float* __restrict__ w,
                                     const float* __restrict__ bias, float* __restrict__ y, int64_t rows,
                                     int64_t columns) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  if (row >= rows) return;
  const int64_t lane = threadIdx.x % 32;
  const auto n = static_cast<float>(columns);
  Pack<float, 4> kept[kPacks];
  float sum = 0;
  WEFT_UNROLL
  for (int k = 0; k < kPacks; ++k) {
    const int64_t i = (k * 32 + lane) * 4;
    if (i < columns) {
      kept[k] = load_pack<4>(x + row * columns + i);
      sum += (kept[k][0] + kept[k][1]) + (kept[k][2] + kept[k][3]);
    }
  }
  const float mean = warp_sum(sum) / n;
  float squares = 0;
  WEFT_UNROLL
  for (int k = 0; k < kPacks; ++k) {
    if ((k * 32 + lane) * 4 < columns) {
      WEFT_UNROLL
      for (int e = 0; e < 4; ++e) squares += (kept[k][e] - mean) * (kept[k][e] - mean);
    }
  }
  const float rstd = rsqrtf(warp_sum(squares) / n + kEps);
  WEFT_UNROLL
  for (int k = 0; k < kPacks; ++k) {
    const int64_t i = (k * 32 + lane) * 4;
    if (i < columns) {
      const auto scale = load_pack<4>(w + i);
      const auto shift = load_pack<4>(bias + i);
      WEFT_UNROLL
      for (int e = 0; e < 4; ++e) kept[k][e] = (kept[k][e] - mean) * rstd * scale[e] + shift[e];
      store_pack(y + row * columns + i, kept[k]);
    }
  }
}

void run_naive(Stream s, const lab::Problem& p, int block) {
  launch(layer_norm_naive, dim3(lab::blocks_for(p.rows, block)), dim3(static_cast<unsigned>(block)), 0, s, p.x, p.w,
         p.bias, p.y, p.rows, p.columns);
}
void run_warp(Stream s, const lab::Problem& p, int block) {
  launch(layer_norm_warp, dim3(lab::blocks_for(p.rows, block / 32)), dim3(static_cast<unsigned>(block)), 0, s, p.x, p.w,
         p.bias, p.y, p.rows, p.columns);
}
void run_shared(Stream s, const lab::Problem& p, int block) {
  launch(layer_norm_shared, dim3(static_cast<unsigned>(p.rows)), dim3(static_cast<unsigned>(block)),
         static_cast<size_t>(p.columns) * sizeof(float), s, p.x, p.w, p.bias, p.y, p.columns);
}
void run_registers(Stream s, const lab::Problem& p, int block) {
  launch(layer_norm_registers, dim3(lab::blocks_for(p.rows, block / 32)), dim3(static_cast<unsigned>(block)), 0, s, p.x,
         p.w, p.bias, p.y, p.rows, p.columns);
}

void reference(const lab::Problem& p, double* y) {
  for (int64_t r = 0; r < p.rows; ++r) {
    const float* x = p.x + r * p.columns;
    double mean = 0, squares = 0;
    for (int64_t i = 0; i < p.columns; ++i) mean += x[i];
    mean /= static_cast<double>(p.columns);
    for (int64_t i = 0; i < p.columns; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const double rstd = 1 / std::sqrt(squares / static_cast<double>(p.columns) + double{kEps});
    for (int64_t i = 0; i < p.columns; ++i) y[r * p.columns + i] = (x[i] - mean) * rstd * p.w[i] + p.bias[i];
  }
}

}  // namespace
}  // namespace weft::WEFT_DEVICE

const lab::Ladder& lab::layer_norm_ladder() {
  using namespace weft::WEFT_DEVICE;
  static const Ladder ladder = {
      .name = "layer_norm",
      .formula = "y[r, c] = (x[r, c] - mean(x[r])) / sqrt(variance(x[r]) + 1e-5) · w[c] + bias[c]",
      .size = {.rows = 256, .columns = 768},
      .gpu_size = {.rows = 32768, .columns = 2048},
      .rungs = {{"naive", "a thread a row", run_naive, {64, 128, 256}},
                {"warp", "a warp a row: coalesced, shuffles", run_warp, {64, 128, 256}},
                {"shared", "a block a row, read once into shared memory", run_shared, {128, 256, 512}},
                {"registers", "a warp a row in registers, 16 bytes an access", run_registers, {64, 128, 256}}},
      .max_columns = 2048,
      .outputs = -1,
      .bytes = [](const Problem& p) { return 8.0 * static_cast<double>((p.rows + 1) * p.columns); },
      .flops = [](const Problem&) { return 0.0; },
      .reference = reference,
      .library =
          [](weft::Stream s, const Problem& p) {
            float* mean = p.workspace;
            float* rstd = p.workspace + p.rows;
            weft::kernel_table(s.device.type, "lab")
                .norm.layer_norm_forward(s, weft::f32, p.x, p.w, p.bias, p.y, mean, rstd, p.rows, p.columns, 1e-5);
          },
  };
  return ladder;
}
