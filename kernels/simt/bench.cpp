// What emulation costs: softmax over rows of [1024, 1024] as a naive loop, and as the emulator runs
// kernels/softmax/softmax.cu. Both also in CPU time: the loop uses one thread, the emulator the pool's.
#include <benchmark/benchmark.h>

#include <cmath>
#include <vector>

#include "kernels/table.h"

namespace weft {
namespace {

constexpr int64_t kRows = 1024, kSize = 1024;

std::vector<float> input() {
  std::vector<float> x(static_cast<size_t>(kRows * kSize));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7919 % 1000) / 100;
  return x;
}

void count(benchmark::State& state) { state.SetBytesProcessed(state.iterations() * 2 * kRows * kSize * 4); }

void simt_softmax_naive_loop(benchmark::State& state) {
  const std::vector<float> x = input();
  std::vector<float> y(x.size());
  for (auto _ : state) {
    for (int64_t row = 0; row < kRows; ++row) {
      const float* from = x.data() + row * kSize;
      float* to = y.data() + row * kSize;
      float largest = -INFINITY, sum = 0;
      for (int64_t i = 0; i < kSize; ++i) largest = from[i] > largest ? from[i] : largest;
      for (int64_t i = 0; i < kSize; ++i) sum += to[i] = std::exp(from[i] - largest);
      for (int64_t i = 0; i < kSize; ++i) to[i] /= sum;
    }
    benchmark::ClobberMemory();
  }
  count(state);
}

void simt_softmax_emulated(benchmark::State& state) {
  const SoftmaxKernels& softmax = kernel_table(DeviceType::simt, "bench").softmax;
  const std::vector<float> x = input();
  std::vector<float> y(x.size());
  for (auto _ : state) softmax.forward({Device::simt()}, DType::f32, x.data(), y.data(), kRows, kSize, 1, false);
  count(state);
}

void timing(benchmark::internal::Benchmark* bench) {
  bench->Unit(benchmark::kMillisecond)->UseRealTime()->MeasureProcessCPUTime();
}
BENCHMARK(simt_softmax_naive_loop)->Apply(timing);
BENCHMARK(simt_softmax_emulated)->Apply(timing);

}  // namespace
}  // namespace weft
