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
#pragma once
#include <memory>

#include "distributed/comm/process_group.h"
#include "distributed/ddp/bucket.h"
#include "nn/module.h"

namespace weft::ddp {

struct Options {
  double bucket_cap_mb = 25;       // MiB
  double first_bucket_mb = 1;      // MiB
  bool find_unused_parameters = false;
  bool broadcast_buffers = true;   // rank 0's buffers go to all ranks before each forward that is to be synchronised
};

class DistributedDataParallel {
 public:
  // Collective. The module must outlive this object; all ranks give the same parameters (checked). The module is used as
  // before: net(x).
  DistributedDataParallel(nn::ModuleBase& module, ProcessGroup group, Options options = {});
  ~DistributedDataParallel();
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  // While it lives, backward only adds to the local gradients; the next backward without it reduces the sums.
  class [[nodiscard]] NoSync {
   public:
    explicit NoSync(bool& flag) : flag_(&flag), before_(flag) { flag = false; }
    NoSync(NoSync&& other) noexcept : flag_(std::exchange(other.flag_, nullptr)), before_(other.before_) {}
    NoSync& operator=(NoSync&&) = delete;
    ~NoSync() {
      if (flag_) *flag_ = before_;
    }

   private:
    bool* flag_;
    bool before_;
  };
  NoSync no_sync();
  // Whether backward is to reduce now.
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
