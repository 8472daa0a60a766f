// Your kernel here. Copy this folder, rename, and change the four marked places: the formula below is y = 2 · x.
//
//   1. the kernels, one function a rung         3. the reference, a plain loop in f64 on the host
//   2. the launches                             4. the ladder's name, sizes, bytes and rungs
//
// Then add the file to examples/kernel_lab/meson.build and the ladder to lab.h and lab.cpp.
#include "examples/kernel_lab/lab.h"
#include "kernels/simt/simt.h"
#include "kernels/table.h"

#include <algorithm>

namespace weft::WEFT_DEVICE {
namespace {

// 1. Kernels.
__global__ void my_kernel_first(const float* __restrict__ x, float* __restrict__ y, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}

__global__ void my_kernel_vector(const float* __restrict__ x, float* __restrict__ y, int64_t packs) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < packs; i += stride) {
    auto v = load_pack<4>(x + i * 4);
    WEFT_UNROLL
    for (int e = 0; e < 4; ++e) v[e] *= 2;
    store_pack(y + i * 4, v);
  }
}

// 2. Launches.
void run_first(Stream s, const lab::Problem& p, int block) {
  const int64_t n = p.rows * p.columns;
  launch(my_kernel_first, dim3(lab::blocks_for(n, block)), dim3(static_cast<unsigned>(block)), 0, s, p.x, p.y, n);
}
void run_vector(Stream s, const lab::Problem& p, int block) {
  const int64_t packs = p.rows * p.columns / 4;
  const int64_t blocks = std::min<int64_t>((packs + block - 1) / block, 4096);
  launch(my_kernel_vector, dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(block)), 0, s, p.x, p.y,
         packs);
}

// 3. The reference.
void reference(const lab::Problem& p, double* y) {
  for (int64_t i = 0; i < p.rows * p.columns; ++i) y[i] = 2.0 * p.x[i];
}

}  // namespace
}  // namespace weft::WEFT_DEVICE

// 4. The ladder.
const lab::Ladder& lab::template_ladder() {
  using namespace weft::WEFT_DEVICE;
  static const Ladder ladder = {
      .name = "my_kernel",
      .formula = "y[i] = 2 · x[i]",
      .size = {.rows = 256, .columns = 1024},
      .gpu_size = {.rows = 65536, .columns = 2048},
      .rungs = {{"first", "a thread an element", run_first, {128, 256}},
                {"vector", "16 bytes an access, several a thread", run_vector, {128, 256}}},
      .max_columns = 65536,
      .outputs = -1,
      .bytes = [](const Problem& p) { return 8.0 * static_cast<double>(p.rows * p.columns); },
      .flops = [](const Problem&) { return 0.0; },
      .reference = reference,
      .library =
          [](weft::Stream s, const Problem& p) {
            weft::PointwiseArguments arguments;
            arguments.count = 3;
            arguments.layout.push(p.rows * p.columns, {1, 1, 1});
            arguments.data = {p.x, p.x, p.y};
            arguments.dtype = {weft::f32, weft::f32, weft::f32};
            weft::kernel_table(s.device.type, "lab")
                .pointwise.run(s, weft::PointwiseOp::add, weft::PointwisePass::forward, arguments);
          },
  };
  return ladder;
}
