// Lion (Chen et al. 2023, arXiv:2302.06675): p -= lr · sign(beta1 m + (1 - beta1) g), then m = beta2 m + (1 - beta2) g,
// with decoupled weight decay. Learning rates are 3 to 10 times smaller than AdamW's, decays as much larger.
#pragma once
#include <tuple>

#include "optim/fused.h"

namespace weft::optim {

struct LionOptions {
  double lr = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;
  bool maximize = false;
  static constexpr auto fields() {
    using O = LionOptions;
    return std::make_tuple(std::make_pair("lr", &O::lr), std::make_pair("beta1", &O::beta1),
                           std::make_pair("beta2", &O::beta2), std::make_pair("weight_decay", &O::weight_decay),
                           std::make_pair("maximize", &O::maximize));
  }
};

struct LionState {
  Tensor exp_avg;
  template <class F>
  void visit(F&& f) {
    f("exp_avg", exp_avg);
  }
};

struct LionTraits {
  using Options = LionOptions;
  using State = LionState;
  static void check(const Options& o);
  static OptimizerRule rule(const Options& o);
  static void prepare(const Options& o, const Tensor& parameter, State& state, OptimizerSlice& slice);
};

using Lion = FusedOptimizer<LionTraits>;
extern template class FusedOptimizer<LionTraits>;

}  // namespace weft::optim
