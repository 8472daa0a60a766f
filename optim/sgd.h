// Stochastic gradient descent with momentum (Sutskever et al. 2013), in PyTorch's form: with velocity b,
// b = momentum · b + (1 - dampening) · g and p -= lr · b (Nesterov: lr · (g + momentum · b)).
#pragma once
#include <tuple>

#include "optim/fused.h"

namespace weft::optim {

struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool maximize = false;
  static constexpr auto fields() {
    using O = SgdOptions;
    return std::make_tuple(std::make_pair("lr", &O::lr), std::make_pair("momentum", &O::momentum),
                           std::make_pair("dampening", &O::dampening), std::make_pair("weight_decay", &O::weight_decay),
                           std::make_pair("nesterov", &O::nesterov), std::make_pair("maximize", &O::maximize));
  }
};

struct SgdState {
  Tensor momentum_buffer;
  template <class F>
  void visit(F&& f) {
    f("momentum_buffer", momentum_buffer);
  }
};

struct SgdTraits {
  using Options = SgdOptions;
  using State = SgdState;
  static void check(const Options& o);
  static OptimizerRule rule(const Options& o);
  static void prepare(const Options& o, const Tensor& parameter, State& state, OptimizerSlice& slice);
};

using SGD = FusedOptimizer<SgdTraits>;
extern template class FusedOptimizer<SgdTraits>;

}  // namespace weft::optim
