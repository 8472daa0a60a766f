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
  std::vector<float> param, grad, m, v, u;
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
    u.assign(param.size(), 0.1f);
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

// One step of a rule whose state is `states` arrays.
void step(benchmark::State& state, const OptimizerRule& rule, int states) {
  Buffers b(state);
  std::vector<OptimizerSlice> slices;
  b.each([&](int64_t at, int64_t size) {
    OptimizerSlice slice;
    slice.param = b.param.data() + at;
    slice.grad = b.grad.data() + at;
    float* const arrays[] = {b.m.data() + at, b.v.data() + at, b.u.data() + at};
    for (int k = 0; k < states; ++k) slice.state[k] = arrays[k];
    slice.size = size;
    slice.step = 2;
    slices.push_back(slice);
  });
  for (auto _ : state) cpu::optimizer_kernels.step({}, f32, rule, slices.data(), static_cast<int64_t>(slices.size()));
  state.SetBytesProcessed(state.iterations() * b.total * (12 + 8 * states));
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

void unscale(benchmark::State& state) {
  Buffers b(state);
  std::vector<MutableSlice> slices;
  b.each([&](int64_t at, int64_t size) { slices.push_back({b.grad.data() + at, size}); });
  float found = 0;
  for (auto _ : state)
    cpu::optimizer_kernels.unscale({}, f32, slices.data(), static_cast<int64_t>(slices.size()), 1.0, &found);
  benchmark::DoNotOptimize(found);
  state.SetBytesProcessed(state.iterations() * b.total * 8);
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond)->UseRealTime();
}
BENCHMARK_CAPTURE(step, sgd, SgdOptions{}, 0)->Apply(sizes);
BENCHMARK_CAPTURE(step, sgd_momentum, (SgdOptions{.momentum = 0.9}), 1)->Apply(sizes);
BENCHMARK_CAPTURE(step, adamw, (AdamOptions{.weight_decay = 0.1, .decoupled = true}), 2)->Apply(sizes);
BENCHMARK_CAPTURE(step, amsgrad, AdamOptions{}, 3)->Apply(sizes);
BENCHMARK_CAPTURE(step, adagrad, AdagradOptions{}, 1)->Apply(sizes);
BENCHMARK_CAPTURE(step, rmsprop, RmspropOptions{}, 1)->Apply(sizes);
BENCHMARK_CAPTURE(step, adadelta, AdadeltaOptions{}, 2)->Apply(sizes);
BENCHMARK_CAPTURE(step, adamax, AdamaxOptions{}, 2)->Apply(sizes);
BENCHMARK_CAPTURE(step, nadam, NadamOptions{}, 2)->Apply(sizes);
BENCHMARK_CAPTURE(step, radam, RadamOptions{}, 2)->Apply(sizes);
BENCHMARK_CAPTURE(step, lion, LionOptions{}, 1)->Apply(sizes);
BENCHMARK_CAPTURE(step, lamb_direction, LambDirection{}, 3)->Apply(sizes);
BENCHMARK_CAPTURE(step, lerp, Lerp{}, 0)->Apply(sizes);
BENCHMARK(sum_of_squares)->Apply(sizes);
BENCHMARK(scale)->Apply(sizes);
BENCHMARK(unscale)->Apply(sizes);

}  // namespace
}  // namespace weft
