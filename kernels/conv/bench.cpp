// Convolution: batch, in_channels, size, out_channels, kernel, stride, padding; items_per_second is flop/s. Pooling:
// planes, size; bytes count the arrays once.
#include <benchmark/benchmark.h>

#include <vector>

#include "kernels/conv/conv.h"

namespace weft {
namespace {

std::vector<float> values(int64_t count) {
  std::vector<float> result(static_cast<size_t>(count));
  for (size_t i = 0; i < result.size(); ++i) result[i] = static_cast<float>(i * 7919 % 1000) / 500 - 1;
  return result;
}

struct Problem {
  Conv2dShape s;
  std::vector<float> x, w, b, y;
  explicit Problem(const benchmark::State& state) {
    s.batch = state.range(0);
    s.in_channels = state.range(1);
    s.in_height = s.in_width = state.range(2);
    s.out_channels = state.range(3);
    s.kernel_height = s.kernel_width = state.range(4);
    s.stride_height = s.stride_width = state.range(5);
    s.padding_height = s.padding_width = state.range(6);
    x = values(s.batch * s.in_channels * s.in_height * s.in_width);
    w = values(s.out_channels * s.in_channels * s.kernel_height * s.kernel_width);
    b = values(s.out_channels);
    y = values(s.batch * s.out_channels * s.out_height() * s.out_width());
  }
  void count(benchmark::State& state) const {
    state.SetItemsProcessed(state.iterations() * 2 * static_cast<int64_t>(y.size()) * s.in_channels * s.kernel_height *
                            s.kernel_width);
  }
};

void conv2d_forward(benchmark::State& state) {
  Problem p(state);
  for (auto _ : state) cpu::conv_kernels.conv2d_forward({}, f32, p.s, p.x.data(), p.w.data(), p.b.data(), p.y.data());
  p.count(state);
}

void conv2d_backward_input(benchmark::State& state) {
  Problem p(state);
  for (auto _ : state) cpu::conv_kernels.conv2d_backward_input({}, f32, p.s, p.y.data(), p.w.data(), p.x.data());
  p.count(state);
}

void conv2d_backward_weight(benchmark::State& state) {
  Problem p(state);
  for (auto _ : state)
    cpu::conv_kernels.conv2d_backward_weight({}, f32, p.s, p.x.data(), p.y.data(), p.w.data(), p.b.data());
  p.count(state);
}

void max_pool2d(benchmark::State& state, bool backward) {
  Pool2dShape s;
  s.planes = state.range(0);
  s.in_height = s.in_width = state.range(1);
  s.kernel_height = s.kernel_width = s.stride_height = s.stride_width = 2;
  const int64_t outputs = s.planes * s.out_height() * s.out_width();
  std::vector<float> x = values(s.planes * s.in_height * s.in_width), y = values(outputs);
  std::vector<int64_t> indices(y.size());
  cpu::conv_kernels.max_pool2d_forward({}, f32, s, x.data(), y.data(), indices.data());
  for (auto _ : state) {
    if (backward)
      cpu::conv_kernels.max_pool2d_backward({}, f32, s, y.data(), indices.data(), x.data());
    else
      cpu::conv_kernels.max_pool2d_forward({}, f32, s, x.data(), y.data(), indices.data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(4 * x.size() + 12 * y.size()));
}

void shapes(benchmark::internal::Benchmark* bench) {
  bench->Args({64, 1, 28, 32, 3, 1, 1})->Args({64, 32, 28, 64, 3, 1, 1})->Args({64, 32, 14, 64, 3, 1, 1});   // cnn
  bench->Args({64, 1, 8, 16, 3, 1, 1})->Args({64, 16, 8, 32, 3, 1, 1});                                      // digits
  bench->Args({8, 64, 56, 64, 3, 1, 1})->Args({8, 256, 14, 256, 3, 1, 1})->Args({8, 64, 56, 128, 3, 2, 1});  // resnet
  bench->Args({8, 256, 56, 64, 1, 1, 0})->Args({8, 3, 224, 64, 7, 2, 3});
  bench->Unit(benchmark::kMicrosecond)->UseRealTime();
}

BENCHMARK(conv2d_forward)->Apply(shapes);
BENCHMARK(conv2d_backward_input)->Apply(shapes);
BENCHMARK(conv2d_backward_weight)->Apply(shapes);
BENCHMARK_CAPTURE(max_pool2d, forward, false)->Args({4096, 28})->Unit(benchmark::kMicrosecond)->UseRealTime();
BENCHMARK_CAPTURE(max_pool2d, backward, true)->Args({4096, 28})->Unit(benchmark::kMicrosecond)->UseRealTime();

}  // namespace
}  // namespace weft
