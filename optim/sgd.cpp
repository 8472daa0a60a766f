#include "optim/sgd.h"

#include "autograd/grad_mode.h"
#include "kernels/table.h"
#include "tensor/factory.h"

namespace weft::optim {

SGD::SGD(std::vector<Group> groups) : GroupedOptimizer(std::move(groups)) {
  for (size_t g = 0; g < group_count(); ++g) {
    const SgdOptions& o = options(g);
    WEFT_CHECK(o.lr >= 0 && o.momentum >= 0 && o.weight_decay >= 0, "sgd",
               "expected lr, momentum and weight_decay >= 0; got {}, {}, {}", o.lr, o.momentum, o.weight_decay);
    WEFT_CHECK(!o.nesterov || (o.momentum > 0 && o.dampening == 0), "sgd",
               "nesterov needs a momentum and no dampening; got {} and {}", o.momentum, o.dampening);
  }
}

void SGD::step() {
  NoGrad guard;
  for (size_t g = 0; g < group_count(); ++g) {
    const SgdOptions& o = options(g);
    const weft::SgdOptions plain = {.lr = o.lr,
                                    .momentum = o.momentum,
                                    .dampening = o.dampening,
                                    .weight_decay = o.weight_decay,
                                    .nesterov = o.nesterov,
                                    .maximize = o.maximize};
    slices_.clear();
    std::vector<Tensor> gradients;  // alive until the launch
    for_each_with_gradient(g, [&](const Tensor& parameter, const Tensor& gradient, SgdState& state) {
      const bool first = o.momentum != 0 && !state.momentum_buffer.defined();
      if (first) state.momentum_buffer = zeros_like(parameter);
      slices_.like(parameter).push_back({.param = parameter.data(),
                                         .grad = gradient.data(),
                                         .momentum_buffer = o.momentum != 0 ? state.momentum_buffer.data() : nullptr,
                                         .size = parameter.numel(),
                                         .first = first});
      gradients.push_back(gradient);
    });
    slices_.for_each([&](DType dtype, Device device, const std::vector<SgdSlice>& slices) {
      kernel_table(device.type, "sgd")
          .optimizer.sgd(current_stream(device), dtype, plain, slices.data(), static_cast<int64_t>(slices.size()));
    });
  }
}

}  // namespace weft::optim
