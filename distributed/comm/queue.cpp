#include "distributed/comm/queue.h"

#include <algorithm>

#include "distributed/comm/futex.h"

namespace weft::comm {
namespace {

using namespace std::chrono_literals;

constexpr auto kNap = 1ms;
constexpr int kNapsUntilAsleep = 100;

}  // namespace

Queue::~Queue() {
  if (unfinished_.load() > 0) {
    const std::lock_guard lock(executor_);
    execute(nullptr, Patience::waiting_thread);
  }
  stop_.store(true);
  if (worker_.joinable()) {
    wake_worker();
    worker_.join();
  }
}

void Queue::wake_worker() {
  signal_.fetch_add(1);
  futex_wake(signal_, Scope::process);
}

void Queue::push(std::shared_ptr<Task> task) {
  const OpKind kind = task->operation.kind;
  const bool large = task->operation.bytes() > kWakeBytes;
  if (backend_.size() > 1 && !worker_.joinable()) worker_ = std::thread([this] { work(); });
  unfinished_.fetch_add(1);
  pushed_.fetch_add(1, std::memory_order_relaxed);
  {
    const std::lock_guard lock(mutex_);
    pending_.push_back(std::move(task));
  }
  if (backend_.size() == 1) {
    const std::lock_guard lock(executor_);
    return execute(nullptr, Patience::waiting_thread);
  }
  if (is_point_to_point(kind)) backend_.poke();  // it may join those that the executor waits for
  if (large || asleep_.load()) wake_worker();
}

void Queue::wait(Task& task) {
  const auto done = [&task] { return task.done.load(std::memory_order_acquire) != 0; };
  while (!done()) {
    if (executor_.try_lock()) {
      execute(&task, Patience::waiting_thread);
      executor_.unlock();
      if (unfinished_.load() > 0) wake_worker();
      continue;
    }
    // The executor is one of our own threads and may need this core.
    if (spin_until(done, 50us, true)) break;
    task.waiters.fetch_add(1);
    if (task.done.load() == 0) futex_wait(task.done, 0, 1ms, Scope::process);
    task.waiters.fetch_sub(1);
  }
}

void Queue::complete(Task& task, std::exception_ptr error) {
  if (!error && task.finish) {
    try {
      task.finish();
    } catch (...) {
      error = std::current_exception();
    }
  }
  task.finish = nullptr;
  task.error = std::move(error);
  unfinished_.fetch_sub(1);
  task.done.store(1);
  if (task.waiters.load() != 0) futex_wake(task.done, Scope::process);
}

void Queue::run_collective(Task& task, Patience patience) {
  std::exception_ptr error;
  try {
    backend_.run(task.operation, patience);
  } catch (...) {
    error = std::current_exception();
  }
  complete(task, std::move(error));
}

void Queue::execute(const Task* until, Patience patience) {
  while (!until || until->done.load() == 0) {
    std::shared_ptr<Task> next;
    {
      const std::lock_guard lock(mutex_);
      while (!pending_.empty() && is_point_to_point(pending_.front()->operation.kind)) {
        transfers_.push_back(std::move(pending_.front()));
        pending_.pop_front();
      }
      if (transfers_.empty()) {
        if (pending_.empty()) return;
        next = std::move(pending_.front());
        pending_.pop_front();
      }
    }
    if (next) {
      run_collective(*next, patience);
    } else {
      run_transfers(until, patience);
    }
  }
}

// One round over the transfers; waits where none of them gets on.
void Queue::run_transfers(const Task* until, Patience patience) {
  std::vector<Transfer*> heads;  // the first of each direction and peer: the others have to wait for it
  bool completed = false;
  for (const std::shared_ptr<Task>& task : transfers_) {
    const Operation& operation = task->operation;
    const bool behind_another = std::any_of(heads.begin(), heads.end(), [&](const Transfer* head) {
      return head->operation->kind == operation.kind && head->operation->peer == operation.peer;
    });
    if (behind_another) continue;
    std::exception_ptr error;
    bool done = false;
    try {
      task->transfer.operation = &operation;
      done = backend_.progress(task->transfer);
    } catch (...) {
      error = std::current_exception();
    }
    if (done || error) {
      complete(*task, std::move(error));
      completed = true;
    } else {
      heads.push_back(&task->transfer);
    }
  }
  if (completed) {
    transfers_.erase(std::remove_if(transfers_.begin(), transfers_.end(),
                                    [](const std::shared_ptr<Task>& task) { return task->done.load() != 0; }),
                     transfers_.end());
    return;
  }
  if (until && until->done.load() != 0) return;
  try {
    backend_.wait_for_progress(heads, patience);
  } catch (...) {  // the group is aborted
    for (const std::shared_ptr<Task>& task : transfers_) complete(*task, std::current_exception());
    transfers_.clear();
  }
}

void Queue::work() {
  int naps = 0;
  uint64_t pushed = 0;
  while (!stop_.load()) {
    const uint32_t seen = signal_.load();
    if (unfinished_.load() > 0 && executor_.try_lock()) {
      execute(nullptr, Patience::background_worker);
      executor_.unlock();
    }
    const uint64_t now_pushed = pushed_.load(std::memory_order_relaxed);
    naps = now_pushed == pushed ? naps + 1 : 0;
    pushed = now_pushed;
    const bool asleep = naps >= kNapsUntilAsleep;
    asleep_.store(asleep);
    if (asleep && unfinished_.load() > 0) {  // pushed before it could see that we are asleep
      naps = 0;
      continue;
    }
    if (stop_.load()) return;
    futex_wait(signal_, seen, asleep ? std::chrono::nanoseconds(1s) : std::chrono::nanoseconds(kNap), Scope::process);
  }
}

}  // namespace weft::comm
