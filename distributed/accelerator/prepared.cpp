#include "distributed/accelerator/prepared.h"

namespace weft {

void PreparedScheduler::step() {
  if (rules_.step_with_optimizer && !state_->sync_gradients) return;
  const bool once = !rules_.step_with_optimizer || rules_.split_batches;
  // Where the last batches of an epoch are uneven, the ranks' steps may add up to a few more than a cycle has.
  const auto ended = [&] {
    const auto total = scheduler_->total_steps();
    return total && scheduler_->last_epoch() >= *total;
  };
  for (int i = 0; i < (once ? 1 : rules_.num_processes) && !ended(); ++i) scheduler_->step();
}

}  // namespace weft
