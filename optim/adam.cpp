#include "optim/adam.h"

#include "autograd/grad_mode.h"
#include "kernels/table.h"
#include "tensor/factory.h"

namespace weft::optim {

template <class Options_, bool decoupled>
AdamFamily<Options_, decoupled>::AdamFamily(std::vector<Group> groups) : Base(std::move(groups)) {
  for (size_t g = 0; g < this->group_count(); ++g) {
    const Options& o = this->options(g);
    WEFT_CHECK(
        o.lr >= 0 && o.eps >= 0 && o.weight_decay >= 0 && o.beta1 >= 0 && o.beta1 < 1 && o.beta2 >= 0 && o.beta2 < 1,
        "adam",
        "expected lr, eps, weight_decay >= 0 and betas in [0, 1); got lr {}, eps {}, weight_decay {}, "
        "betas {} {}",
        o.lr, o.eps, o.weight_decay, o.beta1, o.beta2);
  }
}

template <class Options_, bool decoupled>
void AdamFamily<Options_, decoupled>::step() {
  NoGrad guard;
  for (size_t g = 0; g < this->group_count(); ++g) {
    const Options& o = this->options(g);
    const weft::AdamOptions plain = {.lr = o.lr,
                                     .beta1 = o.beta1,
                                     .beta2 = o.beta2,
                                     .eps = o.eps,
                                     .weight_decay = o.weight_decay,
                                     .decoupled = decoupled,
                                     .maximize = o.maximize};
    // One launch a dtype; nearly always there is one.
    for (const DType dtype : {DType::f32, DType::f64}) {
      slices_.clear();
      std::vector<Tensor> gradients;  // alive until the launch
      this->for_each_with_gradient(g, [&](const Tensor& parameter, const Tensor& gradient, AdamState& state) {
        if (parameter.dtype() != dtype) {
          WEFT_CHECK(parameter.dtype() == DType::f32 || parameter.dtype() == DType::f64, "adam",
                     "expected parameters of f32 or f64, got {}", describe(parameter));
          return;
        }
        if (!state.exp_avg.defined()) {
          state.exp_avg = zeros_like(parameter);
          state.exp_avg_sq = zeros_like(parameter);
        }
        if (o.amsgrad && !state.max_exp_avg_sq.defined()) state.max_exp_avg_sq = zeros_like(parameter);
        ++state.step;
        slices_.push_back({.param = parameter.data(),
                           .grad = gradient.data(),
                           .exp_avg = state.exp_avg.data(),
                           .exp_avg_sq = state.exp_avg_sq.data(),
                           .max_exp_avg_sq = o.amsgrad ? state.max_exp_avg_sq.data() : nullptr,
                           .size = parameter.numel(),
                           .step = state.step});
        gradients.push_back(gradient);
      });
      if (!slices_.empty())
        kernel_table(DeviceType::cpu, "adam")
            .optimizer.adam(Stream{}, dtype, plain, slices_.data(), static_cast<int64_t>(slices_.size()));
    }
  }
}

template class AdamFamily<AdamOptions, false>;
template class AdamFamily<AdamWOptions, true>;

}  // namespace weft::optim
