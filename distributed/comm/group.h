// Group: what a ProcessGroup handle points at, one object a rank: backend, queue, counters. It knows memory, not tensors.
#pragma once
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "distributed/comm/backend.h"
#include "distributed/comm/queue.h"
#include "distributed/comm/store.h"
#include "distributed/comm/work.h"

namespace weft::comm {

class Group : public std::enable_shared_from_this<Group> {
 public:
  Group(std::unique_ptr<Backend> backend, std::shared_ptr<Store> store, std::chrono::milliseconds timeout);
  // Carries out what is queued; when an exception is on its way, aborts instead, as the other ranks would wait in vain.
  ~Group();

  Backend& backend() { return *backend_; }
  Queue& queue() { return queue_; }
  int rank() const { return backend_->rank(); }
  int size() const { return backend_->size(); }
  const std::shared_ptr<Store>& store() const { return store_; }
  std::chrono::milliseconds timeout() const { return timeout_; }

  // Queues the operation; fills in sequence number and timeout, throws when its peer or reduction makes no sense. `finish`
  // owns the memory, see Task.
  Work submit(Operation operation, std::function<void()> finish = {});

  // Every rank's bytes, which may differ in length. Waits.
  std::vector<std::string> all_gather_bytes(const std::string& bytes, CallSite site);
  // The root's bytes. Waits.
  std::string broadcast_bytes(const std::string& bytes, int root, CallSite site);
  // Zeroed memory reachable by all ranks, or null when any memory is. Waits; throws mismatch when the sizes differ.
  std::shared_ptr<void> allocate_shared(int64_t bytes, CallSite site);
  // Waits. Null for ranks with a negative color.
  std::shared_ptr<Group> split(int color, int key, std::string name, CallSite site);
  // Waits. The same ranks, who may then also pass tensors on `device`, each its own.
  std::shared_ptr<Group> with_device(Device device, CallSite site);
  // Waits. Null for ranks whose list does not hold them.
  std::shared_ptr<Group> subgroup(const std::vector<int>& ranks, std::string name, CallSite site);

 private:
  std::shared_ptr<Group> make_subgroup(const std::vector<int>& ranks, uint64_t color, std::string name);

  std::unique_ptr<Backend> backend_;
  std::shared_ptr<Store> store_;
  std::chrono::milliseconds timeout_;
  int exceptions_;
  uint64_t collectives_ = 0;
  uint64_t transfers_ = 0;
  uint64_t splits_ = 0;
  Queue queue_;  // last: it goes first
};

}  // namespace weft::comm
