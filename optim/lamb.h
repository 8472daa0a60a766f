// LAMB (You et al. 2020, arXiv:1904.00962): Adam's direction with decoupled decay, scaled for each parameter by
// |p| / |direction|, for large batches. Three launches a group: directions, norms, updates; nothing waits for the device.
#pragma once
#include <tuple>
#include <utility>
#include <vector>

#include "optim/grouped.h"

namespace weft::optim {

struct LambOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-6;
  double weight_decay = 1e-2;
  bool bias_correction = true;
  bool maximize = false;
  static constexpr auto fields() {
    using O = LambOptions;
    return std::make_tuple(
        std::make_pair("lr", &O::lr), std::make_pair("beta1", &O::beta1), std::make_pair("beta2", &O::beta2),
        std::make_pair("eps", &O::eps), std::make_pair("weight_decay", &O::weight_decay),
        std::make_pair("bias_correction", &O::bias_correction), std::make_pair("maximize", &O::maximize));
  }
};

struct LambState {
  int64_t step = 0;
  Tensor exp_avg, exp_avg_sq;
  template <class F>
  void visit(F&& f) {
    f("step", step);
    f("exp_avg", exp_avg);
    f("exp_avg_sq", exp_avg_sq);
  }
};

class Lamb : public GroupedOptimizer<LambOptions, LambState> {
 public:
  Lamb(NamedParameters parameters, LambOptions options = {})
      : Lamb(std::vector<Group>{{std::move(parameters), std::move(options)}}) {}
  Lamb(const std::vector<Tensor>& parameters, LambOptions options = {})
      : Lamb(with_positions(parameters), std::move(options)) {}
  explicit Lamb(std::vector<Group> groups);
  void step() override;
};

}  // namespace weft::optim
