// Reductions of a training step beside what memory allows: bytes read a second.
#include <benchmark/benchmark.h>

#include <vector>

#include "kernels/reduce/reduce.h"

namespace weft {
namespace {

const ReduceKernels& kernels = cpu::reduce_kernels;

ReduceLayout rows_layout(int64_t rows, int64_t columns) {
  ReduceLayout layout;
  layout.reduce(rows, columns);
  layout.keep(columns, 1);
  return layout;
}

ReduceLayout columns_layout(int64_t rows, int64_t columns) {
  ReduceLayout layout;
  layout.keep(rows, columns);
  layout.reduce(columns, 1);
  return layout;
}

// Arguments: rows, columns. Reduces the rows (as a bias gradient does) or, `over_columns`, each row to one value.
template <class F>
void run(benchmark::State& state, bool over_columns, F&& launch) {
  const int64_t rows = state.range(0), columns = state.range(1);
  const std::vector<float> x(static_cast<size_t>(rows * columns), 0.5f);
  std::vector<float> out(static_cast<size_t>(over_columns ? rows : columns));
  const ReduceLayout layout = over_columns ? columns_layout(rows, columns) : rows_layout(rows, columns);
  for (auto _ : state) {
    launch(x.data(), layout, out.data());
    benchmark::DoNotOptimize(out.data());
  }
  state.SetBytesProcessed(state.iterations() * rows * columns * 4);
}

void sum_rows(benchmark::State& state) {
  run(state, false, [](const float* x, const ReduceLayout& layout, float* out) {
    kernels.reduce({}, Reduction::sum, f32, x, layout, out);
  });
}
void sum_columns(benchmark::State& state) {
  run(state, true, [](const float* x, const ReduceLayout& layout, float* out) {
    kernels.reduce({}, Reduction::sum, f32, x, layout, out);
  });
}
void max_columns(benchmark::State& state) {
  run(state, true, [](const float* x, const ReduceLayout& layout, float* out) {
    kernels.reduce({}, Reduction::max, f32, x, layout, out);
  });
}
void argmax_columns(benchmark::State& state) {
  std::vector<int64_t> index(static_cast<size_t>(state.range(0)));
  run(state, true, [&](const float* x, const ReduceLayout& layout, float*) {
    kernels.arg_reduce({}, true, f32, x, layout, nullptr, index.data());
  });
}
void logsumexp_columns(benchmark::State& state) {
  run(state, true,
      [](const float* x, const ReduceLayout& layout, float* out) { kernels.logsumexp({}, f32, x, layout, out); });
}
void norm_columns(benchmark::State& state) {
  run(state, true,
      [](const float* x, const ReduceLayout& layout, float* out) { kernels.norm({}, f32, x, layout, 2, out); });
}

BENCHMARK(sum_rows)->Args({2048, 384})->Args({2048, 1536})->Args({65536, 10})->UseRealTime();
BENCHMARK(sum_columns)->Args({1, 64})->Args({2048, 384})->Args({1, 4194304})->UseRealTime();
BENCHMARK(max_columns)->Args({2048, 384})->UseRealTime();
BENCHMARK(argmax_columns)->Args({64, 50257})->UseRealTime();
BENCHMARK(logsumexp_columns)->Args({256, 50257})->UseRealTime();
BENCHMARK(norm_columns)->Args({1, 4194304})->UseRealTime();

}  // namespace
}  // namespace weft
