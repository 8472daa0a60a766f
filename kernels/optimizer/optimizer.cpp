#include "kernels/optimizer/optimizer.h"

#include <cmath>
#include <cstring>

#include "kernels/optimizer/multi_tensor.h"
#include "kernels/optimizer/pieces.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizer/optimizer.cpp"
#include "kernels/base/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/optimizer/rules-inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::HWY_NAMESPACE {

// n elements of one slice; g and the states that are absent are null.
template <class Rule, class T>
void run_rule(const Rule& rule, typename Rule::Each each, T* p, const T* g, T* const* states, int64_t n) {
  const typename Lanes<T>::D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const Present has = {{states[0] != nullptr, states[1] != nullptr, states[2] != nullptr}};
  T* const state0 = states[0];
  T* const state1 = states[1];
  T* const state2 = states[2];
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    Lanes<T> param(hn::LoadU(d, p + i));
    Lanes<T> state[3] = {0, 0, 0};
    if (Rule::states > 0 && state0) state[0] = hn::LoadU(d, state0 + i);
    if (Rule::states > 1 && state1) state[1] = hn::LoadU(d, state1 + i);
    if (Rule::states > 2 && state2) state[2] = hn::LoadU(d, state2 + i);
    rule(each, has, param, g ? Lanes<T>(hn::LoadU(d, g + i)) : Lanes<T>(0), state);
    if (Rule::states > 0 && state0) hn::StoreU(state[0].v, d, state0 + i);
    if (Rule::states > 1 && state1) hn::StoreU(state[1].v, d, state1 + i);
    if (Rule::states > 2 && state2) hn::StoreU(state[2].v, d, state2 + i);
    hn::StoreU(param.v, d, p + i);
  }
  if (i == n) return;
  // The rest, in vectors padded with zeros.
  const size_t bytes = static_cast<size_t>(n - i) * sizeof(T);
  HWY_ALIGN T buffer[HWY_MAX_BYTES / sizeof(T)];
  const auto load = [&](const T* from) HWY_ATTR {
    hn::Store(hn::Zero(d), d, buffer);
    if (from) std::memcpy(buffer, from + i, bytes);
    return Lanes<T>(hn::Load(d, buffer));
  };
  const auto store = [&](Lanes<T> value, T* to) HWY_ATTR {
    hn::Store(value.v, d, buffer);
    if (to) std::memcpy(to + i, buffer, bytes);
  };
  Lanes<T> param = load(p);
  Lanes<T> state[3] = {load(states[0]), load(states[1]), load(states[2])};
  rule(each, has, param, load(g), state);
  for (int k = 0; k < Rule::states; ++k) store(state[k], states[k]);
  store(param, p);
}

template <class Options, class T>
void step_typed(const Options& options, const OptimizerSlice& s, int64_t at, int64_t n) {
  using C = cpu::ComputeOf<T>;
  using Rule = typename FunctorOf<Options, C>::type;
  const Rule rule(options);
  const auto each = Rule::each(options, s);
  C* states[3] = {};
  for (int k = 0; k < Rule::states; ++k) states[k] = s.state[k] ? static_cast<C*>(s.state[k]) + at : nullptr;
  T* p = static_cast<T*>(s.param) + at;
  const T* g = s.grad ? static_cast<const T*>(s.grad) + at : nullptr;
  if constexpr (std::is_same_v<T, C>) {
    run_rule(rule, each, p, g, states, n);
  } else {
    float param[cpu::kHalfBlock], grad[cpu::kHalfBlock];
    for (int64_t i = 0; i < n; i += cpu::kHalfBlock) {
      const int64_t m = std::min(cpu::kHalfBlock, n - i);
      cpu::widen(p + i, param, m);
      if (g) cpu::widen(g + i, grad, m);
      run_rule(rule, each, param, g ? grad : nullptr, states, m);
      cpu::narrow(param, p + i, m);
      for (C*& state : states)
        if (state) state += m;
    }
  }
}

// The elements [at, at + n) of a slice.
void step_piece(DType dtype, const OptimizerRule& rule, const OptimizerSlice& s, int64_t at, int64_t n) {
  std::visit(
      [&](const auto& options) {
        cpu::visit_parameter(dtype, "optimizer", [&](auto type) {
          step_typed<std::decay_t<decltype(options)>, typename decltype(type)::type>(options, s, at, n);
        });
      },
      rule);
}

}  // namespace weft::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft {

double nadam_momentum(const NadamOptions& options, int64_t step) {
  return options.beta1 * (1 - 0.5 * std::pow(0.96, static_cast<double>(step) * options.momentum_decay));
}

WEFT_EXPORT(step_piece);

namespace cpu {
namespace {

void step(Stream, DType dtype, const OptimizerRule& rule, const OptimizerSlice* slices, int64_t count) {
  visit_parameter(dtype, "optimizer", [](auto) {});
  for_pieces(slices, count, [&](int64_t, const OptimizerSlice& s, int64_t at, int64_t n) {
    WEFT_DISPATCH(step_piece)(dtype, rule, s, at, n);
  });
}

}  // namespace

constinit const OptimizerKernels optimizer_kernels{step, power_sum, squares, scale, unscale};

}  // namespace cpu
}  // namespace weft
#endif  // HWY_ONCE
