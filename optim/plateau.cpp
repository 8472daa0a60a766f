#include "optim/plateau.h"

#include <algorithm>
#include <limits>

namespace weft::optim {

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, PlateauOptions options)
    : optimizer_(&optimizer), options_(std::move(options)) {
  const PlateauOptions& o = options_;
  WEFT_CHECK(o.factor < 1, "ReduceLROnPlateau", "expected a factor below 1, got {}", o.factor);
  WEFT_CHECK(o.mode == "min" || o.mode == "max", "ReduceLROnPlateau", "expected mode \"min\" or \"max\", got \"{}\"",
             o.mode);
  WEFT_CHECK(o.threshold_mode == "rel" || o.threshold_mode == "abs", "ReduceLROnPlateau",
             "expected threshold_mode \"rel\" or \"abs\", got \"{}\"", o.threshold_mode);
  const size_t groups = optimizer.group_count();
  WEFT_CHECK(o.min_lr.size() == 1 || o.min_lr.size() == groups, "ReduceLROnPlateau",
             "expected one min_lr or {}, one a group, got {}", groups, o.min_lr.size());
  if (o.min_lr.size() != groups) options_.min_lr.assign(groups, o.min_lr[0]);
  best_ = o.mode == "min" ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
}

bool ReduceLROnPlateau::is_better(double metric) const {
  const bool relative = options_.threshold_mode == "rel";
  const double t = options_.threshold;
  if (options_.mode == "min") return metric < (relative ? best_ * (1 - t) : best_ - t);
  return metric > (relative ? best_ * (1 + t) : best_ + t);
}

void ReduceLROnPlateau::step(double metric) {
  ++last_epoch_;
  if (is_better(metric)) {
    best_ = metric;
    num_bad_epochs_ = 0;
  } else {
    ++num_bad_epochs_;
  }
  if (cooldown_counter_ > 0) {
    --cooldown_counter_;
    num_bad_epochs_ = 0;
  }
  if (num_bad_epochs_ <= options_.patience) return;
  for (size_t g = 0; g < optimizer_->group_count(); ++g) {
    const double old = optimizer_->lr(g), reduced = std::max(old * options_.factor, options_.min_lr[g]);
    if (old - reduced > options_.eps) optimizer_->set_lr(reduced, g);
  }
  cooldown_counter_ = options_.cooldown;
  num_bad_epochs_ = 0;
}

std::vector<double> ReduceLROnPlateau::last_lr() const {
  std::vector<double> rates;
  for (size_t g = 0; g < optimizer_->group_count(); ++g) rates.push_back(optimizer_->lr(g));
  return rates;
}

Tree ReduceLROnPlateau::state_dict() const {
  Tree rates = Tree::list();
  for (const double rate : last_lr()) rates.push_back(rate);
  return Tree::map({{"best", best_},
                    {"num_bad_epochs", num_bad_epochs_},
                    {"cooldown_counter", cooldown_counter_},
                    {"last_epoch", last_epoch_},
                    {"last_lr", std::move(rates)}});
}

void ReduceLROnPlateau::load_state_dict(const Tree& state) {
  const Tree::List& rates = state.at("last_lr").as_list();
  WEFT_CHECK(rates.size() == optimizer_->group_count(), "load_state_dict", "expected {} rates, got {}",
             optimizer_->group_count(), rates.size());
  const double best = state.at("best").as_double();
  const int64_t bad = state.at("num_bad_epochs").as_int(), cooldown = state.at("cooldown_counter").as_int();
  last_epoch_ = state.at("last_epoch").as_int();
  best_ = best;
  num_bad_epochs_ = bad;
  cooldown_counter_ = cooldown;
  for (size_t g = 0; g < rates.size(); ++g) optimizer_->set_lr(rates[g].as_double(), g);
}

}  // namespace weft::optim
