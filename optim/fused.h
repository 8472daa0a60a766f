// FusedOptimizer: optimizers whose step is one launch over all parameters of a group. A class of traits says which:
//
//   struct LionTraits {
//     using Options = LionOptions;
//     using State = LionState;
//     static void check(const Options&);                  // throws for values out of range
//     static OptimizerRule rule(const Options&);          // kernels/optimizer/optimizer.h
//     // Makes the state that is missing, counts the step, and fills in slice.state and slice.step.
//     static void prepare(const Options&, const Tensor& parameter, State&, OptimizerSlice& slice);
//   };
//   using Lion = FusedOptimizer<LionTraits>;
#pragma once
#include <vector>

#include "autograd/grad_mode.h"
#include "optim/grouped.h"
#include "optim/launch_lists.h"

namespace weft::optim {

template <class Traits>
class FusedOptimizer : public GroupedOptimizer<typename Traits::Options, typename Traits::State> {
  using Base = GroupedOptimizer<typename Traits::Options, typename Traits::State>;

 public:
  using Options = typename Traits::Options;
  using Group = typename Base::Group;

  // Parameters with their names, or by position.
  FusedOptimizer(NamedParameters parameters, Options options = {})
      : FusedOptimizer(std::vector<Group>{{std::move(parameters), options}}) {}
  FusedOptimizer(const std::vector<Tensor>& parameters, Options options = {})
      : FusedOptimizer(with_positions(parameters), options) {}
  explicit FusedOptimizer(std::vector<Group> groups) : Base(std::move(groups)) {
    for (size_t g = 0; g < this->group_count(); ++g) Traits::check(this->options(g));
  }

  void step() override {
    NoGrad guard;
    for (size_t g = 0; g < this->group_count(); ++g) {
      const Options& options = this->options(g);
      slices_.clear();
      std::vector<Tensor> gradients;  // alive until the launch
      this->for_each_with_gradient(
          g, [&](const std::string&, const Tensor& parameter, const Tensor& gradient, typename Traits::State& state) {
            OptimizerSlice slice;
            slice.param = parameter.data();
            slice.grad = gradient.data();
            slice.size = parameter.numel();
            Traits::prepare(options, parameter, state, slice);
            slices_.like(parameter).push_back(slice);
            gradients.push_back(gradient);
          });
      launch_rule(slices_, Traits::rule(options));
    }
  }

 private:
  LaunchLists<OptimizerSlice> slices_;  // kept from step to step
};

}  // namespace weft::optim
