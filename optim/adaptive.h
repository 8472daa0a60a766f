// Learning rates that adapt to each element by its past gradients, in PyTorch's forms: Adagrad (Duchi et al. 2011),
// RMSprop (Tieleman & Hinton 2012; centered: Graves 2013, arXiv:1308.0850) and Adadelta (Zeiler 2012, arXiv:1212.5701).
#pragma once
#include <tuple>

#include "optim/fused.h"

namespace weft::optim {

// p -= lr / (1 + (t - 1) lr_decay) · g / (sqrt(sum of g²) + eps).
struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;
  double weight_decay = 0;
  double initial_accumulator_value = 0;
  double eps = 1e-10;
  bool maximize = false;
  static constexpr auto fields() {
    using O = AdagradOptions;
    return std::make_tuple(std::make_pair("lr", &O::lr), std::make_pair("lr_decay", &O::lr_decay),
                           std::make_pair("weight_decay", &O::weight_decay),
                           std::make_pair("initial_accumulator_value", &O::initial_accumulator_value),
                           std::make_pair("eps", &O::eps), std::make_pair("maximize", &O::maximize));
  }
};
struct AdagradState {
  int64_t step = 0;
  Tensor sum;
  template <class F>
  void visit(F&& f) {
    f("step", step);
    f("sum", sum);
  }
};
struct AdagradTraits {
  using Options = AdagradOptions;
  using State = AdagradState;
  static void check(const Options& o);
  static OptimizerRule rule(const Options& o);
  static void prepare(const Options& o, const Tensor& parameter, State& state, OptimizerSlice& slice);
};
using Adagrad = FusedOptimizer<AdagradTraits>;

// p -= lr · g / (sqrt(v) + eps), v the average of g² (centered: less the square of the average of g), with momentum.
struct RMSpropOptions {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;
  bool maximize = false;
  static constexpr auto fields() {
    using O = RMSpropOptions;
    return std::make_tuple(std::make_pair("lr", &O::lr), std::make_pair("alpha", &O::alpha),
                           std::make_pair("eps", &O::eps), std::make_pair("weight_decay", &O::weight_decay),
                           std::make_pair("momentum", &O::momentum), std::make_pair("centered", &O::centered),
                           std::make_pair("maximize", &O::maximize));
  }
};
struct RMSpropState {
  int64_t step = 0;
  Tensor square_avg, grad_avg, momentum_buffer;
  template <class F>
  void visit(F&& f) {
    f("step", step);
    f("square_avg", square_avg);
    f("grad_avg", grad_avg);
    f("momentum_buffer", momentum_buffer);
  }
};
struct RMSpropTraits {
  using Options = RMSpropOptions;
  using State = RMSpropState;
  static void check(const Options& o);
  static OptimizerRule rule(const Options& o);
  static void prepare(const Options& o, const Tensor& parameter, State& state, OptimizerSlice& slice);
};
using RMSprop = FusedOptimizer<RMSpropTraits>;

// p -= lr · d, d = g · sqrt(average of d² + eps) / sqrt(average of g² + eps).
struct AdadeltaOptions {
  double lr = 1;
  double rho = 0.9;
  double eps = 1e-6;
  double weight_decay = 0;
  bool maximize = false;
  static constexpr auto fields() {
    using O = AdadeltaOptions;
    return std::make_tuple(std::make_pair("lr", &O::lr), std::make_pair("rho", &O::rho), std::make_pair("eps", &O::eps),
                           std::make_pair("weight_decay", &O::weight_decay), std::make_pair("maximize", &O::maximize));
  }
};
struct AdadeltaState {
  int64_t step = 0;
  Tensor square_avg, acc_delta;
  template <class F>
  void visit(F&& f) {
    f("step", step);
    f("square_avg", square_avg);
    f("acc_delta", acc_delta);
  }
};
struct AdadeltaTraits {
  using Options = AdadeltaOptions;
  using State = AdadeltaState;
  static void check(const Options& o);
  static OptimizerRule rule(const Options& o);
  static void prepare(const Options& o, const Tensor& parameter, State& state, OptimizerSlice& slice);
};
using Adadelta = FusedOptimizer<AdadeltaTraits>;

extern template class FusedOptimizer<AdagradTraits>;
extern template class FusedOptimizer<RMSpropTraits>;
extern template class FusedOptimizer<AdadeltaTraits>;

}  // namespace weft::optim
