#include "optim/adam_variants.h"

namespace weft::optim {

void AdamaxTraits::check(const Options& o) {
  WEFT_CHECK(
      o.lr >= 0 && o.eps >= 0 && o.weight_decay >= 0 && o.beta1 >= 0 && o.beta1 < 1 && o.beta2 >= 0 && o.beta2 < 1,
      "adamax",
      "expected lr, eps, weight_decay >= 0 and betas in [0, 1); got lr {}, eps {}, weight_decay {}, betas {} {}", o.lr,
      o.eps, o.weight_decay, o.beta1, o.beta2);
}

OptimizerRule AdamaxTraits::rule(const Options& o) {
  return weft::AdamaxOptions{.lr = o.lr,
                             .beta1 = o.beta1,
                             .beta2 = o.beta2,
                             .eps = o.eps,
                             .weight_decay = o.weight_decay,
                             .maximize = o.maximize};
}

void AdamaxTraits::prepare(const Options&, const Tensor& parameter, State& state, OptimizerSlice& slice) {
  ensure_state(state.exp_avg, parameter);
  ensure_state(state.exp_inf, parameter);
  slice.step = ++state.step;
  slice.state[0] = state.exp_avg.data();
  slice.state[1] = state.exp_inf.data();
}

namespace {

NadamOptions kernel_options(const NAdamOptions& o) {
  return {.lr = o.lr,
          .beta1 = o.beta1,
          .beta2 = o.beta2,
          .eps = o.eps,
          .weight_decay = o.weight_decay,
          .momentum_decay = o.momentum_decay,
          .decoupled = o.decoupled_weight_decay,
          .maximize = o.maximize};
}

}  // namespace

void NAdamTraits::check(const Options& o) {
  WEFT_CHECK(o.lr >= 0 && o.eps >= 0 && o.weight_decay >= 0 && o.beta1 >= 0 && o.beta1 < 1 && o.beta2 >= 0 &&
                 o.beta2 < 1 && o.momentum_decay >= 0,
             "nadam",
             "expected lr, eps, weight_decay, momentum_decay >= 0 and betas in [0, 1); got lr {}, eps {}, weight_decay "
             "{}, betas {} {}",
             o.lr, o.eps, o.weight_decay, o.beta1, o.beta2);
}

OptimizerRule NAdamTraits::rule(const Options& o) { return kernel_options(o); }

void NAdamTraits::prepare(const Options& o, const Tensor& parameter, State& state, OptimizerSlice& slice) {
  ensure_state(state.exp_avg, parameter);
  ensure_state(state.exp_avg_sq, parameter);
  slice.step = ++state.step;
  slice.state[0] = state.exp_avg.data();
  slice.state[1] = state.exp_avg_sq.data();
  state.mu_product *= nadam_momentum(kernel_options(o), state.step);
  slice.product = state.mu_product;
}

void RAdamTraits::check(const Options& o) {
  WEFT_CHECK(
      o.lr >= 0 && o.eps >= 0 && o.weight_decay >= 0 && o.beta1 >= 0 && o.beta1 < 1 && o.beta2 >= 0 && o.beta2 < 1,
      "radam",
      "expected lr, eps, weight_decay >= 0 and betas in [0, 1); got lr {}, eps {}, weight_decay {}, betas {} {}", o.lr,
      o.eps, o.weight_decay, o.beta1, o.beta2);
}

OptimizerRule RAdamTraits::rule(const Options& o) {
  return RadamOptions{.lr = o.lr,
                      .beta1 = o.beta1,
                      .beta2 = o.beta2,
                      .eps = o.eps,
                      .weight_decay = o.weight_decay,
                      .decoupled = o.decoupled_weight_decay,
                      .maximize = o.maximize};
}

void RAdamTraits::prepare(const Options&, const Tensor& parameter, State& state, OptimizerSlice& slice) {
  ensure_state(state.exp_avg, parameter);
  ensure_state(state.exp_avg_sq, parameter);
  slice.step = ++state.step;
  slice.state[0] = state.exp_avg.data();
  slice.state[1] = state.exp_avg_sq.data();
}

template class FusedOptimizer<AdamaxTraits>;
template class FusedOptimizer<NAdamTraits>;
template class FusedOptimizer<RAdamTraits>;

}  // namespace weft::optim
