#include "optim/scheduler.h"

#include <cmath>

namespace weft::optim {

LambdaLR::LambdaLR(Optimizer& optimizer, Factor factor) : optimizer_(&optimizer), factor_(std::move(factor)) {
  for (size_t g = 0; g < optimizer.group_count(); ++g) initial_.push_back(optimizer.lr(g));
  apply();
}

void LambdaLR::apply() {
  for (size_t g = 0; g < initial_.size(); ++g) optimizer_->set_lr(initial_[g] * factor_(steps_), g);
}

void LambdaLR::step() {
  ++steps_;
  apply();
}

std::vector<double> LambdaLR::last_lr() const {
  std::vector<double> rates;
  for (size_t g = 0; g < initial_.size(); ++g) rates.push_back(optimizer_->lr(g));
  return rates;
}

Tree LambdaLR::state_dict() const {
  Tree initial = Tree::list();
  for (double lr : initial_) initial.push_back(lr);
  return Tree::map({{"last_epoch", steps_}, {"base_lrs", std::move(initial)}});
}

void LambdaLR::load_state_dict(const Tree& state) {
  const Tree& initial = state.at("base_lrs");
  WEFT_CHECK(initial.size() == static_cast<int64_t>(initial_.size()), "load_state_dict",
             "the schedule has {} groups, the state {}", initial_.size(), initial.size());
  steps_ = state.at("last_epoch").as_int();
  for (size_t g = 0; g < initial_.size(); ++g) initial_[g] = initial[static_cast<int64_t>(g)].as_double();
  apply();
}

LambdaLR warmup_cosine(Optimizer& optimizer, WarmupCosineOptions options) {
  WEFT_CHECK(options.warmup_steps >= 0 && options.total_steps > 0 && options.warmup_steps <= options.total_steps,
             "warmup_cosine", "expected 0 <= warmup_steps <= total_steps, got {} and {}", options.warmup_steps,
             options.total_steps);
  return LambdaLR(optimizer, [options](int64_t step) {
    if (step < options.warmup_steps) return static_cast<double>(step + 1) / static_cast<double>(options.warmup_steps);
    const double span = static_cast<double>(std::max<int64_t>(options.total_steps - options.warmup_steps, 1));
    const double done = std::min(1.0, static_cast<double>(step - options.warmup_steps) / span);
    return options.min_factor + (1 - options.min_factor) * 0.5 * (1 + std::cos(done * 3.141592653589793));
  });
}

}  // namespace weft::optim
