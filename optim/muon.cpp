#include "optim/muon.h"

#include <algorithm>
#include <cmath>

#include "autograd/ops/ops.h"

namespace weft::optim {
namespace {

// The orthogonal matrix nearest to x, about: its singular values end up around 1. The wide form has the smaller products.
Tensor orthogonal(const Tensor& x, const MuonOptions& o) {
  const bool tall = x.size(0) > x.size(1);
  Tensor y = x.to(DType::bf16);
  if (tall) y = y.t();
  y = y / clamp(norm(y), o.eps);
  for (int64_t i = 0; i < o.ns_steps; ++i) {
    const Tensor gram = matmul(y, y.t());
    y = addmm(y, addmm(gram, gram, gram, o.ns_b, o.ns_c), y, o.ns_a, 1);
  }
  return tall ? y.t() : y;
}

double adjusted_lr(const MuonOptions& o, const Tensor& parameter) {
  const auto rows = static_cast<double>(parameter.size(0)), columns = static_cast<double>(parameter.size(1));
  if (o.adjust_lr_fn == "match_rms_adamw") return o.lr * 0.2 * std::sqrt(std::max(rows, columns));
  return o.lr * std::sqrt(std::max(1.0, rows / columns));
}

}  // namespace

Muon::Muon(std::vector<Group> groups) : GroupedOptimizer(std::move(groups)) {
  for (size_t g = 0; g < group_count(); ++g) {
    const MuonOptions& o = options(g);
    WEFT_CHECK(o.lr >= 0 && o.momentum >= 0 && o.weight_decay >= 0 && o.ns_steps >= 0 && o.ns_steps < 100, "muon",
               "expected lr, momentum, weight_decay >= 0 and ns_steps in [0, 100); got {}, {}, {}, {}", o.lr,
               o.momentum, o.weight_decay, o.ns_steps);
    WEFT_CHECK(o.adjust_lr_fn == "original" || o.adjust_lr_fn == "match_rms_adamw", "muon",
               "expected adjust_lr_fn \"original\" or \"match_rms_adamw\", got \"{}\"", o.adjust_lr_fn);
    for (const auto& [name, parameter] : group_parameters(g))
      WEFT_CHECK(parameter.dim() == 2, "muon", "expected matrices, parameter {} is {}", name, describe(parameter));
  }
}

void Muon::step() {
  NoGrad guard;
  for (size_t g = 0; g < group_count(); ++g) {
    const MuonOptions& o = options(g);
    for_each_with_gradient(g, [&](const std::string&, const Tensor& parameter, const Tensor& given, MuonState& state) {
      ensure_state(state.momentum_buffer, parameter);
      if (parameter.numel() == 0) return;
      const Tensor gradient = given.to(state.momentum_buffer.dtype());
      state.momentum_buffer.copy_(lerp(state.momentum_buffer, gradient, 1 - o.momentum));
      const Tensor update = o.nesterov ? lerp(gradient, state.momentum_buffer, o.momentum) : state.momentum_buffer;
      const Tensor p = parameter.detach().to(state.momentum_buffer.dtype()) * (1 - o.lr * o.weight_decay);
      parameter.copy_(p - orthogonal(update, o).to(p.dtype()) * adjusted_lr(o, parameter));
    });
  }
}

}  // namespace weft::optim
