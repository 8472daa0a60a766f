// Layer norm and RMS norm: rows, columns. Batch norm: outer, channels, inner. Bytes count every large operand once.
#include <benchmark/benchmark.h>

#include <vector>

#include "kernels/norm/batch_norm.h"
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

struct Images {
  BatchNormShape shape;
  std::vector<float> x, y, dy, dx, weight, bias, dweight, dbias, mean, rstd, running_mean, running_var;
  explicit Images(const benchmark::State& state)
      : shape{state.range(0), state.range(1), state.range(2)},
        x(static_cast<size_t>(shape.count() * shape.channels)),
        y(x),
        dy(x),
        dx(x),
        weight(static_cast<size_t>(shape.channels), 1.5f),
        bias(weight),
        dweight(weight),
        dbias(weight),
        mean(weight),
        rstd(weight),
        running_mean(weight),
        running_var(weight) {
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7919 % 1000) / 100;
    for (size_t i = 0; i < x.size(); ++i) dy[i] = static_cast<float>(i * 104729 % 1000) / 100;
  }
  void forward() {
    cpu::batch_norm_kernels.forward({}, f32, shape, x.data(), weight.data(), bias.data(), y.data(), mean.data(),
                                    rstd.data(), running_mean.data(), running_var.data(), 0.1, 1e-5);
  }
};

void batch_norm_forward(benchmark::State& state) {
  Images b(state);
  for (auto _ : state) b.forward();
  state.SetBytesProcessed(state.iterations() * 2 * static_cast<int64_t>(b.x.size()) * 4);
}

void batch_norm_backward(benchmark::State& state) {
  Images b(state);
  b.forward();
  for (auto _ : state)
    cpu::batch_norm_kernels.backward({}, f32, b.shape, b.dy.data(), b.x.data(), b.mean.data(), b.rstd.data(),
                                     b.weight.data(), true, b.dx.data(), b.dweight.data(), b.dbias.data());
  state.SetBytesProcessed(state.iterations() * 3 * static_cast<int64_t>(b.x.size()) * 4);
}

void image_sizes(benchmark::internal::Benchmark* bench) {
  bench->Args({32, 64, 56 * 56})->Args({32, 512, 7 * 7})->Args({4096, 1024, 1});
  bench->Unit(benchmark::kMicrosecond)->UseRealTime();
}
BENCHMARK(batch_norm_forward)->Apply(image_sizes);
BENCHMARK(batch_norm_backward)->Apply(image_sizes);

}  // namespace
}  // namespace weft
