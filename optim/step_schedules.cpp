#include "optim/step_schedules.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace weft::optim {

using std::numbers::pi;

StepLR::StepLR(Optimizer& optimizer, int64_t step_size, double gamma)
    : LRScheduler(optimizer), step_size_(step_size), gamma_(gamma) {
  WEFT_CHECK(step_size > 0, "StepLR", "expected a step_size above 0, got {}", step_size);
  start();
}

double StepLR::next_lr(size_t group) const {
  return last_epoch_ == 0 || last_epoch_ % step_size_ != 0 ? lr(group) : lr(group) * gamma_;
}

MultiStepLR::MultiStepLR(Optimizer& optimizer, std::vector<int64_t> milestones, double gamma)
    : LRScheduler(optimizer), milestones_(std::move(milestones)), gamma_(gamma) {
  start();
}

double MultiStepLR::next_lr(size_t group) const {
  const auto times = std::count(milestones_.begin(), milestones_.end(), last_epoch_);
  return times == 0 ? lr(group) : lr(group) * std::pow(gamma_, static_cast<double>(times));
}

ExponentialLR::ExponentialLR(Optimizer& optimizer, double gamma) : LRScheduler(optimizer), gamma_(gamma) { start(); }

double ExponentialLR::next_lr(size_t group) const { return last_epoch_ == 0 ? lr(group) : lr(group) * gamma_; }

ConstantLR::ConstantLR(Optimizer& optimizer, double factor, int64_t total_iters)
    : LRScheduler(optimizer), factor_(factor), total_iters_(total_iters) {
  WEFT_CHECK(factor > 0 && factor <= 1, "ConstantLR", "expected a factor in (0, 1], got {}", factor);
  start();
}

double ConstantLR::next_lr(size_t group) const {
  if (last_epoch_ == 0) return lr(group) * factor_;
  return last_epoch_ == total_iters_ ? lr(group) * (1 / factor_) : lr(group);
}

LinearLR::LinearLR(Optimizer& optimizer, LinearLROptions options) : LRScheduler(optimizer), options_(options) {
  WEFT_CHECK(options.start_factor > 0 && options.start_factor <= 1 && options.end_factor >= 0 &&
                 options.end_factor <= 1 && options.total_iters > 0,
             "LinearLR", "expected start_factor in (0, 1], end_factor in [0, 1] and total_iters > 0, got {}, {} and {}",
             options.start_factor, options.end_factor, options.total_iters);
  start();
}

double LinearLR::next_lr(size_t group) const {
  if (last_epoch_ == 0) return lr(group) * options_.start_factor;
  if (last_epoch_ > options_.total_iters) return lr(group);
  const double rise = options_.end_factor - options_.start_factor;
  return lr(group) * (1 + rise / (static_cast<double>(options_.total_iters) * options_.start_factor +
                                  static_cast<double>(last_epoch_ - 1) * rise));
}

PolynomialLR::PolynomialLR(Optimizer& optimizer, int64_t total_iters, double power)
    : LRScheduler(optimizer), total_iters_(total_iters), power_(power) {
  WEFT_CHECK(total_iters > 0, "PolynomialLR", "expected total_iters above 0, got {}", total_iters);
  start();
}

double PolynomialLR::next_lr(size_t group) const {
  if (last_epoch_ == 0 || last_epoch_ > total_iters_) return lr(group);
  const auto total = static_cast<double>(total_iters_), t = static_cast<double>(last_epoch_);
  return lr(group) * std::pow((1 - t / total) / (1 - (t - 1) / total), power_);
}

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, int64_t t_max, double eta_min)
    : LRScheduler(optimizer), t_max_(t_max), eta_min_(eta_min) {
  WEFT_CHECK(t_max > 0, "CosineAnnealingLR", "expected t_max above 0, got {}", t_max);
  start();
}

double CosineAnnealingLR::next_lr(size_t group) const {
  if (last_epoch_ == 0) return lr(group);
  const auto total = static_cast<double>(t_max_), t = static_cast<double>(last_epoch_);
  // One step past a trough, where the quotient below would be 0 / 0.
  if ((last_epoch_ - 1 - t_max_) % (2 * t_max_) == 0)
    return lr(group) + (base_lr(group) - eta_min_) * (1 - std::cos(pi / total)) / 2;
  return (1 + std::cos(pi * t / total)) / (1 + std::cos(pi * (t - 1) / total)) * (lr(group) - eta_min_) + eta_min_;
}

CosineAnnealingWarmRestarts::CosineAnnealingWarmRestarts(Optimizer& optimizer, WarmRestartsOptions options)
    : LRScheduler(optimizer), options_(options), t_i_(options.t_0) {
  WEFT_CHECK(options.t_0 > 0 && options.t_mult >= 1, "CosineAnnealingWarmRestarts",
             "expected t_0 above 0 and t_mult of at least 1, got {} and {}", options.t_0, options.t_mult);
  start();
}

double CosineAnnealingWarmRestarts::next_lr(size_t group) const {
  return options_.eta_min +
         (base_lr(group) - options_.eta_min) * (1 + std::cos(pi * t_cur_ / static_cast<double>(t_i_))) / 2;
}

void CosineAnnealingWarmRestarts::advance() {
  ++last_epoch_;
  t_cur_ += 1;
  if (t_cur_ >= static_cast<double>(t_i_)) {
    t_cur_ -= static_cast<double>(t_i_);
    t_i_ *= options_.t_mult;
  }
}

void CosineAnnealingWarmRestarts::step(double epoch) {
  WEFT_CHECK(epoch >= 0, "CosineAnnealingWarmRestarts", "expected an epoch of at least 0, got {}", epoch);
  t_cur_ = epoch;
  t_i_ = options_.t_0;
  if (options_.t_mult == 1) {
    t_cur_ = std::fmod(epoch, static_cast<double>(t_i_));
  } else {
    while (t_cur_ >= static_cast<double>(t_i_)) {
      t_cur_ -= static_cast<double>(t_i_);
      t_i_ *= options_.t_mult;
    }
  }
  last_epoch_ = static_cast<int64_t>(std::floor(epoch));
  update();
}

bool CosineAnnealingWarmRestarts::reset() {
  t_cur_ = -1;
  t_i_ = options_.t_0;
  return LRScheduler::reset();
}

void CosineAnnealingWarmRestarts::save(Tree& state) const {
  state["t_cur"] = t_cur_;
  state["t_i"] = t_i_;
}

void CosineAnnealingWarmRestarts::restore(const Tree& state) {
  const double t_cur = state.at("t_cur").as_double();
  t_i_ = state.at("t_i").as_int();
  t_cur_ = t_cur;
}

}  // namespace weft::optim
