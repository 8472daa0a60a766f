// Learning-rate schedules.
//
//   auto schedule = optim::warmup_cosine(opt, {.warmup_steps = 100, .total_steps = 900});
//   for (…) { …; opt.step(); schedule.step(); }
//
// A schedule multiplies each group's initial learning rate by a factor of the number of steps taken; the factor for
// step 0 is in force as soon as the schedule is made, as in PyTorch.
#pragma once
#include <functional>
#include <vector>

#include "optim/optimizer.h"

namespace weft::optim {

class LambdaLR {
 public:
  using Factor = std::function<double(int64_t step)>;
  // `optimizer` must outlive the schedule.
  LambdaLR(Optimizer& optimizer, Factor factor);
  void step();
  int64_t last_epoch() const { return steps_; }  // PyTorch's name for the number of steps taken
  std::vector<double> last_lr() const;

  Tree state_dict() const;
  void load_state_dict(const Tree& state);

 private:
  void apply();
  Optimizer* optimizer_;
  Factor factor_;
  int64_t steps_ = 0;
  std::vector<double> initial_;
};

struct WarmupCosineOptions {
  int64_t warmup_steps = 0;  // rises linearly: (step + 1) / warmup_steps
  int64_t total_steps = 1;   // then half a cosine, from 1 down to min_factor at total_steps
  double min_factor = 0;
};
// Linear warm-up, then cosine decay (Loshchilov & Hutter 2017, arXiv:1608.03983, without restarts).
LambdaLR warmup_cosine(Optimizer& optimizer, WarmupCosineOptions options);

}  // namespace weft::optim
