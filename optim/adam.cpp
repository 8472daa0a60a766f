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
    slices_.clear();
    std::vector<Tensor> gradients;  // alive until the launch
    this->for_each_with_gradient(g, [&](const Tensor& parameter, const Tensor& gradient, AdamState& state) {
      if (!state.exp_avg.defined()) {
        state.exp_avg = zeros_like(parameter);
        state.exp_avg_sq = zeros_like(parameter);
      }
      if (o.amsgrad && !state.max_exp_avg_sq.defined()) state.max_exp_avg_sq = zeros_like(parameter);
      ++state.step;
      slices_.like(parameter).push_back({.param = parameter.data(),
                                         .grad = gradient.data(),
                                         .exp_avg = state.exp_avg.data(),
                                         .exp_avg_sq = state.exp_avg_sq.data(),
                                         .max_exp_avg_sq = o.amsgrad ? state.max_exp_avg_sq.data() : nullptr,
                                         .size = parameter.numel(),
                                         .step = state.step});
      gradients.push_back(gradient);
    });
    slices_.for_each([&](DType dtype, Device device, const std::vector<AdamSlice>& slices) {
      kernel_table(device.type, "adam")
          .optimizer.adam(current_stream(device), dtype, plain, slices.data(), static_cast<int64_t>(slices.size()));
    });
  }
}

template class AdamFamily<AdamOptions, false>;
template class AdamFamily<AdamWOptions, true>;

}  // namespace weft::optim
