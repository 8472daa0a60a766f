// Attention at the sizes of the example models: batch, heads, time, head_dim; causal, read from a packed QKV projection.
// GFLOP counts the products of the visible half.
#include <benchmark/benchmark.h>

#include <cmath>
#include <vector>

#include "kernels/attention/attention.h"

namespace weft {
namespace {

struct Problem {
  AttentionShape shape;
  std::vector<float> qkv, grad_qkv, o, grad_o, logsumexp;
  explicit Problem(const benchmark::State& state) {
    shape.batch = state.range(0);
    shape.heads = shape.kv_heads = state.range(1);
    shape.queries = shape.keys = state.range(2);
    shape.head_dim = shape.value_dim = state.range(3);
    shape.scale = 1 / std::sqrt(static_cast<double>(shape.head_dim));
    shape.causal = true;
    const int64_t elements = shape.batch * shape.heads * shape.queries * shape.head_dim;
    qkv.resize(static_cast<size_t>(3 * elements));
    grad_qkv.resize(qkv.size());
    o.resize(static_cast<size_t>(elements));
    grad_o.resize(o.size());
    logsumexp.resize(static_cast<size_t>(shape.batch * shape.heads * shape.queries));
    for (size_t i = 0; i < qkv.size(); ++i) qkv[i] = static_cast<float>(i * 7919 % 1000) / 500 - 1;
    for (size_t i = 0; i < o.size(); ++i) grad_o[i] = static_cast<float>(i * 104729 % 1000) / 500 - 1;
  }
  // Part 0, 1, 2 of [batch, time, 3, heads, dim].
  template <class Operand, class Storage>
  Operand part(Storage& storage, int64_t index, int64_t parts) const {
    const int64_t width = shape.heads * shape.head_dim;
    return {storage.data() + index * width, shape.queries * parts * width, shape.head_dim, parts * width};
  }
  void forward() {
    cpu::attention_kernels.forward({}, f32, shape, part<AttentionInput>(qkv, 0, 3), part<AttentionInput>(qkv, 1, 3),
                                   part<AttentionInput>(qkv, 2, 3), part<AttentionOutput>(o, 0, 1), logsumexp.data());
  }
  void backward() {
    cpu::attention_kernels.backward({}, f32, shape, part<AttentionInput>(qkv, 0, 3), part<AttentionInput>(qkv, 1, 3),
                                    part<AttentionInput>(qkv, 2, 3), part<AttentionInput>(o, 0, 1), logsumexp.data(),
                                    part<AttentionInput>(grad_o, 0, 1), part<AttentionOutput>(grad_qkv, 0, 3),
                                    part<AttentionOutput>(grad_qkv, 1, 3), part<AttentionOutput>(grad_qkv, 2, 3));
  }
  // Multiply-adds count twice; `products` matrix products of [queries, keys] × head_dim, half of them visible.
  void count(benchmark::State& state, double products) const {
    state.counters["GFLOP/s"] = benchmark::Counter(
        products * static_cast<double>(shape.batch * shape.heads * shape.queries * shape.keys * shape.head_dim) / 1e9,
        benchmark::Counter::kIsIterationInvariantRate);
  }
};

void attention_forward(benchmark::State& state) {
  Problem problem(state);
  for (auto _ : state) problem.forward();
  problem.count(state, 2);
}

void attention_backward(benchmark::State& state) {
  Problem problem(state);
  problem.forward();
  for (auto _ : state) problem.backward();
  problem.count(state, 5);
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->Args({16, 4, 128, 32})->Args({8, 6, 256, 64})->Args({4, 12, 64, 64})->Args({2, 12, 1024, 64});
  bench->Unit(benchmark::kMicrosecond)->UseRealTime();
}
BENCHMARK(attention_forward)->Apply(sizes);
BENCHMARK(attention_backward)->Apply(sizes);

}  // namespace
}  // namespace weft
