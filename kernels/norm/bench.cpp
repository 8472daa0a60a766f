// Layer norm and RMS norm: rows, columns. Bytes count every large operand once.
#include <benchmark/benchmark.h>

#include <vector>

#include "kernels/norm/norm.h"

namespace weft {
namespace {

struct Buffers {
  int64_t rows, columns;
  std::vector<float> x, y, dy, dx, weight, bias, dweight, dbias, mean, rstd;
  explicit Buffers(const benchmark::State& state)
      : rows(state.range(0)),
        columns(state.range(1)),
        x(static_cast<size_t>(rows * columns)),
        y(x),
        dy(x),
        dx(x),
        weight(static_cast<size_t>(columns), 1.5f),
        bias(weight),
        dweight(weight),
        dbias(weight),
        mean(static_cast<size_t>(rows)),
        rstd(mean) {
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7919 % 1000) / 100;
    for (size_t i = 0; i < x.size(); ++i) dy[i] = static_cast<float>(i * 104729 % 1000) / 100;
  }
  void count(benchmark::State& state, int64_t arrays) const {
    state.SetBytesProcessed(state.iterations() * arrays * rows * columns * 4);
  }
  void forward() {
    cpu::norm_kernels.layer_norm_forward({}, f32, x.data(), weight.data(), bias.data(), y.data(), mean.data(),
                                         rstd.data(), rows, columns, 1e-5);
  }
};

void layer_norm_forward(benchmark::State& state) {
  Buffers b(state);
  for (auto _ : state) b.forward();
  b.count(state, 2);
}

void layer_norm_backward(benchmark::State& state) {
  Buffers b(state);
  b.forward();
  for (auto _ : state)
    cpu::norm_kernels.layer_norm_backward({}, f32, b.dy.data(), b.x.data(), b.weight.data(), b.mean.data(),
                                          b.rstd.data(), b.dx.data(), b.dweight.data(), b.dbias.data(), b.rows,
                                          b.columns);
  b.count(state, 3);
}

void rms_norm_forward(benchmark::State& state) {
  Buffers b(state);
  for (auto _ : state)
    cpu::norm_kernels.rms_norm_forward({}, f32, b.x.data(), b.weight.data(), b.y.data(), b.rstd.data(), b.rows,
                                       b.columns, 1e-5);
  b.count(state, 2);
}

void rms_norm_backward(benchmark::State& state) {
  Buffers b(state);
  b.forward();
  for (auto _ : state)
    cpu::norm_kernels.rms_norm_backward({}, f32, b.dy.data(), b.x.data(), b.weight.data(), b.rstd.data(), b.dx.data(),
                                        b.dweight.data(), b.rows, b.columns);
  b.count(state, 3);
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->Args({2048, 128})->Args({4096, 1024})->Unit(benchmark::kMicrosecond)->UseRealTime();
}
BENCHMARK(layer_norm_forward)->Apply(sizes);
BENCHMARK(layer_norm_backward)->Apply(sizes);
BENCHMARK(rms_norm_forward)->Apply(sizes);
BENCHMARK(rms_norm_backward)->Apply(sizes);

}  // namespace
}  // namespace weft
