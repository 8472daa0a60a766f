// Optimizers of Adam's family, in PyTorch's forms: Adamax (Kingma & Ba 2015, arXiv:1412.6980, section 7.1), NAdam
// (Dozat 2016, "Incorporating Nesterov momentum into Adam") and RAdam (Liu et al. 2020, arXiv:1908.03265).
#pragma once
#include <tuple>

#include "optim/fused.h"

namespace weft::optim {

// Adam with an infinity norm in place of the root of squares.
struct AdamaxOptions {
  double lr = 2e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool maximize = false;
  static constexpr auto fields() {
    using O = AdamaxOptions;
    return std::make_tuple(std::make_pair("lr", &O::lr), std::make_pair("beta1", &O::beta1),
                           std::make_pair("beta2", &O::beta2), std::make_pair("eps", &O::eps),
                           std::make_pair("weight_decay", &O::weight_decay), std::make_pair("maximize", &O::maximize));
  }
};
struct AdamaxState {
  int64_t step = 0;
  Tensor exp_avg, exp_inf;
  template <class F>
  void visit(F&& f) {
    f("step", step);
    f("exp_avg", exp_avg);
    f("exp_inf", exp_inf);
  }
};
struct AdamaxTraits {
  using Options = AdamaxOptions;
  using State = AdamaxState;
  static void check(const Options& o);
  static OptimizerRule rule(const Options& o);
  static void prepare(const Options& o, const Tensor& parameter, State& state, OptimizerSlice& slice);
};
using Adamax = FusedOptimizer<AdamaxTraits>;

// Adam with Nesterov momentum, which rises along mu_t = beta1 (1 - 0.96^(t · momentum_decay) / 2).
struct NAdamOptions {
  double lr = 2e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum_decay = 4e-3;
  bool decoupled_weight_decay = false;
  bool maximize = false;
  static constexpr auto fields() {
    using O = NAdamOptions;
    return std::make_tuple(
        std::make_pair("lr", &O::lr), std::make_pair("beta1", &O::beta1), std::make_pair("beta2", &O::beta2),
        std::make_pair("eps", &O::eps), std::make_pair("weight_decay", &O::weight_decay),
        std::make_pair("momentum_decay", &O::momentum_decay),
        std::make_pair("decoupled_weight_decay", &O::decoupled_weight_decay), std::make_pair("maximize", &O::maximize));
  }
};
struct NAdamState {
  int64_t step = 0;
  double mu_product = 1;
  Tensor exp_avg, exp_avg_sq;
  template <class F>
  void visit(F&& f) {
    f("step", step);
    f("mu_product", mu_product);
    f("exp_avg", exp_avg);
    f("exp_avg_sq", exp_avg_sq);
  }
};
struct NAdamTraits {
  using Options = NAdamOptions;
  using State = NAdamState;
  static void check(const Options& o);
  static OptimizerRule rule(const Options& o);
  static void prepare(const Options& o, const Tensor& parameter, State& state, OptimizerSlice& slice);
};
using NAdam = FusedOptimizer<NAdamTraits>;

// Adam whose steps are rectified for the variance of the second moment; momentum alone while that is unknown.
struct RAdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled_weight_decay = false;
  bool maximize = false;
  static constexpr auto fields() {
    using O = RAdamOptions;
    return std::make_tuple(
        std::make_pair("lr", &O::lr), std::make_pair("beta1", &O::beta1), std::make_pair("beta2", &O::beta2),
        std::make_pair("eps", &O::eps), std::make_pair("weight_decay", &O::weight_decay),
        std::make_pair("decoupled_weight_decay", &O::decoupled_weight_decay), std::make_pair("maximize", &O::maximize));
  }
};
struct RAdamState {
  int64_t step = 0;
  Tensor exp_avg, exp_avg_sq;
  template <class F>
  void visit(F&& f) {
    f("step", step);
    f("exp_avg", exp_avg);
    f("exp_avg_sq", exp_avg_sq);
  }
};
struct RAdamTraits {
  using Options = RAdamOptions;
  using State = RAdamState;
  static void check(const Options& o);
  static OptimizerRule rule(const Options& o);
  static void prepare(const Options& o, const Tensor& parameter, State& state, OptimizerSlice& slice);
};
using RAdam = FusedOptimizer<RAdamTraits>;

extern template class FusedOptimizer<AdamaxTraits>;
extern template class FusedOptimizer<NAdamTraits>;
extern template class FusedOptimizer<RAdamTraits>;

}  // namespace weft::optim
