// Device kernels of the optimizers' steps: one launch over all slices (slice_table.h), a kernel a rule. The arithmetic is
// the CPU's, written once in rules-inl.h.
#include "kernels/optimizer/optimizer.h"

#include <algorithm>
#include <vector>

#include "kernels/device_table.h"
#include "kernels/optimizer/multi_tensor_device.h"
#include "kernels/optimizer/rules-inl.h"
#include "kernels/optimizer/slice_kernel.h"

namespace weft::WEFT_DEVICE {
namespace {

template <class T, class Rule>
struct StepEntry {
  static constexpr int states = std::max(1, Rule::states);
  T* param;
  const T* grad;
  ComputeType<T>* state[states];
  int64_t size;
  typename Rule::Each each;
  int64_t aligned;
};

template <class T, class Rule>
__global__ void __launch_bounds__(kSliceThreads) step_kernel(SliceTableView<StepEntry<T, Rule>> table, Rule rule) {
  using C = ComputeType<T>;
  using V = functors::Plain<C>;
  constexpr int states = StepEntry<T, Rule>::states;
  const SliceTile<StepEntry<T, Rule>> tile = table.tile(blockIdx.x);
  const StepEntry<T, Rule>& s = tile.entry;
  functors::Present has{};
  for (int k = 0; k < states; ++k) has.state[k] = s.state[k] != nullptr;
  for_tile<T>(tile.begin, tile.end, s.aligned != 0, [&](auto width, int64_t i) {
    constexpr int n = decltype(width)::value;
    C param[n]{}, grad[n]{}, state[states][n]{};
    read(s.param, i, param);
    read(s.grad, i, grad);
    WEFT_UNROLL
    for (int k = 0; k < states; ++k) read(s.state[k], i, state[k]);
    WEFT_UNROLL
    for (int e = 0; e < n; ++e) {
      V p(param[e]), values[states];
      WEFT_UNROLL
      for (int k = 0; k < states; ++k) values[k] = V(state[k][e]);
      rule(s.each, has, p, V(grad[e]), values);
      param[e] = p.v;
      WEFT_UNROLL
      for (int k = 0; k < states; ++k) state[k][e] = values[k].v;
    }
    WEFT_UNROLL
    for (int k = 0; k < states; ++k) write(s.state[k], i, state[k]);
    write(s.param, i, param);
  });
}

template <class T, class Options>
void step_typed(Stream stream, const Options& options, const OptimizerSlice* slices, int64_t count) {
  using C = ComputeType<T>;
  using Rule = typename functors::FunctorOf<Options, C>::type;
  using Entry = StepEntry<T, Rule>;
  std::vector<Entry> entries(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const OptimizerSlice& s = slices[i];
    Entry& entry = entries[static_cast<size_t>(i)];
    entry.param = static_cast<T*>(s.param);
    entry.grad = static_cast<const T*>(s.grad);
    for (int k = 0; k < Entry::states; ++k) entry.state[k] = k < Rule::states ? static_cast<C*>(s.state[k]) : nullptr;
    entry.size = s.size;
    entry.each = Rule::each(options, s);
    entry.aligned = all_aligned(s.param, s.grad);
    for (C* state : entry.state)
      if (!all_aligned(state)) entry.aligned = 0;
  }
  const SliceTable<Entry> table(stream, entries.data(), count);
  if (table.tiles() == 0) return;
  launch(step_kernel<T, Rule>, table.grid(), dim3(kSliceThreads), 0, stream, table.device(), Rule(options));
}

void step(Stream stream, DType dtype, const OptimizerRule& rule, const OptimizerSlice* slices, int64_t count) {
  visit_device_floating(dtype, "optimizer", [&](auto type) {
    using T = typename decltype(type)::type;
    std::visit([&](const auto& options) { step_typed<T>(stream, options, slices, count); }, rule);
  });
}

}  // namespace

extern constinit const OptimizerKernels optimizer_kernels = {
    .step = step,
    .power_sum = power_sum,
    .squares = squares,
    .scale = scale,
    .unscale = unscale,
};

}  // namespace weft::WEFT_DEVICE
