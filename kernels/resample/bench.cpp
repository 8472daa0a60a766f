// Resizing one axis of 32 images of 64 channels: across a row and down the rows. Bytes count both arrays once.
#include <benchmark/benchmark.h>

#include <vector>

#include "kernels/resample/resample.h"

namespace weft {
namespace {

constexpr int64_t kPlanes = 32 * 64, kSize = 28;

ResampleShape doubling(bool across, ResampleMode mode) {
  return {.outer = across ? kPlanes * kSize : kPlanes,
          .in = kSize,
          .out = 2 * kSize,
          .inner = across ? 1 : kSize,
          .mode = mode,
          .scale = 0.5};
}

void resample(benchmark::State& state, bool across, ResampleMode mode, bool backward) {
  const ResampleShape shape = doubling(across, mode);
  std::vector<float> x(static_cast<size_t>(shape.outer * shape.in * shape.inner), 1.5f), y(2 * x.size(), 0.5f);
  for (auto _ : state) {
    if (backward)
      cpu::resample_kernels.backward({}, f32, shape, y.data(), x.data());
    else
      cpu::resample_kernels.forward({}, f32, shape, x.data(), y.data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(x.size() + y.size()) * 4);
}
BENCHMARK_CAPTURE(resample, nearest_across, true, ResampleMode::nearest, false)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(resample, linear_across, true, ResampleMode::linear, false)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(resample, linear_down, false, ResampleMode::linear, false)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(resample, cubic_down, false, ResampleMode::cubic, false)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(resample, linear_across_backward, true, ResampleMode::linear, true)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(resample, linear_down_backward, false, ResampleMode::linear, true)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace weft
