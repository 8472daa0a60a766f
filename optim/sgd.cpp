#include "optim/sgd.h"

namespace weft::optim {

void SgdTraits::check(const Options& o) {
  WEFT_CHECK(o.lr >= 0 && o.momentum >= 0 && o.weight_decay >= 0, "sgd",
             "expected lr, momentum and weight_decay >= 0; got {}, {}, {}", o.lr, o.momentum, o.weight_decay);
  WEFT_CHECK(!o.nesterov || (o.momentum > 0 && o.dampening == 0), "sgd",
             "nesterov needs a momentum and no dampening; got {} and {}", o.momentum, o.dampening);
}

OptimizerRule SgdTraits::rule(const Options& o) {
  return weft::SgdOptions{.lr = o.lr,
                          .momentum = o.momentum,
                          .dampening = o.dampening,
                          .weight_decay = o.weight_decay,
                          .nesterov = o.nesterov,
                          .maximize = o.maximize};
}

void SgdTraits::prepare(const Options& o, const Tensor& parameter, State& state, OptimizerSlice& slice) {
  if (o.momentum == 0) return;
  slice.step = state.momentum_buffer.defined() ? 2 : 1;  // the rule knows a first step and others
  ensure_state(state.momentum_buffer, parameter);
  slice.state[0] = state.momentum_buffer.data();
}

template class FusedOptimizer<SgdTraits>;

}  // namespace weft::optim
