// Matrix products of the benchmark models: m, n, k, transpose_a, transpose_b. items_per_second is flop/s.
#include <benchmark/benchmark.h>

#include <vector>

#include "kernels/gemm/gemm.h"

namespace weft {
namespace {

std::vector<float> values(int64_t count) {
  std::vector<float> result(static_cast<size_t>(count));
  for (size_t i = 0; i < result.size(); ++i) result[i] = static_cast<float>(i * 7919 % 1000) / 500 - 1;
  return result;
}

void gemm(benchmark::State& state) {
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const bool transpose_a = state.range(3) != 0, transpose_b = state.range(4) != 0;
  const std::vector<float> a = values(m * k), b = values(k * n);
  std::vector<float> c = values(m * n);
  for (auto _ : state)
    cpu::gemm_kernels.gemm({}, f32, transpose_a, transpose_b, m, n, k, 1, a.data(), transpose_a ? m : k, b.data(),
                           transpose_b ? k : n, 0, c.data(), n);
  state.SetItemsProcessed(state.iterations() * 2 * m * n * k);
}

void gemm_bias(benchmark::State& state) {
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const std::vector<float> a = values(m * k), b = values(k * n), bias = values(n);
  std::vector<float> c = values(m * n);
  for (auto _ : state)
    cpu::gemm_kernels.gemm_bias({}, f32, false, true, m, n, k, 1, a.data(), k, b.data(), k, bias.data(), c.data(), n);
  state.SetItemsProcessed(state.iterations() * 2 * m * n * k);
}

void gemm_batched(benchmark::State& state) {
  const int64_t batch = state.range(0), m = state.range(1), n = state.range(2), k = state.range(3);
  const std::vector<float> a = values(batch * m * k), b = values(batch * k * n);
  std::vector<float> c = values(batch * m * n);
  for (auto _ : state)
    cpu::gemm_kernels.gemm_batched({}, f32, false, true, m, n, k, 1, a.data(), k, m * k, b.data(), k, n * k, 0,
                                   c.data(), n, m * n, batch);
  state.SetItemsProcessed(state.iterations() * 2 * batch * m * n * k);
}

void shapes(benchmark::internal::Benchmark* bench) {
  // char-gpt: forward, gradient of the input, gradient of the weight
  bench->Args({2048, 384, 128, 0, 1})->Args({2048, 128, 128, 0, 1})->Args({2048, 512, 128, 0, 1});
  bench->Args({2048, 128, 512, 0, 1})->Args({2048, 100, 128, 0, 1});
  bench->Args({2048, 128, 384, 0, 0})->Args({2048, 128, 512, 0, 0})->Args({2048, 512, 128, 0, 0});
  bench->Args({384, 128, 2048, 1, 0})->Args({128, 128, 2048, 1, 0})->Args({512, 128, 2048, 1, 0});
  bench->Args({128, 512, 2048, 1, 0})->Args({100, 128, 2048, 1, 0});
  // gpt-10m
  bench->Args({2048, 1536, 384, 0, 1})->Args({2048, 384, 1536, 0, 0})->Args({1536, 384, 2048, 1, 0});
  // gpt2-124m
  bench->Args({256, 3072, 768, 0, 1})->Args({256, 768, 3072, 0, 0})->Args({3072, 768, 256, 1, 0});
  bench->Args({256, 50257, 768, 0, 1})->Args({256, 768, 50257, 0, 0})->Args({50257, 768, 256, 1, 0});
  // cnn's fully connected layer, and squares
  bench->Args({64, 128, 3136, 0, 1})->Args({64, 3136, 128, 0, 0})->Args({128, 3136, 64, 1, 0});
  for (int64_t size : {64, 128, 256, 512, 1024, 2048}) bench->Args({size, size, size, 0, 0});
  bench->Unit(benchmark::kMicrosecond)->UseRealTime();
}

BENCHMARK(gemm)->Apply(shapes);
BENCHMARK(gemm_bias)->Args({2048, 384, 128})->Args({2048, 512, 128})->Unit(benchmark::kMicrosecond)->UseRealTime();
BENCHMARK(gemm_batched)
    ->Args({64, 128, 128, 32})
    ->Args({64, 128, 32, 128})
    ->Args({4096, 16, 16, 16})
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();

}  // namespace
}  // namespace weft
