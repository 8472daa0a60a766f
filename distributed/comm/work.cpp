#include "distributed/comm/work.h"

#include "distributed/comm/group.h"
#include "distributed/comm/queue.h"

namespace weft {

void Work::wait() const {
  if (!task_) return;
  if (task_->done.load(std::memory_order_acquire) == 0) group_->queue().wait(*task_);
  if (task_->error) std::rethrow_exception(task_->error);
}

bool Work::done() const { return !task_ || task_->done.load(std::memory_order_acquire) != 0; }

uint64_t Work::sequence() const { return task_ ? task_->operation.sequence : 0; }

std::string_view Work::name() const { return task_ ? comm::name(task_->operation.kind) : "none"; }

}  // namespace weft
