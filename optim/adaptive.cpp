#include "optim/adaptive.h"

namespace weft::optim {

void AdagradTraits::check(const Options& o) {
  WEFT_CHECK(o.lr >= 0 && o.lr_decay >= 0 && o.weight_decay >= 0 && o.initial_accumulator_value >= 0 && o.eps >= 0,
             "adagrad",
             "expected lr, lr_decay, weight_decay, initial_accumulator_value and eps >= 0; got {}, {}, {}, {}, {}",
             o.lr, o.lr_decay, o.weight_decay, o.initial_accumulator_value, o.eps);
}

OptimizerRule AdagradTraits::rule(const Options& o) {
  return weft::AdagradOptions{
      .lr = o.lr, .lr_decay = o.lr_decay, .eps = o.eps, .weight_decay = o.weight_decay, .maximize = o.maximize};
}

void AdagradTraits::prepare(const Options& o, const Tensor& parameter, State& state, OptimizerSlice& slice) {
  ensure_state(state.sum, parameter, o.initial_accumulator_value);
  slice.step = ++state.step;
  slice.state[0] = state.sum.data();
}

void RMSpropTraits::check(const Options& o) {
  WEFT_CHECK(o.lr >= 0 && o.eps >= 0 && o.momentum >= 0 && o.weight_decay >= 0 && o.alpha >= 0, "rmsprop",
             "expected lr, eps, momentum, weight_decay and alpha >= 0; got {}, {}, {}, {}, {}", o.lr, o.eps, o.momentum,
             o.weight_decay, o.alpha);
}

OptimizerRule RMSpropTraits::rule(const Options& o) {
  return RmspropOptions{.lr = o.lr,
                        .alpha = o.alpha,
                        .eps = o.eps,
                        .weight_decay = o.weight_decay,
                        .momentum = o.momentum,
                        .maximize = o.maximize};
}

void RMSpropTraits::prepare(const Options& o, const Tensor& parameter, State& state, OptimizerSlice& slice) {
  ensure_state(state.square_avg, parameter);
  if (o.centered) ensure_state(state.grad_avg, parameter);
  if (o.momentum > 0) ensure_state(state.momentum_buffer, parameter);
  slice.step = ++state.step;
  slice.state[0] = state.square_avg.data();
  slice.state[1] = o.centered ? state.grad_avg.data() : nullptr;
  slice.state[2] = o.momentum > 0 ? state.momentum_buffer.data() : nullptr;
}

void AdadeltaTraits::check(const Options& o) {
  WEFT_CHECK(o.lr >= 0 && o.eps >= 0 && o.weight_decay >= 0 && o.rho >= 0 && o.rho <= 1, "adadelta",
             "expected lr, eps and weight_decay >= 0 and rho in [0, 1]; got {}, {}, {}, {}", o.lr, o.eps,
             o.weight_decay, o.rho);
}

OptimizerRule AdadeltaTraits::rule(const Options& o) {
  return weft::AdadeltaOptions{
      .lr = o.lr, .rho = o.rho, .eps = o.eps, .weight_decay = o.weight_decay, .maximize = o.maximize};
}

void AdadeltaTraits::prepare(const Options&, const Tensor& parameter, State& state, OptimizerSlice& slice) {
  ensure_state(state.square_avg, parameter);
  ensure_state(state.acc_delta, parameter);
  slice.step = ++state.step;
  slice.state[0] = state.square_avg.data();
  slice.state[1] = state.acc_delta.data();
}

template class FusedOptimizer<AdagradTraits>;
template class FusedOptimizer<RMSpropTraits>;
template class FusedOptimizer<AdadeltaTraits>;

}  // namespace weft::optim
