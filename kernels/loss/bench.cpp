// Cross entropy: rows, classes. Bytes count the logits, and the gradient where there is one, once.
#include <benchmark/benchmark.h>

#include <vector>

#include "kernels/loss/loss.h"

namespace weft {
namespace {

struct Buffers {
  int64_t rows;
  CrossEntropyOptions options;
  std::vector<float> logits, dlogits, loss, row_max, log_sum, row_weight;
  std::vector<int64_t> targets;
  explicit Buffers(const benchmark::State& state) : rows(state.range(0)) {
    options.classes = state.range(1);
    logits.resize(static_cast<size_t>(rows * options.classes));
    dlogits.resize(logits.size());
    for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i * 7919 % 1000) / 100;
    for (auto* v : {&loss, &row_max, &log_sum, &row_weight}) v->resize(static_cast<size_t>(rows));
    for (int64_t i = 0; i < rows; ++i) targets.push_back(i * 104729 % options.classes);
  }
  void forward() {
    cpu::loss_kernels.cross_entropy_forward({}, f32, options, logits.data(), targets.data(), rows, loss.data(),
                                            row_max.data(), log_sum.data(), row_weight.data());
  }
};

void cross_entropy_forward(benchmark::State& state) {
  Buffers b(state);
  for (auto _ : state) b.forward();
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(b.logits.size()) * 4);
}

void cross_entropy_backward(benchmark::State& state) {
  Buffers b(state);
  b.forward();
  const float scale = 1.0f / static_cast<float>(b.rows);
  for (auto _ : state)
    cpu::loss_kernels.cross_entropy_backward({}, f32, b.options, b.logits.data(), b.targets.data(), b.rows,
                                             b.row_max.data(), b.log_sum.data(), &scale, 0, b.dlogits.data());
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(b.logits.size()) * 8);
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->Args({2048, 100})->Args({256, 50257})->Unit(benchmark::kMicrosecond)->UseRealTime();
}
BENCHMARK(cross_entropy_forward)->Apply(sizes);
BENCHMARK(cross_entropy_backward)->Apply(sizes);

}  // namespace
}  // namespace weft
