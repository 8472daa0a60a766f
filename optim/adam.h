// Adam (Kingma & Ba 2015, arXiv:1412.6980), AdamW (Loshchilov & Hutter 2019, arXiv:1711.05101) and their AMSGrad
// variants, in PyTorch's form. One fused launch updates all parameters of a group.
#pragma once
#include <tuple>

#include "kernels/optimizer/optimizer.h"
#include "optim/grouped.h"

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
    return std::make_tuple(std::make_pair("lr", &AdamOptions::lr), std::make_pair("beta1", &AdamOptions::beta1),
                           std::make_pair("beta2", &AdamOptions::beta2), std::make_pair("eps", &AdamOptions::eps),
                           std::make_pair("weight_decay", &AdamOptions::weight_decay),
                           std::make_pair("amsgrad", &AdamOptions::amsgrad),
                           std::make_pair("maximize", &AdamOptions::maximize));
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
    return std::make_tuple(std::make_pair("lr", &AdamWOptions::lr), std::make_pair("beta1", &AdamWOptions::beta1),
                           std::make_pair("beta2", &AdamWOptions::beta2), std::make_pair("eps", &AdamWOptions::eps),
                           std::make_pair("weight_decay", &AdamWOptions::weight_decay),
                           std::make_pair("amsgrad", &AdamWOptions::amsgrad),
                           std::make_pair("maximize", &AdamWOptions::maximize));
  }
};

template <class Options_, bool decoupled>
class AdamFamily : public GroupedOptimizer<Options_, AdamState> {
  using Base = GroupedOptimizer<Options_, AdamState>;

 public:
  using Options = Options_;
  using Group = typename Base::Group;
  AdamFamily(NamedParameters parameters, Options options = {})
      : AdamFamily(std::vector<Group>{{std::move(parameters), options}}) {}
  AdamFamily(const std::vector<Tensor>& parameters, Options options = {})
      : AdamFamily(with_positions(parameters), options) {}
  explicit AdamFamily(std::vector<Group> groups);
  void step() override;

 private:
  LaunchLists<AdamSlice> slices_;  // kept from step to step
};

using Adam = AdamFamily<AdamOptions, false>;
using AdamW = AdamFamily<AdamWOptions, true>;
extern template class AdamFamily<AdamOptions, false>;
extern template class AdamFamily<AdamWOptions, true>;

}  // namespace weft::optim
