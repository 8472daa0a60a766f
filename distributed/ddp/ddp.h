// DistributedDataParallel: one model, a copy on every rank, gradients averaged during backward.
//
//   auto group = ProcessGroup::from_environment();
//   ddp::DistributedDataParallel ddp(net, group, {.bucket_cap_mb = 25});
//   loss.backward();                              // on return every rank has the same, averaged gradients
//
// How it works. When made, it copies rank 0's parameters and buffers to all ranks, and gives every gradient a place in a
// bucket: param.grad() becomes a view of the bucket's flat tensor, so nothing is packed or unpacked. During backward each
// parameter's hook counts its bucket down; at zero the bucket's all-reduce starts, strictly in bucket order on every rank,
// while backward goes on. At the end backward waits for all of them. After the first backward the buckets are rebuilt
// once, in the order in which rank 0's gradients really came. (Li et al. 2020, arXiv:2006.15704.)
//
// A parameter without a gradient on some rank: with find_unused_parameters it counts as zeros there, and keeps an
// undefined gradient if no rank used it; without, backward throws the same error on every rank, naming parameters and ranks.
// That costs nothing while all are used: each bucket carries one more number, how many of its gradients are missing.
// A rank whose backward reaches no parameter at all has no hook that would run, so the others wait until it goes on. Its
// next collective, or its end, then gives every rank an error with its number: reductions carry the number of their backward.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "distributed/comm/process_group.h"
#include "distributed/ddp/bucket.h"
#include "nn/module.h"

namespace weft::ddp {

struct Options {
  double bucket_cap_mb = 25;   // MiB
  double first_bucket_mb = 1;  // MiB; at most bucket_cap_mb counts
  bool find_unused_parameters = false;
  bool broadcast_buffers = true;  // rank 0's buffers go to all ranks before each forward that is to be synchronised
};

class DistributedDataParallel {
 public:
  // Collective. The module must outlive this object; all ranks give the same parameters (checked). The module is used as
  // before: net(x).
  DistributedDataParallel(nn::ModuleBase& module, ProcessGroup group, Options options = {});
  ~DistributedDataParallel();
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  // Sets flags while it lives.
  class [[nodiscard]] SyncGuard {
   public:
    SyncGuard() = default;
    SyncGuard(SyncGuard&& other) noexcept : before_(std::exchange(other.before_, {})) {}
    SyncGuard& operator=(SyncGuard&&) = delete;
    ~SyncGuard() {
      for (const auto& [flag, value] : before_) *flag = value;
    }

   private:
    friend class DistributedDataParallel;
    void set(bool& flag, bool value) {
      before_.emplace_back(&flag, flag);
      flag = value;
    }
    std::vector<std::pair<bool*, bool>> before_;
  };
  // A forward or a backward while it lives only adds to the local gradients: as in PyTorch the latest forward decides for
  // the backward passes after it. The next forward and backward without it reduce the sums.
  SyncGuard no_sync();
  // A backward while it lives reduces, even if its forward ran under no_sync().
  SyncGuard trigger_sync_in_backward();
  // Whether a forward and backward now are to reduce.
  bool require_sync() const;
  void set_require_sync(bool value);

  const ProcessGroup& group() const;
  // Bytes of each bucket, in the order in which they are reduced.
  std::vector<int64_t> bucket_bytes() const;
  // The buckets' parameter names.
  std::vector<std::vector<std::string>> bucket_names() const;

 private:
  class Reducer;
  std::unique_ptr<Reducer> reducer_;
};

}  // namespace weft::ddp
