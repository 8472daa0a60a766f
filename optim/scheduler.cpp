#include "optim/scheduler.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace weft::optim {

LRScheduler::LRScheduler(Optimizer& optimizer) : optimizer_(&optimizer) {
  for (size_t g = 0; g < optimizer.group_count(); ++g) {
    if (!optimizer.initial_lr(g)) optimizer.set_initial_lr(optimizer.lr(g), g);
    base_lrs_.push_back(*optimizer.initial_lr(g));
  }
}

void LRScheduler::start() {
  advance();
  update();
}

void LRScheduler::update() {
  std::vector<double> rates;
  for (size_t g = 0; g < base_lrs_.size(); ++g) rates.push_back(next_lr(g));
  for (size_t g = 0; g < base_lrs_.size(); ++g) optimizer_->set_lr(rates[g], g);
  apply();
}

void LRScheduler::step() {
  advance();
  update();
}

std::vector<double> LRScheduler::last_lr() const {
  std::vector<double> rates;
  for (size_t g = 0; g < base_lrs_.size(); ++g) rates.push_back(optimizer_->lr(g));
  return rates;
}

std::vector<double> LRScheduler::per_group(const std::vector<double>& values, const char* op, const char* name) const {
  WEFT_CHECK(values.size() == 1 || values.size() == base_lrs_.size(), op, "expected one {} or {}, one a group, got {}",
             name, base_lrs_.size(), values.size());
  return values.size() == base_lrs_.size() ? values : std::vector<double>(base_lrs_.size(), values[0]);
}

namespace {

Tree list_of(const std::vector<double>& values) {
  Tree list = Tree::list();
  for (const double value : values) list.push_back(value);
  return list;
}

std::vector<double> numbers_of(const Tree& list, size_t count, const char* what) {
  WEFT_CHECK(list.size() == static_cast<int64_t>(count), "load_state_dict",
             "the schedule has {} groups, the state {} {}", count, list.size(), what);
  std::vector<double> values;
  for (const Tree& value : list.as_list()) values.push_back(value.as_double());
  return values;
}

}  // namespace

Tree LRScheduler::state_dict() const {
  Tree state =
      Tree::map({{"last_epoch", last_epoch_}, {"base_lrs", list_of(base_lrs_)}, {"last_lr", list_of(last_lr())}});
  save(state);
  return state;
}

void LRScheduler::load_state_dict(const Tree& state) {
  std::vector<double> base = numbers_of(state.at("base_lrs"), base_lrs_.size(), "base_lrs");
  const std::vector<double> rates = numbers_of(state.at("last_lr"), base_lrs_.size(), "last_lr");
  const int64_t steps = state.at("last_epoch").as_int();
  restore(state);
  last_epoch_ = steps;
  base_lrs_ = std::move(base);
  for (size_t g = 0; g < rates.size(); ++g) optimizer_->set_lr(rates[g], g);
}

// --- functions of the step -----------------------------------------------------------------------------------------

namespace {

std::vector<LambdaLR::Factor> factor_each(std::vector<LambdaLR::Factor> factors, size_t groups, const char* op) {
  WEFT_CHECK(factors.size() == groups, op, "expected {} functions, one a group, got {}", groups, factors.size());
  for (const LambdaLR::Factor& factor : factors) WEFT_CHECK(factor, op, "a function is empty");
  return factors;
}

}  // namespace

LambdaLR::LambdaLR(Optimizer& optimizer, Factor factor)
    : LambdaLR(optimizer, std::vector<Factor>(optimizer.group_count(), std::move(factor))) {}

LambdaLR::LambdaLR(Optimizer& optimizer, std::vector<Factor> factors)
    : LRScheduler(optimizer), factors_(factor_each(std::move(factors), optimizer.group_count(), "LambdaLR")) {
  start();
}

double LambdaLR::next_lr(size_t group) const { return base_lr(group) * factors_[group](last_epoch_); }

MultiplicativeLR::MultiplicativeLR(Optimizer& optimizer, Factor factor)
    : MultiplicativeLR(optimizer, std::vector<Factor>(optimizer.group_count(), std::move(factor))) {}

MultiplicativeLR::MultiplicativeLR(Optimizer& optimizer, std::vector<Factor> factors)
    : LRScheduler(optimizer), factors_(factor_each(std::move(factors), optimizer.group_count(), "MultiplicativeLR")) {
  start();
}

double MultiplicativeLR::next_lr(size_t group) const {
  return last_epoch_ > 0 ? lr(group) * factors_[group](last_epoch_) : lr(group);
}

