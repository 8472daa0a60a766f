// Stochastic gradient descent with momentum (Sutskever et al. 2013), in PyTorch's form: with velocity b,
// b = momentum · b + (1 - dampening) · g and p -= lr · b (Nesterov: lr · (g + momentum · b)).
#pragma once
#include <tuple>

#include "kernels/optimizer/optimizer.h"
#include "optim/grouped.h"

namespace weft::optim {

struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool maximize = false;
  static constexpr auto fields() {
    return std::make_tuple(
        std::make_pair("lr", &SgdOptions::lr), std::make_pair("momentum", &SgdOptions::momentum),
        std::make_pair("dampening", &SgdOptions::dampening), std::make_pair("weight_decay", &SgdOptions::weight_decay),
        std::make_pair("nesterov", &SgdOptions::nesterov), std::make_pair("maximize", &SgdOptions::maximize));
  }
};

struct SgdState {
  Tensor momentum_buffer;
  template <class F>
  void visit(F&& f) {
    f("momentum_buffer", momentum_buffer);
  }
};

class SGD : public GroupedOptimizer<SgdOptions, SgdState> {
 public:
  SGD(NamedParameters parameters, SgdOptions options = {})
      : SGD(std::vector<Group>{{std::move(parameters), options}}) {}
  SGD(const std::vector<Tensor>& parameters, SgdOptions options = {}) : SGD(with_positions(parameters), options) {}
  explicit SGD(std::vector<Group> groups);
  void step() override;

 private:
  LaunchLists<SgdSlice> slices_;
};

}  // namespace weft::optim
