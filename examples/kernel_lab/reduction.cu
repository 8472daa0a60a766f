// The sum of many values: from one atomic a value to 16-byte loads, shuffles and two launches.
#include "examples/kernel_lab/lab.h"
#include "kernels/simt/block_reduce.h"
#include "kernels/simt/simt.h"
#include "kernels/table.h"

#include <algorithm>

namespace weft::WEFT_DEVICE {
namespace {

constexpr int64_t kMaxBlocks = 1024;  // partial sums fit the workspace

__global__ void clear(float* y) { *y = 0; }

// 1. Every thread adds its value to the result: all of them wait for one address, and the order of the additions (so
// the rounding) changes from run to run.
__global__ void sum_atomic(const float* __restrict__ x, float* __restrict__ y, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(y, x[i]);
}

// 2. A tree in shared memory, as one draws it: neighbours first. Thread t works if t is a multiple of 2 · step, so
// every warp stays half, then three quarters … idle, and strides of 2, 4, 8 … words meet in the same banks.
__global__ void sum_interleaved(const float* __restrict__ x, float* __restrict__ partial, int64_t n) {
  WEFT_DYNAMIC_SHARED(float, tree);
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const unsigned t = threadIdx.x;
  tree[t] = i < n ? x[i] : 0.0f;
  __syncthreads();
  for (unsigned step = 1; step < blockDim.x; step *= 2) {
    const unsigned at = 2 * step * t;
    if (at + step < blockDim.x) tree[at] += tree[at + step];
    __syncthreads();
  }
  if (t == 0) partial[blockIdx.x] = tree[0];
}

// 3. The tree folded: the upper half is added to the lower. Whole warps drop out, neighbours use neighbouring banks.
__global__ void sum_folded(const float* __restrict__ x, float* __restrict__ partial, int64_t n) {
  WEFT_DYNAMIC_SHARED(float, tree);
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const unsigned t = threadIdx.x;
  tree[t] = i < n ? x[i] : 0.0f;
  __syncthreads();
  for (unsigned step = blockDim.x / 2; step > 0; step /= 2) {
    if (t < step) tree[t] += tree[t + step];
    __syncthreads();
  }
  if (t == 0) partial[blockIdx.x] = tree[0];
}

// 4. Many values a thread in registers first, so that the tree is a small part of the work; shuffles instead of shared
// memory inside a warp.
__global__ void sum_shuffle(const float* __restrict__ x, float* __restrict__ partial, int64_t n) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  float sum = 0;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) sum += x[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// 5. 16 bytes a load, four sums that do not wait for each other.
__global__ void sum_vector(const float* __restrict__ x, float* __restrict__ partial, int64_t n) {
  const int64_t packs = n / 4;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  Pack<float, 4> sums = {{0, 0, 0, 0}};
  for (int64_t i = first; i < packs; i += stride) {
    const auto v = load_pack<4>(x + i * 4);
    WEFT_UNROLL
    for (int e = 0; e < 4; ++e) sums[e] += v[e];
  }
  float sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  if (packs * 4 + first < n) sum += x[packs * 4 + first];
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

void run_atomic(Stream s, const lab::Problem& p, int block) {
  launch(clear, dim3(1), dim3(1), 0, s, p.y);
  launch(sum_atomic, dim3(lab::blocks_for(p.columns, block)), dim3(static_cast<unsigned>(block)), 0, s, p.x, p.y,
         p.columns);
}

// Blocks of `kernel` over x, then again over their results, until one block is left.
template <class Kernel>
void run_tree(Kernel kernel, Stream s, const lab::Problem& p, int block) {
  const float* from = p.x;
  int64_t n = p.columns;
  float* to = p.workspace;
  while (true) {
    const unsigned blocks = lab::blocks_for(n, block);
    if (blocks == 1) to = p.y;
    launch(kernel, dim3(blocks), dim3(static_cast<unsigned>(block)), static_cast<size_t>(block) * sizeof(float), s,
           from, to, n);
    if (blocks == 1) return;
    from = to;
    to += blocks;
    n = blocks;
  }
}
void run_interleaved(Stream s, const lab::Problem& p, int block) { run_tree(sum_interleaved, s, p, block); }
void run_folded(Stream s, const lab::Problem& p, int block) { run_tree(sum_folded, s, p, block); }

template <class Kernel>
void run_two_stages(Kernel kernel, int each, Stream s, const lab::Problem& p, int block) {
  const auto blocks = static_cast<unsigned>(
      std::min<int64_t>(kMaxBlocks, lab::blocks_for(p.columns, static_cast<int64_t>(block) * each * 8)));
  const dim3 threads(static_cast<unsigned>(block));
  launch(kernel, dim3(blocks), threads, 0, s, p.x, p.workspace, p.columns);
  launch(kernel, dim3(1), threads, 0, s, p.workspace, p.y, static_cast<int64_t>(blocks));
}
void run_shuffle(Stream s, const lab::Problem& p, int block) { run_two_stages(sum_shuffle, 1, s, p, block); }
void run_vector(Stream s, const lab::Problem& p, int block) { run_two_stages(sum_vector, 4, s, p, block); }

void reference(const lab::Problem& p, double* y) {
  *y = 0;
  for (int64_t i = 0; i < p.columns; ++i) *y += p.x[i];
}

}  // namespace
}  // namespace weft::WEFT_DEVICE

const lab::Ladder& lab::reduction_ladder() {
  using namespace weft::WEFT_DEVICE;
  static const Ladder ladder = {
      .name = "reduction",
      .formula = "y = sum x[i]",
      .size = {.rows = 1, .columns = 200003},
      .gpu_size = {.rows = 1, .columns = int64_t{1} << 26},
      .rungs = {{"atomic", "an atomic addition a value", run_atomic, {128, 256}},
                {"interleaved", "a tree in shared memory, neighbours first", run_interleaved, {128, 256, 512}},
                {"folded", "the tree folded: no idle lanes, no bank conflicts", run_folded, {128, 256, 512}},
                {"shuffle", "registers first, then shuffles", run_shuffle, {128, 256, 512}},
                {"vector", "16 bytes a load", run_vector, {128, 256, 512}}},
      .max_columns = int64_t{1} << 30,
      .outputs = 1,
      .bytes = [](const Problem& p) { return 4.0 * static_cast<double>(p.columns); },
      .flops = [](const Problem&) { return 0.0; },
      .reference = reference,
      .library =
          [](weft::Stream s, const Problem& p) {
            weft::ReduceLayout layout;
            layout.reduce(p.columns, 1);
            weft::kernel_table(s.device.type, "lab")
                .reduce.reduce(s, weft::Reduction::sum, weft::f32, p.x, layout, p.y);
          },
  };
  return ladder;
}
