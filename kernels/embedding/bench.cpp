// Embedding: positions, vocabulary, width. Bytes count what is read and written for the positions.
#include <benchmark/benchmark.h>

#include <vector>

#include "kernels/embedding/embedding.h"

namespace weft {
namespace {

struct Buffers {
  int64_t count, vocabulary, width;
  std::vector<float> table, rows;
  std::vector<int64_t> indices;
  explicit Buffers(const benchmark::State& state)
      : count(state.range(0)),
        vocabulary(state.range(1)),
        width(state.range(2)),
        table(static_cast<size_t>(vocabulary * width)),
        rows(static_cast<size_t>(count * width), 1.0f) {
    for (int64_t i = 0; i < count; ++i) indices.push_back(i * 104729 % vocabulary);
  }
};

void embedding_forward(benchmark::State& state) {
  Buffers b(state);
  for (auto _ : state)
    cpu::embedding_kernels.forward({}, f32, b.table.data(), b.indices.data(), b.rows.data(), b.count, b.vocabulary,
                                   b.width);
  state.SetBytesProcessed(state.iterations() * b.count * b.width * 8);
}

void embedding_backward(benchmark::State& state) {
  Buffers b(state);
  for (auto _ : state)
    cpu::embedding_kernels.backward({}, f32, b.rows.data(), b.indices.data(), b.table.data(), b.count, b.vocabulary,
                                    b.width, -1);
  state.SetBytesProcessed(state.iterations() * b.count * b.width * 12);
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->Args({2048, 100, 128})->Args({256, 50257, 768})->Unit(benchmark::kMicrosecond)->UseRealTime();
}
BENCHMARK(embedding_forward)->Apply(sizes);
BENCHMARK(embedding_backward)->Apply(sizes);

}  // namespace
}  // namespace weft
