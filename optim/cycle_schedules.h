// Schedules that cycle the learning rate and, against it, the momentum: PyTorch's OneCycleLR (Smith & Topin 2018,
// arXiv:1708.07120) and CyclicLR (Smith 2017, arXiv:1506.01186). The momentum is beta1 of optimizers that have one.
//
//   optim::OneCycleLR schedule(opt, {.max_lr = {0.1}, .total_steps = 900});
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "optim/scheduler.h"

namespace weft::optim {

struct OneCycleOptions {
  std::vector<double> max_lr = {};  // one, or one a group
  int64_t total_steps = 0;          // or the next two
  int64_t epochs = 0;
  int64_t steps_per_epoch = 0;
  double pct_start = 0.3;               // part of the cycle in which the rate rises
  std::string anneal_strategy = "cos";  // or "linear"
  bool cycle_momentum = true;
  std::vector<double> base_momentum = {0.85};  // at the highest rate
  std::vector<double> max_momentum = {0.95};
  double div_factor = 25;         // the first rate is max_lr / div_factor
  double final_div_factor = 1e4;  // the last one is the first / final_div_factor
  bool three_phase = false;       // up, down to the first rate, then to the last; else up, down
};
// One rise and fall over all steps. A step beyond total_steps is an error.
class OneCycleLR final : public LRScheduler {
 public:
  OneCycleLR(Optimizer& optimizer, OneCycleOptions options);
  std::optional<int64_t> total_steps() const override { return options_.total_steps; }

 private:
  double next_lr(size_t group) const override;
  void advance() override;
  void apply() override;
  bool reset() override;
  // Where a phase ends, and what it leads from and to: rates as parts of max_lr, momenta as parts of the way from
  // max_momentum to base_momentum.
  struct Phase {
    double end;
    double lr_from, lr_to;
    double momentum_from, momentum_to;
  };
  double anneal(double from, double to, double part) const;
  // The phase of this step, and how far it has gone.
  std::pair<const Phase*, double> where() const;

  OneCycleOptions options_;
  std::vector<double> max_lr_, base_momentum_, max_momentum_;
  std::vector<Phase> phases_;
};

struct CyclicOptions {
  std::vector<double> base_lr = {}, max_lr = {};  // one, or one a group
  int64_t step_size_up = 2000;
  int64_t step_size_down = 0;       // 0: as up
  std::string mode = "triangular";  // "triangular2": half as high each cycle; "exp_range": times gamma^step
  double gamma = 1;
  std::function<double(double)> scale_fn = {};  // in place of mode: of the cycle (from 1 on), or of the step
  std::string scale_mode = "cycle";             // of scale_fn: "cycle" or "iterations"
  bool cycle_momentum = true;
  std::vector<double> base_momentum = {0.8};  // at the highest rate
  std::vector<double> max_momentum = {0.9};
};
// Triangles between base_lr and max_lr.
class CyclicLR final : public LRScheduler {
 public:
  CyclicLR(Optimizer& optimizer, CyclicOptions options);

 private:
  double next_lr(size_t group) const override;
  void apply() override;
  // How high on the triangle, and how high that is.
  double height() const;
  double scale() const;

  CyclicOptions options_;
  std::vector<double> max_lr_, base_momentum_, max_momentum_;
};

}  // namespace weft::optim
