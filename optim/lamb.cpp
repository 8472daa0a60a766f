#include "optim/lamb.h"

#include "autograd/grad_mode.h"
#include "kernels/table.h"
#include "optim/launch_lists.h"

namespace weft::optim {

Lamb::Lamb(std::vector<Group> groups) : GroupedOptimizer(std::move(groups)) {
  for (size_t g = 0; g < group_count(); ++g) {
    const LambOptions& o = options(g);
    WEFT_CHECK(
        o.lr >= 0 && o.eps >= 0 && o.weight_decay >= 0 && o.beta1 >= 0 && o.beta1 < 1 && o.beta2 >= 0 && o.beta2 < 1,
        "lamb",
        "expected lr, eps, weight_decay >= 0 and betas in [0, 1); got lr {}, eps {}, weight_decay {}, betas {} {}",
        o.lr, o.eps, o.weight_decay, o.beta1, o.beta2);
  }
}

void Lamb::step() {
  NoGrad guard;
  for (size_t g = 0; g < group_count(); ++g) {
    const LambOptions& o = options(g);
    LaunchLists<OptimizerSlice> lists;
    std::vector<Tensor> kept;  // alive until the launches
    for_each_with_gradient(
        g, [&](const std::string&, const Tensor& parameter, const Tensor& gradient, LambState& state) {
          ensure_state(state.exp_avg, parameter);
          ensure_state(state.exp_avg_sq, parameter);
          const Tensor direction =
              empty(parameter.shape(), {.dtype = state_dtype(parameter), .device = parameter.device()});
          OptimizerSlice slice;
          slice.param = parameter.data();
          slice.grad = gradient.data();
          slice.state[0] = state.exp_avg.data();
          slice.state[1] = state.exp_avg_sq.data();
          slice.state[2] = direction.data();
          slice.size = parameter.numel();
          slice.step = ++state.step;
          lists.like(parameter).push_back(slice);
          kept.insert(kept.end(), {gradient, direction});
        });
    launch_rule(lists, LambDirection{.beta1 = o.beta1,
                                     .beta2 = o.beta2,
                                     .eps = o.eps,
                                     .weight_decay = o.weight_decay,
                                     .bias_correction = o.bias_correction,
                                     .maximize = o.maximize});
    lists.for_each([&](DType dtype, Device device, std::vector<OptimizerSlice> slices) {
      const auto count = static_cast<int64_t>(slices.size());
      const Tensor norms = empty({2, count}, {.dtype = DType::f64, .device = device});
      std::vector<ConstSlice> parameters, directions;
      for (OptimizerSlice& slice : slices) {
        const double* norm = norms.data<double>() + parameters.size();
        parameters.push_back({slice.param, slice.size});
        directions.push_back({slice.state[2], slice.size});
        slice.grad = nullptr;
        slice.state[0] = slice.state[2];
        slice.norms[0] = norm;
        slice.norms[1] = norm + count;
      }
      const OptimizerKernels& kernels = kernel_table(device.type, "lamb").optimizer;
      const Stream stream = current_stream(device);
      const DType direction_dtype = dtype == DType::f64 ? DType::f64 : DType::f32;
      kernels.squares(stream, dtype, parameters.data(), count, norms.data<double>());
      kernels.squares(stream, direction_dtype, directions.data(), count, norms.data<double>() + count);
      kernels.step(stream, dtype, LambApply{.lr = o.lr}, slices.data(), count);
    });
  }
}

}  // namespace weft::optim
