// Optimizer steps over the parameters of the character GPT (820 k in 30 tensors) and over 16 M in 8. Bytes count what a
// step reads and writes.
#include <benchmark/benchmark.h>

#include <vector>

#include "kernels/optimizer/optimizer.h"

namespace weft {
namespace {

struct Buffers {
  std::vector<int64_t> sizes;
  int64_t total = 0;
  std::vector<float> param, grad, m, v;
  explicit Buffers(const benchmark::State& state) {
    const int64_t width = 128;
    if (state.range(0) != 0) {
      sizes.assign(8, 2'000'000);
    } else {
      for (int layer = 0; layer < 4; ++layer)
        for (const int64_t rows : {3 * width, int64_t{3}, width, int64_t{1}, 4 * width, int64_t{4}, 4 * width})
          sizes.push_back(rows * width);
      sizes.push_back(100 * width);
      sizes.push_back(width * width);
    }
    for (const int64_t size : sizes) total += size;
    param.assign(static_cast<size_t>(total), 1.0f);
    grad.assign(param.size(), 0.5f);
    m.assign(param.size(), 0.1f);
    v.assign(param.size(), 0.1f);
  }
  template <class F>
  void each(F&& f) {
    int64_t at = 0;
    for (const int64_t size : sizes) {
      f(at, size);
      at += size;
    }
  }
};

void adamw(benchmark::State& state) {
  Buffers b(state);
  std::vector<OptimizerSlice> slices;
  b.each([&](int64_t at, int64_t size) {
    OptimizerSlice slice;
    slice.param = b.param.data() + at;
    slice.grad = b.grad.data() + at;
    slice.state[0] = b.m.data() + at;
    slice.state[1] = b.v.data() + at;
    slice.size = size;
    slices.push_back(slice);
  });
  AdamOptions options;
  options.decoupled = true;
  options.weight_decay = 0.1;
  for (auto _ : state)
    cpu::optimizer_kernels.step({}, f32, options, slices.data(), static_cast<int64_t>(slices.size()));
  state.SetBytesProcessed(state.iterations() * b.total * 28);
}

void sgd_momentum(benchmark::State& state) {
  Buffers b(state);
  std::vector<OptimizerSlice> slices;
  b.each([&](int64_t at, int64_t size) {
    slices.push_back({b.param.data() + at, b.grad.data() + at, {b.m.data() + at}, size, 2});
  });
  SgdOptions options;
  options.momentum = 0.9;
  for (auto _ : state)
    cpu::optimizer_kernels.step({}, f32, options, slices.data(), static_cast<int64_t>(slices.size()));
  state.SetBytesProcessed(state.iterations() * b.total * 20);
}

void sum_of_squares(benchmark::State& state) {
  Buffers b(state);
  std::vector<ConstSlice> slices;
  b.each([&](int64_t at, int64_t size) { slices.push_back({b.grad.data() + at, size}); });
  double result = 0;
  for (auto _ : state)
    cpu::optimizer_kernels.power_sum({}, f32, 2, slices.data(), static_cast<int64_t>(slices.size()), &result);
  benchmark::DoNotOptimize(result);
  state.SetBytesProcessed(state.iterations() * b.total * 4);
}

void scale(benchmark::State& state) {
  Buffers b(state);
  std::vector<MutableSlice> slices;
  b.each([&](int64_t at, int64_t size) { slices.push_back({b.grad.data() + at, size}); });
  for (auto _ : state) cpu::optimizer_kernels.scale({}, f32, slices.data(), static_cast<int64_t>(slices.size()), 1.0);
  state.SetBytesProcessed(state.iterations() * b.total * 8);
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond)->UseRealTime();
}
BENCHMARK(adamw)->Apply(sizes);
BENCHMARK(sgd_momentum)->Apply(sizes);
BENCHMARK(sum_of_squares)->Apply(sizes);
BENCHMARK(scale)->Apply(sizes);

}  // namespace
}  // namespace weft
