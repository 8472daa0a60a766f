// Adam (Kingma & Ba 2015, arXiv:1412.6980), AdamW (Loshchilov & Hutter 2019, arXiv:1711.05101) and their AMSGrad
// variants, in PyTorch's form.
#pragma once
#include <tuple>

#include "optim/fused.h"

namespace weft::optim {

struct AdamState {
  int64_t step = 0;
  Tensor exp_avg, exp_avg_sq, max_exp_avg_sq;
  template <class F>
  void visit(F&& f) {
    f("step", step);
    f("exp_avg", exp_avg);
    f("exp_avg_sq", exp_avg_sq);
    f("max_exp_avg_sq", max_exp_avg_sq);
  }
};

// L2 regularisation: weight_decay · parameter is added to the gradient.
struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;
  bool maximize = false;
  static constexpr auto fields() {
    using O = AdamOptions;
    return std::make_tuple(std::make_pair("lr", &O::lr), std::make_pair("beta1", &O::beta1),
                           std::make_pair("beta2", &O::beta2), std::make_pair("eps", &O::eps),
                           std::make_pair("weight_decay", &O::weight_decay), std::make_pair("amsgrad", &O::amsgrad),
                           std::make_pair("maximize", &O::maximize));
  }
};
// Decoupled: the parameter first shrinks by lr · weight_decay.
struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-2;
  bool amsgrad = false;
  bool maximize = false;
  static constexpr auto fields() {
    using O = AdamWOptions;
    return std::make_tuple(std::make_pair("lr", &O::lr), std::make_pair("beta1", &O::beta1),
                           std::make_pair("beta2", &O::beta2), std::make_pair("eps", &O::eps),
                           std::make_pair("weight_decay", &O::weight_decay), std::make_pair("amsgrad", &O::amsgrad),
                           std::make_pair("maximize", &O::maximize));
  }
};

template <class Options_, bool decoupled>
struct AdamTraits {
  using Options = Options_;
  using State = AdamState;
  static void check(const Options& o);
  static OptimizerRule rule(const Options& o);
  static void prepare(const Options& o, const Tensor& parameter, State& state, OptimizerSlice& slice);
};

using Adam = FusedOptimizer<AdamTraits<AdamOptions, false>>;
using AdamW = FusedOptimizer<AdamTraits<AdamWOptions, true>>;
extern template struct AdamTraits<AdamOptions, false>;
extern template struct AdamTraits<AdamWOptions, true>;
extern template class FusedOptimizer<AdamTraits<AdamOptions, false>>;
extern template class FusedOptimizer<AdamTraits<AdamWOptions, true>>;

}  // namespace weft::optim
