#include "optim/lion.h"

namespace weft::optim {

void LionTraits::check(const Options& o) {
  WEFT_CHECK(o.lr >= 0 && o.weight_decay >= 0 && o.beta1 >= 0 && o.beta1 < 1 && o.beta2 >= 0 && o.beta2 < 1, "lion",
             "expected lr, weight_decay >= 0 and betas in [0, 1); got lr {}, weight_decay {}, betas {} {}", o.lr,
             o.weight_decay, o.beta1, o.beta2);
}

OptimizerRule LionTraits::rule(const Options& o) {
  return weft::LionOptions{
      .lr = o.lr, .beta1 = o.beta1, .beta2 = o.beta2, .weight_decay = o.weight_decay, .maximize = o.maximize};
}

void LionTraits::prepare(const Options&, const Tensor& parameter, State& state, OptimizerSlice& slice) {
  ensure_state(state.exp_avg, parameter);
  slice.state[0] = state.exp_avg.data();
}

template class FusedOptimizer<LionTraits>;

}  // namespace weft::optim
