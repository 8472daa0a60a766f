#include "optim/cycle_schedules.h"

#include <cmath>
#include <numbers>

namespace weft::optim {
namespace {

void check_momentum(const Optimizer& optimizer, const char* op) {
  for (size_t g = 0; g < optimizer.group_count(); ++g)
    WEFT_CHECK(optimizer.momentum(g), op,
               "cycle_momentum is set, but the optimizer has neither a momentum nor a beta1 to cycle");
}

}  // namespace

OneCycleLR::OneCycleLR(Optimizer& optimizer, OneCycleOptions options)
    : LRScheduler(optimizer),
      options_(std::move(options)),
      max_lr_(per_group(options_.max_lr, "OneCycleLR", "max_lr")),
      base_momentum_(per_group(options_.base_momentum, "OneCycleLR", "base_momentum")),
      max_momentum_(per_group(options_.max_momentum, "OneCycleLR", "max_momentum")) {
  OneCycleOptions& o = options_;
  if (o.total_steps == 0) o.total_steps = o.epochs * o.steps_per_epoch;
  WEFT_CHECK(o.total_steps > 0, "OneCycleLR", "expected total_steps above 0, or epochs and steps_per_epoch; got {}",
             o.total_steps);
  WEFT_CHECK(o.pct_start >= 0 && o.pct_start <= 1, "OneCycleLR", "expected pct_start in [0, 1], got {}", o.pct_start);
  WEFT_CHECK(o.anneal_strategy == "cos" || o.anneal_strategy == "linear", "OneCycleLR",
             "expected anneal_strategy \"cos\" or \"linear\", got \"{}\"", o.anneal_strategy);
  if (o.cycle_momentum) check_momentum(optimizer, "OneCycleLR");
  const double first = 1 / o.div_factor, last = first / o.final_div_factor;
  const auto total = static_cast<double>(o.total_steps);
  const double peak = o.pct_start * total - 1;
  if (o.three_phase)
    phases_ = {{peak, first, 1, 0, 1}, {2 * o.pct_start * total - 2, 1, first, 1, 0}, {total - 1, first, last, 0, 0}};
  else
    phases_ = {{peak, first, 1, 0, 1}, {total - 1, 1, last, 1, 0}};
  for (size_t g = 0; g < group_count(); ++g) {
    base_lrs_[g] = max_lr_[g] * first;
    optimizer.set_initial_lr(base_lrs_[g], g);
  }
  start();
}

double OneCycleLR::anneal(double from, double to, double part) const {
  if (options_.anneal_strategy == "linear") return (to - from) * part + from;
  return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * part));
}

std::pair<const OneCycleLR::Phase*, double> OneCycleLR::where() const {
  const auto step = static_cast<double>(last_epoch_);
  double start = 0;
  const Phase* phase = phases_.data();
  while (phase != &phases_.back() && step > phase->end) start = phase++->end;
  return {phase, (step - start) / (phase->end - start)};
}

void OneCycleLR::advance() {
  WEFT_CHECK(last_epoch_ < options_.total_steps, "OneCycleLR", "step {} of a cycle of {} steps", last_epoch_ + 1,
             options_.total_steps);
  ++last_epoch_;
}

bool OneCycleLR::reset() {
  LRScheduler::reset();
  return false;
}

double OneCycleLR::next_lr(size_t group) const {
  const auto [phase, part] = where();
  return anneal(max_lr_[group] * phase->lr_from, max_lr_[group] * phase->lr_to, part);
}

void OneCycleLR::apply() {
  if (!options_.cycle_momentum) return;
  const auto [phase, part] = where();
  for (size_t g = 0; g < group_count(); ++g) {
    const double way = base_momentum_[g] - max_momentum_[g];
    optimizer_->set_momentum(
        anneal(max_momentum_[g] + way * phase->momentum_from, max_momentum_[g] + way * phase->momentum_to, part), g);
  }
}

CyclicLR::CyclicLR(Optimizer& optimizer, CyclicOptions options)
    : LRScheduler(optimizer),
      options_(std::move(options)),
      max_lr_(per_group(options_.max_lr, "CyclicLR", "max_lr")),
      base_momentum_(per_group(options_.base_momentum, "CyclicLR", "base_momentum")),
      max_momentum_(per_group(options_.max_momentum, "CyclicLR", "max_momentum")) {
  CyclicOptions& o = options_;
  if (o.step_size_down == 0) o.step_size_down = o.step_size_up;
  WEFT_CHECK(o.step_size_up > 0 && o.step_size_down > 0, "CyclicLR",
             "expected step_size_up and step_size_down above 0, got {} and {}", o.step_size_up, o.step_size_down);
  WEFT_CHECK(o.scale_fn || o.mode == "triangular" || o.mode == "triangular2" || o.mode == "exp_range", "CyclicLR",
             "expected mode \"triangular\", \"triangular2\" or \"exp_range\", got \"{}\"", o.mode);
  WEFT_CHECK(o.scale_mode == "cycle" || o.scale_mode == "iterations", "CyclicLR",
             "expected scale_mode \"cycle\" or \"iterations\", got \"{}\"", o.scale_mode);
  if (o.cycle_momentum) check_momentum(optimizer, "CyclicLR");
  base_lrs_ = per_group(o.base_lr, "CyclicLR", "base_lr");
  for (size_t g = 0; g < group_count(); ++g) optimizer.set_initial_lr(base_lrs_[g], g);
  start();
}

double CyclicLR::height() const {
  const auto up = static_cast<double>(options_.step_size_up), down = static_cast<double>(options_.step_size_down);
  const double at = static_cast<double>(last_epoch_) / (up + down), peak = up / (up + down);
  const double x = 1 + at - std::floor(1 + at);
  return x <= peak ? x / peak : (x - 1) / (peak - 1);
}

double CyclicLR::scale() const {
  const auto step = static_cast<double>(last_epoch_);
  const double cycle = std::floor(1 + step / static_cast<double>(options_.step_size_up + options_.step_size_down));
  if (options_.scale_fn) return options_.scale_fn(options_.scale_mode == "cycle" ? cycle : step);
  if (options_.mode == "triangular2") return std::pow(2.0, 1 - cycle);
  if (options_.mode == "exp_range") return std::pow(options_.gamma, step);
  return 1;
}

double CyclicLR::next_lr(size_t group) const {
  return base_lr(group) + (max_lr_[group] - base_lr(group)) * height() * scale();
}

void CyclicLR::apply() {
  if (!options_.cycle_momentum) return;
  for (size_t g = 0; g < group_count(); ++g)
    optimizer_->set_momentum(max_momentum_[g] - (max_momentum_[g] - base_momentum_[g]) * height() * scale(), g);
}

}  // namespace weft::optim
