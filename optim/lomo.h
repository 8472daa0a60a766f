// LOMO (Lv et al. 2023, arXiv:2306.09782): plain descent fused into backward. Each parameter moves as soon as its
// gradient is complete, which is then let go: no more than the gradients of a moment are ever in memory.
//
//   optim::Lomo lomo(net.named_parameters(), {.lr = 1e-3, .clip_grad_norm = 1.0});
//   lomo.fused_backward(loss);              // in place of loss.backward(); lomo.step(); lomo.zero_grad();
//
// Clipping by the norm of all gradients has to know them before the first update: it runs backward twice, first for the
// norm alone.
#pragma once
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "optim/grouped.h"

namespace weft::optim {

struct LomoOptions {
  double lr = 1e-3;
  double weight_decay = 0;                     // added to the gradient, after clipping
  std::optional<double> clip_grad_norm = {};   // 2-norm of all gradients together
  std::optional<double> clip_grad_value = {};  // bound of each element
  static constexpr auto fields() {
    using O = LomoOptions;
    return std::make_tuple(std::make_pair("lr", &O::lr), std::make_pair("weight_decay", &O::weight_decay),
                           std::make_pair("clip_grad_norm", &O::clip_grad_norm),
                           std::make_pair("clip_grad_value", &O::clip_grad_value));
  }
};

struct LomoState {
  template <class F>
  void visit(F&&) {}
};

class Lomo : public GroupedOptimizer<LomoOptions, LomoState> {
 public:
  Lomo(NamedParameters parameters, LomoOptions options = {})
      : Lomo(std::vector<Group>{{std::move(parameters), std::move(options)}}) {}
  Lomo(const std::vector<Tensor>& parameters, LomoOptions options = {})
      : Lomo(with_positions(parameters), std::move(options)) {}
  explicit Lomo(std::vector<Group> groups);
  // p -= lr · g, clipped, for gradients that are there already; they stay.
  void step() override;
  // Backward of `loss` (one element) that updates the parameters on its way. Gradients of this optimizer's parameters are
  // undefined before and after. Gives the norm of the gradients where clip_grad_norm is set (it is the same in all
  // groups), else nothing. The graph is freed.
  std::optional<double> fused_backward(const Tensor& loss);

 private:
  void update(size_t group, const std::string& name, const Tensor& parameter, const Tensor& gradient, double factor);
  std::optional<double> max_norm_;
};

}  // namespace weft::optim
