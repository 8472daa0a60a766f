// Schedules that decay or rise with the number of steps: PyTorch's StepLR, MultiStepLR, ExponentialLR, ConstantLR,
// LinearLR, PolynomialLR, CosineAnnealingLR and CosineAnnealingWarmRestarts.
//
//   optim::StepLR schedule(opt, 30, 0.1);      // a tenth every 30 steps
//
// All but the last multiply the present rate, so they can be chained (combined_schedules.h).
#pragma once
#include <vector>

#include "optim/scheduler.h"

namespace weft::optim {

// Times gamma every step_size steps.
class StepLR final : public LRScheduler {
 public:
  StepLR(Optimizer& optimizer, int64_t step_size, double gamma = 0.1);

 private:
  double next_lr(size_t group) const override;
  int64_t step_size_;
  double gamma_;
};

// Times gamma at each milestone, as often as it is listed.
class MultiStepLR final : public LRScheduler {
 public:
  MultiStepLR(Optimizer& optimizer, std::vector<int64_t> milestones, double gamma = 0.1);

 private:
  double next_lr(size_t group) const override;
  std::vector<int64_t> milestones_;
  double gamma_;
};

// Times gamma every step.
class ExponentialLR final : public LRScheduler {
 public:
  ExponentialLR(Optimizer& optimizer, double gamma);

 private:
  double next_lr(size_t group) const override;
  double gamma_;
};

// Times factor until step total_iters.
class ConstantLR final : public LRScheduler {
 public:
  ConstantLR(Optimizer& optimizer, double factor = 1.0 / 3, int64_t total_iters = 5);

 private:
  double next_lr(size_t group) const override;
  double factor_;
  int64_t total_iters_;
};

struct LinearLROptions {
  double start_factor = 1.0 / 3;
  double end_factor = 1;
  int64_t total_iters = 5;
};
// Times a factor that goes linearly from start_factor to end_factor at total_iters.
class LinearLR final : public LRScheduler {
 public:
  explicit LinearLR(Optimizer& optimizer, LinearLROptions options = {});

 private:
  double next_lr(size_t group) const override;
  LinearLROptions options_;
};

// Times (1 - step / total_iters)^power; 0 from total_iters on.
class PolynomialLR final : public LRScheduler {
 public:
  explicit PolynomialLR(Optimizer& optimizer, int64_t total_iters = 5, double power = 1);

 private:
  double next_lr(size_t group) const override;
  int64_t total_iters_;
  double power_;
};

// Half a cosine from the initial rate to eta_min in t_max steps, and back, and so on (Loshchilov & Hutter 2017,
// arXiv:1608.03983).
class CosineAnnealingLR final : public LRScheduler {
 public:
  CosineAnnealingLR(Optimizer& optimizer, int64_t t_max, double eta_min = 0);

 private:
  double next_lr(size_t group) const override;
  int64_t t_max_;
  double eta_min_;
};

struct WarmRestartsOptions {
  int64_t t_0 = 10;    // steps to the first restart
  int64_t t_mult = 1;  // each period is so many times the one before
  double eta_min = 0;
};
// The same with restarts: down to eta_min, then at once to the initial rate.
class CosineAnnealingWarmRestarts final : public LRScheduler {
 public:
  CosineAnnealingWarmRestarts(Optimizer& optimizer, WarmRestartsOptions options);
  using LRScheduler::step;
  // To a given epoch, which may be a fraction: for steps within epochs.
  void step(double epoch);

 private:
  double next_lr(size_t group) const override;
  void advance() override;
  bool reset() override;
  void save(Tree& state) const override;
  void restore(const Tree& state) override;
  WarmRestartsOptions options_;
  double t_cur_ = -1;  // since the last restart
  int64_t t_i_;        // between the last and the next
};

}  // namespace weft::optim
