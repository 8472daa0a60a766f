// What prepare() gives back for optimizers, schedulers and loaders: handles that look like what they wrap and keep to the
// rules of the loop. While gradients are only accumulated, optimizer and scheduler do nothing.
#pragma once
#include <memory>

#include "data/loader.h"
#include "distributed/accelerator/gradient_state.h"
#include "optim/optimizer.h"
#include "optim/scheduler.h"

namespace weft {

// step() and zero_grad() act only where gradients are synchronised.
class PreparedOptimizer {
 public:
  PreparedOptimizer(optim::Optimizer& optimizer, std::shared_ptr<GradientState> state)
      : optimizer_(&optimizer), state_(std::move(state)) {}
  void step() {
    if (state_->sync_gradients) optimizer_->step();
  }
  void zero_grad() {
    if (state_->sync_gradients) optimizer_->zero_grad();
  }
  double lr(size_t group = 0) const { return optimizer_->lr(group); }
  // The optimizer that was handed to prepare.
  optim::Optimizer& optimizer() const { return *optimizer_; }

 private:
  optim::Optimizer* optimizer_;
  std::shared_ptr<GradientState> state_;
};

// One call steps the schedule once for every rank, as each rank's batch would have been a step of its own; once with
// split_batches, where all ranks share one batch. So a schedule written for one process keeps its meaning.
class PreparedScheduler {
 public:
  struct Rules {
    int num_processes = 1;
    bool split_batches = false;
    bool step_with_optimizer = true;  // false: a call is one step, whatever happens
  };
  PreparedScheduler(optim::LRScheduler& scheduler, std::shared_ptr<GradientState> state, Rules rules)
      : scheduler_(&scheduler), state_(std::move(state)), rules_(rules) {}
  void step();
  std::vector<double> last_lr() const { return scheduler_->last_lr(); }
  int64_t last_epoch() const { return scheduler_->last_epoch(); }
  optim::LRScheduler& scheduler() const { return *scheduler_; }

 private:
  optim::LRScheduler* scheduler_;
  std::shared_ptr<GradientState> state_;
  Rules rules_;
};

}  // namespace weft
