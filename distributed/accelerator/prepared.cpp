#include "distributed/accelerator/prepared.h"

namespace weft {

void PreparedScheduler::step() {
  if (rules_.step_with_optimizer && !state_->sync_gradients) return;
  const bool once = !rules_.step_with_optimizer || rules_.split_batches;
  for (int i = 0; i < (once ? 1 : rules_.num_processes); ++i) scheduler_->step();
}

}  // namespace weft
