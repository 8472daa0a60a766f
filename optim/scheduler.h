// Learning-rate schedules: LRScheduler, the base of all, and those whose rates are a function of the number of steps.
//
//   auto schedule = optim::warmup_cosine(opt, {.warmup_steps = 100, .total_steps = 900});
//   for (…) { …; opt.step(); schedule.step(); }
//
// Names, parameters and results are PyTorch's. The rate of step 0 is in force as soon as a schedule is made. Rates count
// from the optimizer's initial_lr: the rate that the first schedule on it found. step_schedules.h, cycle_schedules.h,
// combined_schedules.h and plateau.h have the others.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "optim/optimizer.h"

namespace weft::optim {

class LRScheduler {
 public:
  virtual ~LRScheduler() = default;

  // To the next step's rates.
  void step();
  int64_t last_epoch() const { return last_epoch_; }  // PyTorch's name for the number of steps taken
  std::vector<double> last_lr() const;
  // How many steps can be taken, of schedules that end; a step more is an error.
  virtual std::optional<int64_t> total_steps() const { return {}; }

  // {"last_epoch", "base_lrs", "last_lr", …}. Options are not in it: make the schedule with the same ones.
  virtual Tree state_dict() const;
  // Takes a state of the same class with as many groups, and sets the optimizer's rates to the saved ones; anything else
  // is an error, and nothing changes.
  virtual void load_state_dict(const Tree& state);

  const Optimizer& optimizer() const { return *optimizer_; }

 protected:
  // `optimizer` must outlive the schedule. Every constructor ends with start().
  explicit LRScheduler(Optimizer& optimizer);
  LRScheduler(const LRScheduler&) = default;
  LRScheduler(LRScheduler&&) = default;
  LRScheduler& operator=(const LRScheduler&) = default;
  LRScheduler& operator=(LRScheduler&&) = default;

  // The rate of a group at step last_epoch(). Schedules that multiply the present rate, lr(group), can be chained.
  virtual double next_lr(size_t group) const = 0;
  // Counts a step; also what a schedule counts besides.
  virtual void advance() { ++last_epoch_; }
  // Sets whatever else a schedule drives.
  virtual void apply() {}
  // Back to before step 0. False: the schedule goes on from the rates as they are, not from the initial ones.
  virtual bool reset() {
    last_epoch_ = -1;
    return true;
  }
  // What `state_dict` has besides.
  virtual void save(Tree&) const {}
  virtual void restore(const Tree&) {}

  void start();
  // Sets the rates of step last_epoch().
  void update();
  double lr(size_t group) const { return optimizer_->lr(group); }
  double base_lr(size_t group) const { return base_lrs_[group]; }
  size_t group_count() const { return base_lrs_.size(); }
  // One value for all groups, or one each.
  std::vector<double> per_group(const std::vector<double>& values, const char* op, const char* name) const;

  Optimizer* optimizer_;
  int64_t last_epoch_ = -1;
  std::vector<double> base_lrs_;

 private:
  friend class SequentialLR;
};

// Times a factor of the number of steps; one function for all groups or one each.
class LambdaLR final : public LRScheduler {
 public:
  using Factor = std::function<double(int64_t step)>;
  LambdaLR(Optimizer& optimizer, Factor factor);
  LambdaLR(Optimizer& optimizer, std::vector<Factor> factors);

 private:
  double next_lr(size_t group) const override;
  std::vector<Factor> factors_;
};

// Every step times a factor of its number, from step 1 on.
class MultiplicativeLR final : public LRScheduler {
 public:
  using Factor = LambdaLR::Factor;
  MultiplicativeLR(Optimizer& optimizer, Factor factor);
  MultiplicativeLR(Optimizer& optimizer, std::vector<Factor> factors);

 private:
  double next_lr(size_t group) const override;
  bool reset() override;
  std::vector<Factor> factors_;
};

// --- warm-up and decay, as factors of the initial rate -------------------------------------------------------------

struct WarmupCosineOptions {
  int64_t warmup_steps = 0;  // rises linearly: (step + 1) / warmup_steps
  int64_t total_steps = 1;   // then half a cosine, from 1 down to min_factor at total_steps
  double min_factor = 0;
};
// Linear warm-up, then cosine decay (Loshchilov & Hutter 2017, arXiv:1608.03983, without restarts).
LambdaLR warmup_cosine(Optimizer& optimizer, WarmupCosineOptions options);

// The forms of Hugging Face's transformers: the first step has rate 0, step / warmup_steps in the warm-up.
struct WarmupDecayOptions {
  int64_t warmup_steps = 0;
  int64_t total_steps = 1;
};
// Then linearly to 0 at total_steps.
LambdaLR linear_warmup_linear_decay(Optimizer& optimizer, WarmupDecayOptions options);
// Then (1 + cos(2 pi cycles t)) / 2, t from 0 to 1 at total_steps; a half cycle ends at 0.
LambdaLR linear_warmup_cosine_decay(Optimizer& optimizer, WarmupDecayOptions options, double cycles = 0.5);

struct InverseSqrtOptions {
  int64_t warmup_steps = 0;
  int64_t timescale = 0;  // 0: warmup_steps, or 10000 without a warm-up
};
// Then 1 / sqrt((step - warmup_steps + timescale) / timescale) (Vaswani et al. 2017, arXiv:1706.03762).
LambdaLR inverse_sqrt(Optimizer& optimizer, InverseSqrtOptions options);

enum class Decay { linear, cosine, one_minus_sqrt };
struct WarmupStableDecayOptions {
  int64_t warmup_steps = 0;  // linearly from min_factor
  int64_t stable_steps = 0;  // at the initial rate
  int64_t decay_steps = 1;   // down to min_factor, where it stays
  Decay decay = Decay::cosine;
  double min_factor = 0;
};
// Warm-up, a plateau, and a decay when training shall end (Hu et al. 2024, arXiv:2404.06395; 1 - sqrt: Hägele et al.
// 2024, arXiv:2405.18392).
LambdaLR warmup_stable_decay(Optimizer& optimizer, WarmupStableDecayOptions options);

}  // namespace weft::optim
