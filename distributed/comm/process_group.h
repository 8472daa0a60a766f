// ProcessGroup: a number of ranks that exchange tensors.
//
//   auto group = ProcessGroup::from_environment();          // the processes of `weft launch`; alone: one rank
//   Work work = group.all_reduce(gradient, Reduce::mean);   // asynchronous
//   work.wait();                                            // throws Error naming op, sizes, ranks
//
//   run_ranks(4, [](ProcessGroup group) { … });             // four ranks as threads of this process
//
// Rules. Every rank calls the same collectives in the same order, from one thread a group. A tensor belongs to the operation
// until its Work is done. Results are the same bits on every rank: elements are combined in rank order, whatever the size
// or algorithm. Tensors may be non-contiguous (they are copied) and empty. They live on the CPU, or on a GPU in a group made by with_device.
// Gradients are not recorded.
//
// Errors. A wrong argument throws at the call. Work::wait throws mismatch on every rank when ranks call different things
// (the group stays usable); timeout, naming the rank that is behind and its last operation; peer_lost when a rank has died.
// After the last two the group and its sub-groups are out of use: every later operation throws the same reason.
//
// Small operations run on the thread that waits for them, large ones (over 1 MiB) begin at once on a worker thread, so that
// they overlap with computation.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "distributed/comm/operation.h"
#include "distributed/comm/reduce.h"
#include "distributed/comm/store.h"
#include "distributed/comm/work.h"
#include "tensor/tensor.h"

namespace weft {

struct ProcessGroupOptions {
  std::string name = "world";  // for error texts
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};

class ProcessGroup {
 public:
  // --- making one ---------------------------------------------------------------------------------------------
  ProcessGroup() = default;  // undefined
  // The ranks the launcher started: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT (distributed/launch/environment.h); one
  // rank when they are not set. All processes must be on one host. Collective; throws timeout when a rank does not come.
  static ProcessGroup from_environment(ProcessGroupOptions options = {});
  // `size` ranks of this process, one for each thread that takes one.
  static std::vector<ProcessGroup> threads(int size, ProcessGroupOptions options = {});
  // Processes of one host that share a store. Collective.
  static ProcessGroup shm(std::shared_ptr<Store> store, int rank, int size, ProcessGroupOptions options = {});

  // --- what it is ---------------------------------------------------------------------------------------------
  bool defined() const noexcept { return static_cast<bool>(group_); }
  int rank() const;
  int size() const;
  const std::string& name() const;
  std::string_view backend() const;  // "local", "shm" or "nccl"
  std::chrono::milliseconds timeout() const;
  const std::shared_ptr<Store>& store() const;  // that it was made with; may be null

  // --- collectives --------------------------------------------------------------------------------------------
  // x = the reduction of all ranks' x. In place without a copy if x comes from empty_shared (or the ranks are threads).
  Work all_reduce(const Tensor& x, Reduce reduce = Reduce::sum, CallSite site = {}) const;
  // The same on the root only; the others' x stays as it is.
  Work reduce(const Tensor& x, int root, Reduce reduce = Reduce::sum, CallSite site = {}) const;
  // input holds size() parts of output.numel() elements; output = the reduction of all ranks' part number rank().
  Work reduce_scatter(const Tensor& output, const Tensor& input, Reduce reduce = Reduce::sum, CallSite site = {}) const;
  // output holds size() parts of input.numel() elements: the ranks' inputs, one behind the other.
  Work all_gather(const Tensor& output, const Tensor& input, CallSite site = {}) const;
  // Waits, and returns the inputs concatenated along dimension 0; scalars give shape [size()].
  Tensor all_gather(const Tensor& input, CallSite site = {}) const;
  // all_gather for the root only; `output` is not looked at elsewhere.
  Work gather(const Tensor& output, const Tensor& input, int root, CallSite site = {}) const;
  // output = part number rank() of the root's input; `input` is not looked at elsewhere.
  Work scatter(const Tensor& output, const Tensor& input, int root, CallSite site = {}) const;
  // x = the root's x.
  Work broadcast(const Tensor& x, int root = 0, CallSite site = {}) const;
  // Both hold size() parts; part s of rank r's output = part r of rank s's input. They must not overlap.
  Work all_to_all(const Tensor& output, const Tensor& input, CallSite site = {}) const;
  // Done when every rank has come here.
  Work barrier(CallSite site = {}) const;

  // --- between two ranks --------------------------------------------------------------------------------------
  // Messages of the same two ranks and direction keep their order. Those issued one after the other run at the same time,
  // but not across a collective. A short send is done at once, a long one when it is being received.
  Work send(const Tensor& x, int to, CallSite site = {}) const;
  Work recv(const Tensor& x, int from, CallSite site = {}) const;

  // --- other things than tensors; these wait -------------------------------------------------------------------
  // Every rank's bytes, of any length.
  std::vector<std::string> all_gather_bytes(const std::string& bytes, CallSite site = {}) const;
  std::string broadcast_bytes(const std::string& bytes, int root = 0, CallSite site = {}) const;

  // --- memory and groups made from this one; collective, and they wait ------------------------------------------
  // A tensor in memory that all ranks of this group (and of sub-groups) read and write in place. Every rank gives the same
  // size. Throws out_of_memory on every rank.
  Tensor empty_shared(const Shape& shape, DType dtype = DType::f32, CallSite site = {}) const;
  // Ranks of one color form a group, ordered by key, then by rank here; a negative color: undefined, in none.
  ProcessGroup split(int color, int key = 0, std::string name = {}, CallSite site = {}) const;
  // The same ranks, who may then also exchange tensors on `device`: each rank names its own GPU. Such operations start
  // after what is queued on the calling thread's stream, and wait() returns when the GPU is done with them. NCCL carries
  // them: sums are not in rank order then, and a send is done only when it is being received. Throws unsupported, on
  // every rank, where a rank has no such device.
  ProcessGroup with_device(Device device, CallSite site = {}) const;
  // The group of these ranks, in this order. Every rank calls it; those that are to be in one group give the same list.
  // A rank whose list does not hold it gets an undefined group.
  ProcessGroup subgroup(const std::vector<int>& ranks, std::string name = {}, CallSite site = {}) const;

  // Makes every operation of the group and its sub-groups fail on all ranks, now and later. For a rank that cannot go on.
  void abort(std::string_view reason) const;

 private:
  explicit ProcessGroup(std::shared_ptr<comm::Group> group) : group_(std::move(group)) {}
  comm::Group& group() const;
  Work submit(comm::OpKind kind, const Tensor* input, const Tensor* output, int64_t count, int peer, Reduce reduce,
              CallSite site) const;
  std::shared_ptr<comm::Group> group_;
};

// Runs fn(group) on `size` threads, one a rank, and waits for all. When a rank throws, the others' operations fail at once,
// and run_ranks throws the first rank's error.
void run_ranks(int size, const std::function<void(ProcessGroup)>& fn, ProcessGroupOptions options = {});

}  // namespace weft