bool MultiplicativeLR::reset() {
  LRScheduler::reset();
  return false;
}

// --- warm-up and decay ---------------------------------------------------------------------------------------------

namespace {

double ratio(int64_t a, int64_t b) { return static_cast<double>(a) / static_cast<double>(std::max<int64_t>(b, 1)); }

}  // namespace

LambdaLR warmup_cosine(Optimizer& optimizer, WarmupCosineOptions options) {
  WEFT_CHECK(options.warmup_steps >= 0 && options.total_steps > 0 && options.warmup_steps <= options.total_steps,
             "warmup_cosine", "expected 0 <= warmup_steps <= total_steps, got {} and {}", options.warmup_steps,
             options.total_steps);
  return LambdaLR(optimizer, [options](int64_t step) {
    if (step < options.warmup_steps) return ratio(step + 1, options.warmup_steps);
    const double done = std::min(1.0, ratio(step - options.warmup_steps, options.total_steps - options.warmup_steps));
    return options.min_factor + (1 - options.min_factor) * 0.5 * (1 + std::cos(done * std::numbers::pi));
  });
}

LambdaLR linear_warmup_linear_decay(Optimizer& optimizer, WarmupDecayOptions options) {
  WEFT_CHECK(options.warmup_steps >= 0 && options.total_steps >= 0, "linear_warmup_linear_decay",
             "expected warmup_steps and total_steps >= 0, got {} and {}", options.warmup_steps, options.total_steps);
  return LambdaLR(optimizer, [options](int64_t step) {
    if (step < options.warmup_steps) return ratio(step, options.warmup_steps);
    return std::max(0.0, ratio(options.total_steps - step, options.total_steps - options.warmup_steps));
  });
}

LambdaLR linear_warmup_cosine_decay(Optimizer& optimizer, WarmupDecayOptions options, double cycles) {
  WEFT_CHECK(options.warmup_steps >= 0 && options.total_steps >= 0, "linear_warmup_cosine_decay",
             "expected warmup_steps and total_steps >= 0, got {} and {}", options.warmup_steps, options.total_steps);
  return LambdaLR(optimizer, [options, cycles](int64_t step) {
    if (step < options.warmup_steps) return ratio(step, options.warmup_steps);
    const double done = ratio(step - options.warmup_steps, options.total_steps - options.warmup_steps);
    return std::max(0.0, 0.5 * (1 + std::cos(std::numbers::pi * cycles * 2 * done)));
  });
}

LambdaLR inverse_sqrt(Optimizer& optimizer, InverseSqrtOptions options) {
  WEFT_CHECK(options.warmup_steps >= 0 && options.timescale >= 0, "inverse_sqrt",
             "expected warmup_steps and timescale >= 0, got {} and {}", options.warmup_steps, options.timescale);
  if (options.timescale == 0) options.timescale = options.warmup_steps > 0 ? options.warmup_steps : 10000;
  return LambdaLR(optimizer, [options](int64_t step) {
    if (step < options.warmup_steps) return ratio(step, options.warmup_steps);
    return 1 / std::sqrt(ratio(step - options.warmup_steps + options.timescale, options.timescale));
  });
}

LambdaLR warmup_stable_decay(Optimizer& optimizer, WarmupStableDecayOptions options) {
  WEFT_CHECK(options.warmup_steps >= 0 && options.stable_steps >= 0 && options.decay_steps >= 0 &&
                 options.min_factor >= 0 && options.min_factor <= 1,
             "warmup_stable_decay", "expected steps >= 0 and min_factor in [0, 1], got {}, {}, {} and {}",
             options.warmup_steps, options.stable_steps, options.decay_steps, options.min_factor);
  return LambdaLR(optimizer, [options](int64_t step) {
    const auto above_min = [&](double factor) { return options.min_factor + (1 - options.min_factor) * factor; };
    if (step < options.warmup_steps) return above_min(ratio(step, options.warmup_steps));
    step -= options.warmup_steps + options.stable_steps;
    if (step < 0) return 1.0;
    if (step >= options.decay_steps) return options.min_factor;
    const double done = ratio(step, options.decay_steps);
    switch (options.decay) {
      case Decay::linear: return above_min(1 - done);
      case Decay::cosine: return above_min(0.5 * (1 + std::cos(std::numbers::pi * done)));
      case Decay::one_minus_sqrt: return above_min(1 - std::sqrt(done));
    }
    return options.min_factor;
  });
}

}  // namespace weft::optim
