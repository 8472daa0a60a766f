#include "optim/lomo.h"

#include <cmath>

#include "autograd/ops/ops.h"
#include "kernels/table.h"
#include "optim/clip.h"
#include "optim/launch_lists.h"

namespace weft::optim {
namespace {

// Hooks that go with the backward they are for, also when it throws.
class Hooks {
 public:
  Hooks() = default;
  Hooks(const Hooks&) = delete;
  Hooks& operator=(const Hooks&) = delete;
  ~Hooks() {
    for (HookHandle& handle : handles_) handle.remove();
  }
  void add(HookHandle handle) { handles_.push_back(std::move(handle)); }

 private:
  std::vector<HookHandle> handles_;
};

double clip_factor(std::optional<double> max_norm, double norm) {
  return max_norm ? std::min(1.0, *max_norm / (norm + 1e-6)) : 1;
}

}  // namespace

Lomo::Lomo(std::vector<Group> groups) : GroupedOptimizer(std::move(groups)) {
  max_norm_ = options(0).clip_grad_norm;
  for (size_t g = 0; g < group_count(); ++g) {
    const LomoOptions& o = options(g);
    WEFT_CHECK(
        o.lr >= 0 && o.weight_decay >= 0 && o.clip_grad_norm.value_or(0) >= 0 && o.clip_grad_value.value_or(0) >= 0,
        "lomo", "expected lr, weight_decay, clip_grad_norm and clip_grad_value >= 0; got {}, {}, {}, {}", o.lr,
        o.weight_decay, o.clip_grad_norm.value_or(0), o.clip_grad_value.value_or(0));
    WEFT_CHECK(o.clip_grad_norm == max_norm_, "lomo", "clip_grad_norm is of all groups together, group {} has another",
               g);
  }
}

void Lomo::update(size_t group, const std::string& name, const Tensor& parameter, const Tensor& given, double factor) {
  WEFT_CHECK(given.dtype() == parameter.dtype() && has_optimizer_kernel(parameter) && parameter.is_contiguous(), "lomo",
             "expected a contiguous parameter of f64, f32, bf16 or f16 and a gradient of that dtype; {} is {} with {}",
             name, describe(parameter), describe(given));
  const LomoOptions& o = options(group);
  Tensor gradient = given.contiguous();
  if (o.clip_grad_value) gradient = clamp(gradient, -*o.clip_grad_value, *o.clip_grad_value);
  if (factor != 1) gradient = gradient * factor;
  LaunchLists<OptimizerSlice> lists;
  OptimizerSlice slice;
  slice.param = parameter.data();
  slice.grad = gradient.data();
  slice.size = parameter.numel();
  lists.like(parameter).push_back(slice);
  launch_rule(lists, weft::SgdOptions{.lr = o.lr, .weight_decay = o.weight_decay});
  parameter.storage()->bump_version();
}

void Lomo::step() {
  NoGrad guard;
  const double factor = max_norm_ ? clip_factor(max_norm_, grad_norm(parameters())) : 1;
  for (size_t g = 0; g < group_count(); ++g)
    for (const auto& [name, parameter] : group_parameters(g))
      if (const Tensor gradient = parameter.grad(); gradient.defined()) update(g, name, parameter, gradient, factor);
}

std::optional<double> Lomo::fused_backward(const Tensor& loss) {
  std::optional<double> norm;
  double factor = 1;
  if (max_norm_) {
    // The sum of squares of each gradient, where it lies; read after the last.
    std::vector<Tensor> squares;
    Hooks hooks;
    for (size_t g = 0; g < group_count(); ++g)
      for (const auto& [name, parameter] : group_parameters(g))
        hooks.add(parameter.register_post_accumulate_grad_hook([&](const Tensor& leaf) {
          NoGrad guard;
          const Tensor gradient = leaf.grad().contiguous();
          const Tensor part = empty({1}, {.dtype = DType::f64, .device = gradient.device()});
          const ConstSlice slice{gradient.data(), gradient.numel()};
          kernel_table(gradient.device().type, "lomo")
              .optimizer.power_sum(current_stream(gradient.device()), gradient.dtype(), 2, &slice, 1,
                                   part.data<double>());
          squares.push_back(part);
          leaf.set_grad({});
        }));
    loss.backward({}, {.retain_graph = true});
    norm = std::sqrt(detail::combine_parts(std::move(squares), false));
    factor = clip_factor(max_norm_, *norm);
  }
  Hooks hooks;
  for (size_t g = 0; g < group_count(); ++g)
    for (const auto& [own_name, parameter] : group_parameters(g)) {
      const std::string& name = own_name;
      hooks.add(parameter.register_post_accumulate_grad_hook([this, g, &name, factor](const Tensor& leaf) {
        NoGrad guard;
        update(g, name, leaf, leaf.grad(), factor);
        leaf.set_grad({});
      }));
    }
  loss.backward();
  return norm;
}

}  // namespace weft::optim
