// Backend: what a way of moving data between ranks has to provide. One object a rank and group.
//
// To add one, implement this class in backends/<name>/ and choose it in ProcessGroup's factories. Everything here is called by
// one thread at a time (the group's queue sees to it), except abort, poke and the plain accessors, which any thread may call.
#pragma once
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "distributed/comm/operation.h"

namespace weft::comm {

// How a thread waits for other ranks. The user's thread has nothing else to do and spins for a moment; the group's worker
// shares the cores with computation and gives way early.
enum class Patience { waiting_thread, background_worker };

// Progress of a send or a receive, kept between calls of Backend::progress.
struct Transfer {
  const Operation* operation = nullptr;
  int64_t offset = 0;   // bytes moved so far
  uint64_t ticket = 0;  // of the backend
  bool started = false;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view backend_name() const = 0;
  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::string& group_name() const { return group_name_; }

  // Carries out a collective; returns when this rank's buffers may be used again. Throws mismatch (on every rank; the group
  // stays usable), timeout or peer_lost (the group is then aborted).
  virtual void run(const Operation& operation, Patience patience) = 0;

  // Moves a send or receive on as far as it goes without waiting; true when it is complete.
  virtual bool progress(Transfer& transfer) = 0;
  // Waits until one of `transfers` may go on, or poke() was called. Throws as run does.
  virtual void wait_for_progress(std::span<Transfer* const> transfers, Patience patience) = 0;
  // Ends a wait_for_progress of this rank.
  virtual void poke() = 0;

  // For a backend that stands on this one: throws what `operation` would fail with if the group was aborted, and says
  // whether the process of another rank has ended.
  virtual bool check(const Operation& operation) = 0;
  // Whether tensors of this device may be given to it.
  virtual bool reaches(Device device) const {
    // What the emulator's kernels work on is ordinary memory.
    return device.type == DeviceType::cpu || device.type == DeviceType::simt;
  }

  // Makes every present and later operation of the group, its sub-groups and the group it came from fail on every rank with
  // this reason. The first reason stays.
  virtual void abort(ErrorCode code, std::string_view reason) = 0;

  // Collective. `bytes` of zeroed memory that this rank and, by its peers' addressing, all others reach without a copy; null
  // where plain memory does as well. Throws out_of_memory on every rank.
  virtual std::shared_ptr<void> allocate_shared(int64_t bytes, std::chrono::milliseconds timeout) = 0;

  // Collective over the members only: the group of those ranks of this group, in this order. `id` is the same on all members and
  // differs from that of any other sub-group of this group.
  virtual std::unique_ptr<Backend> subgroup(const std::vector<int>& ranks, uint64_t id, std::string name,
                                            std::chrono::milliseconds timeout) = 0;

 protected:
  Backend(int rank, int size, std::string group_name) : rank_(rank), size_(size), group_name_(std::move(group_name)) {}

 private:
  int rank_;
  int size_;
  std::string group_name_;
};

}  // namespace weft::comm
