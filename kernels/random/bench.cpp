// Dropout's mask over the activations of a transformer layer. Bytes count what is written.
#include <benchmark/benchmark.h>

#include <vector>

#include "kernels/random/random.h"

namespace weft {
namespace {

void keep_mask(benchmark::State& state) {
  std::vector<float> mask(static_cast<size_t>(state.range(0)));
  for (auto _ : state) {
    cpu::random_kernels.keep_mask({}, {.seed = 1, .step = 2, .op = 3}, 0, 0.1, mask.data(), state.range(0));
    benchmark::DoNotOptimize(mask.data());
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) * 4);
}
BENCHMARK(keep_mask)->Name("keep_mask")->Arg(1 << 14)->Arg(1 << 20)->Arg(1 << 24)->UseRealTime();

}  // namespace
}  // namespace weft
