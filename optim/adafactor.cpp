#include "optim/adafactor.h"

#include <cmath>

#include "autograd/ops/ops.h"

namespace weft::optim {
namespace {

// The distance from 1 to the next number.
double epsilon(DType dtype) {
  switch (dtype) {
    case DType::f64: return 0x1p-52;
    case DType::f16: return 0x1p-10;
    case DType::bf16: return 0x1p-7;
    default: return 0x1p-23;
  }
}

// Root mean square of all elements, a 0-d tensor.
Tensor rms(const Tensor& x) { return norm(x) * (1 / std::sqrt(static_cast<double>(x.numel()))); }

}  // namespace

Shape AdafactorState::shape_of(std::string_view name, const Shape& parameter) {
  std::vector<int64_t> sizes(parameter.begin(), parameter.end());
  if (sizes.size() < 2) return parameter;
  if (name == "row_var") sizes[sizes.size() - 1] = 1;
  if (name == "col_var") sizes[sizes.size() - 2] = 1;
  return sizes;
}

Adafactor::Adafactor(std::vector<Group> groups) : GroupedOptimizer(std::move(groups)) {
  for (size_t g = 0; g < group_count(); ++g) {
    const AdafactorOptions& o = options(g);
    WEFT_CHECK(
        o.lr >= 0 && o.beta2_decay <= 0 && o.eps1.value_or(0) >= 0 && o.eps2 >= 0 && o.d >= 1 && o.weight_decay >= 0,
        "adafactor",
        "expected lr, eps1, eps2, weight_decay >= 0, beta2_decay <= 0 and d >= 1; got lr {}, eps {} {}, "
        "weight_decay {}, beta2_decay {}, d {}",
        o.lr, o.eps1.value_or(0), o.eps2, o.weight_decay, o.beta2_decay, o.d);
  }
}

void Adafactor::step() {
  NoGrad guard;
  for (size_t g = 0; g < group_count(); ++g) {
    const AdafactorOptions& o = options(g);
    for_each_with_gradient(
        g, [&](const std::string&, const Tensor& parameter, const Tensor& given, AdafactorState& state) {
          const auto t = static_cast<double>(++state.step);
          if (parameter.numel() == 0) return;
          const double eps1 = o.eps1.value_or(epsilon(parameter.dtype()));
          const double fresh = std::pow(t, o.beta2_decay);
          Tensor p = parameter.detach().to(state_dtype(parameter));
          const Tensor gradient = (o.maximize ? -given : given).to(p.dtype());
          const Tensor alpha = clamp(rms(p), o.eps2) * std::min(o.lr, 1 / std::sqrt(t));
          if (o.weight_decay != 0) p = p * (1 - o.lr * o.weight_decay);

          const auto average = [&](Tensor& kept, const char* name, const Tensor& value) {
            if (!kept.defined()) kept = new_state(parameter, AdafactorState::shape_of(name, parameter.shape()));
            kept.copy_(lerp(kept, value, fresh));
          };
          const Tensor squared = square(gradient);
          Tensor estimate;
          if (gradient.dim() > 1) {
            average(state.row_var, "row_var", mean(squared, {-1}, true));
            average(state.col_var, "col_var", mean(squared, {-2}, true));
            estimate = matmul(state.row_var, state.col_var) / clamp(mean(state.row_var, {-2}, true), eps1);
          } else {
            average(state.variance, "variance", squared);
            estimate = state.variance;
          }
          const Tensor update = rsqrt(clamp(estimate, eps1 * eps1)) * gradient;
          const Tensor denominator = clamp(rms(update) * (1 / o.d), 1.0);
          parameter.copy_(p - update * (alpha / denominator));
        });
  }
}

}  // namespace weft::optim
