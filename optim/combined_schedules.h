// Schedules made of others: one after another (SequentialLR), or all at once (ChainedScheduler).
//
//   auto warmup = std::make_shared<optim::LinearLR>(opt, optim::LinearLROptions{.start_factor = 0.1, .total_iters = 6});
//   auto decay = std::make_shared<optim::CosineAnnealingLR>(opt, 20);
//   optim::SequentialLR schedule(opt, {warmup, decay}, {6});      // the second from step 6 on, as its step 0
#pragma once
#include <memory>
#include <vector>

#include "optim/scheduler.h"

namespace weft::optim {

class SequentialLR final : public LRScheduler {
 public:
  // One schedule more than milestones, which rise; all on `optimizer`, made just before.
  SequentialLR(Optimizer& optimizer, std::vector<std::shared_ptr<LRScheduler>> schedulers,
               std::vector<int64_t> milestones);
  Tree state_dict() const override;
  void load_state_dict(const Tree& state) override;

 private:
  double next_lr(size_t group) const override { return lr(group); }
  void advance() override;
  bool reset() override;
  static void restart(LRScheduler& scheduler);
  std::vector<std::shared_ptr<LRScheduler>> schedulers_;
  std::vector<int64_t> milestones_;
};

// Every step is a step of each, in order: schedules that multiply the present rate multiply together.
class ChainedScheduler final : public LRScheduler {
 public:
  explicit ChainedScheduler(std::vector<std::shared_ptr<LRScheduler>> schedulers);
  Tree state_dict() const override;
  void load_state_dict(const Tree& state) override;

 private:
  double next_lr(size_t group) const override { return lr(group); }
  void advance() override;
  std::vector<std::shared_ptr<LRScheduler>> schedulers_;
};

}  // namespace weft::optim
