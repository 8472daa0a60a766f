// Queue: carries out a group's operations in the order they were issued, on whichever thread is there first.
//
// Handing an operation to another thread and waiting for it costs two wake-ups, tens of microseconds. So nobody is woken
// for a small operation: the thread that waits for it runs the queue itself. A worker thread runs what nobody waits for: it
// is woken at once for operations worth overlapping with computation (over kWakeBytes), and looks for others every
// millisecond. Only one thread at a time, the executor, runs operations.
//
// Collectives run one after the other. Sends and receives that stand next to each other in the queue run at the same
// time, so that two ranks that first send to, then receive from each other do not block; between the same two ranks
// they keep their order.
#pragma once
#include <atomic>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "distributed/comm/backend.h"

namespace weft::comm {

// An operation on its way, shared by the queue and the Work handles.
struct Task {
  Operation operation;
  // Owns what the operation uses; called when it has succeeded, and dropped in any case when it is over.
  std::function<void()> finish;
  Transfer transfer;
  std::exception_ptr error;  // valid once done
  std::atomic<uint32_t> done{0};
  std::atomic<uint32_t> waiters{0};
};

class Queue {
 public:
  static constexpr int64_t kWakeBytes = int64_t{1} << 20;

  explicit Queue(Backend& backend) : backend_(backend) {}
  // Carries out what is still queued.
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  void push(std::shared_ptr<Task> task);
  // Returns when the task is done; its error is the caller's to look at.
  void wait(Task& task);

 private:
  // Runs operations until `until` is done, or, without one, until the queue is empty. Only for the executor.
  void execute(const Task* until, Patience patience);
  void run_collective(Task& task, Patience patience);
  void run_transfers(const Task* until, Patience patience);
  void complete(Task& task, std::exception_ptr error);
  void wake_worker();
  void work();

  Backend& backend_;
  std::mutex executor_;
  std::vector<std::shared_ptr<Task>> transfers_;  // begun, not done; the executor's
  std::mutex mutex_;                              // of pending_
  std::deque<std::shared_ptr<Task>> pending_;
  std::atomic<int64_t> unfinished_{0};
  std::atomic<uint64_t> pushed_{0};
  std::atomic<uint32_t> signal_{0};  // what the worker sleeps on
  std::atomic<bool> asleep_{false};  // the worker no longer looks by itself
  std::atomic<bool> stop_{false};
  std::thread worker_;  // started by the first push
};

}  // namespace weft::comm
