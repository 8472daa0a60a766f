#include "optim/adam.h"

namespace weft::optim {

template <class Options_, bool decoupled>
void AdamTraits<Options_, decoupled>::check(const Options& o) {
  WEFT_CHECK(
      o.lr >= 0 && o.eps >= 0 && o.weight_decay >= 0 && o.beta1 >= 0 && o.beta1 < 1 && o.beta2 >= 0 && o.beta2 < 1,
      "adam",
      "expected lr, eps, weight_decay >= 0 and betas in [0, 1); got lr {}, eps {}, weight_decay {}, betas {} {}", o.lr,
      o.eps, o.weight_decay, o.beta1, o.beta2);
}

template <class Options_, bool decoupled>
OptimizerRule AdamTraits<Options_, decoupled>::rule(const Options& o) {
  return weft::AdamOptions{.lr = o.lr,
                           .beta1 = o.beta1,
                           .beta2 = o.beta2,
                           .eps = o.eps,
                           .weight_decay = o.weight_decay,
                           .decoupled = decoupled,
                           .maximize = o.maximize};
}

template <class Options_, bool decoupled>
void AdamTraits<Options_, decoupled>::prepare(const Options& o, const Tensor& parameter, State& state,
                                              OptimizerSlice& slice) {
  ensure_state(state.exp_avg, parameter);
  ensure_state(state.exp_avg_sq, parameter);
  if (o.amsgrad) ensure_state(state.max_exp_avg_sq, parameter);
  slice.step = ++state.step;
  slice.state[0] = state.exp_avg.data();
  slice.state[1] = state.exp_avg_sq.data();
  slice.state[2] = o.amsgrad ? state.max_exp_avg_sq.data() : nullptr;
}

template struct AdamTraits<AdamOptions, false>;
template struct AdamTraits<AdamWOptions, true>;
template class FusedOptimizer<AdamTraits<AdamOptions, false>>;
template class FusedOptimizer<AdamTraits<AdamWOptions, true>>;

}  // namespace weft::optim
