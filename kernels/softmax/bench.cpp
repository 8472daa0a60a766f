// Softmax over the last axis: rows, size. Bytes count the input and the output once.
#include <benchmark/benchmark.h>

#include <vector>

#include "kernels/softmax/softmax.h"

namespace weft {
namespace {

struct Buffers {
  int64_t rows, size;
  std::vector<float> x, y, dy, dx;
  explicit Buffers(const benchmark::State& state)
      : rows(state.range(0)), size(state.range(1)), x(static_cast<size_t>(rows * size)), y(x), dy(x), dx(x) {
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7919 % 1000) / 100;
    for (size_t i = 0; i < x.size(); ++i) dy[i] = static_cast<float>(i * 104729 % 1000) / 100;
  }
  void count(benchmark::State& state, int64_t arrays) const {
    state.SetBytesProcessed(state.iterations() * arrays * rows * size * 4);
  }
};

void softmax_forward(benchmark::State& state, bool log) {
  Buffers b(state);
  for (auto _ : state) cpu::softmax_kernels.forward({}, f32, b.x.data(), b.y.data(), b.rows, b.size, 1, log);
  b.count(state, 2);
}

void softmax_backward(benchmark::State& state, bool log) {
  Buffers b(state);
  cpu::softmax_kernels.forward({}, f32, b.x.data(), b.y.data(), b.rows, b.size, 1, log);
  for (auto _ : state)
    cpu::softmax_kernels.backward({}, f32, b.y.data(), b.dy.data(), b.dx.data(), b.rows, b.size, 1, log);
  b.count(state, 3);
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->Args({2048, 128})->Args({4096, 1024})->Unit(benchmark::kMicrosecond)->UseRealTime();
}
BENCHMARK_CAPTURE(softmax_forward, softmax, false)->Apply(sizes);
BENCHMARK_CAPTURE(softmax_forward, log_softmax, true)->Apply(sizes);
BENCHMARK_CAPTURE(softmax_backward, softmax, false)->Apply(sizes);
BENCHMARK_CAPTURE(softmax_backward, log_softmax, true)->Apply(sizes);

}  // namespace
}  // namespace weft
