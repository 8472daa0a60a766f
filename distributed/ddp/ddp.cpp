#include "distributed/ddp/ddp.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "autograd/engine.h"
#include "autograd/ops/ops.h"

namespace weft::ddp {
namespace {

constexpr double kMebibyte = 1024.0 * 1024.0;

}  // namespace

class DistributedDataParallel::Reducer {
 public:
  Reducer(nn::ModuleBase& module, ProcessGroup group, Options options)
      : module_(module), group_(std::move(group)), options_(options) {
    WEFT_CHECK(options.bucket_cap_mb > 0 && options.first_bucket_mb > 0, "ddp",
               "bucket sizes must be positive, got {} and {} MiB", options.bucket_cap_mb, options.first_bucket_mb);
    for (auto& [name, tensor] : module.named_parameters())
      if (tensor.requires_grad()) parameters_.push_back({name, tensor});
    check_same_parameters();
    WEFT_CHECK(!parameters_.empty(), "ddp", "the module has no parameter that requires a gradient");
    broadcast_state();
    // Gradients come roughly in the reverse of the order in which parameters were declared.
    std::vector<size_t> order(parameters_.size());
    std::iota(order.rbegin(), order.rend(), size_t{0});
    build_buckets(order);
    hooks_.push_back(module.register_forward_pre_hook([this](nn::ModuleBase&, auto) { before_forward(); }));
    for (size_t i = 0; i < parameters_.size(); ++i)
      hooks_.push_back(
          parameters_[i].tensor.register_post_accumulate_grad_hook([this, i](const Tensor&) { gradient_ready(i); }));
  }

  ~Reducer() {
    for (HookHandle& hook : hooks_) hook.remove();
    for (const Parameter& parameter : parameters_) autograd_meta(parameter.tensor).grad_slot = Tensor();
  }

  bool require_sync = true;
  bool forward_synced = true;  // what require_sync was in the latest forward
  const ProcessGroup& group() const { return group_; }

  std::vector<int64_t> bucket_bytes() const {
    std::vector<int64_t> result;
    for (const Bucket& bucket : buckets_) result.push_back(bucket.gradients * size_of(bucket.flat.dtype()));
    return result;
  }

  std::vector<std::vector<std::string>> bucket_names() const {
    std::vector<std::vector<std::string>> result;
    for (const Bucket& bucket : buckets_) {
      result.emplace_back();
      for (size_t i : bucket.members) result.back().push_back(parameters_[i].name);
    }
    return result;
  }

 private:
  struct Bucket {
    std::vector<size_t> members;
    Tensor flat;            // gradients, and behind them how many are missing
    int64_t gradients = 0;  // elements
    size_t pending = 0;
    Work work;
  };

  void check_same_parameters() {
    std::string mine;
    for (const Parameter& parameter : parameters_) mine += parameter.name + " " + describe(parameter.tensor) + "\n";
    const std::vector<std::string> all = group_.all_gather_bytes(mine);
    for (size_t rank = 0; rank < all.size(); ++rank) {
      if (all[rank] == all[0]) continue;
      const auto line = [](const std::string& text, size_t at) {
        const size_t start = text.rfind('\n', at) == std::string::npos || at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
        const size_t end = std::min(text.find('\n', start), text.size());
        return start < text.size() ? text.substr(start, end - start) : std::string("nothing");
      };
      size_t at = 0;
      while (at < all[0].size() && at < all[rank].size() && all[0][at] == all[rank][at]) ++at;
      fail(ErrorCode::mismatch, "ddp", "the ranks' parameters differ: rank 0 has {}, rank {} has {}", line(all[0], at),
           rank, line(all[rank], at));
    }
  }

  void broadcast_state() {
    NoGrad guard;
    std::vector<Work> works;
    for (const auto& [name, tensor] : module_.named_parameters()) works.push_back(group_.broadcast(tensor, 0));
    for (const auto& [name, tensor] : module_.named_buffers()) works.push_back(group_.broadcast(tensor, 0));
    for (const Work& work : works) work.wait();
    for (const auto& [name, tensor] : module_.named_parameters()) tensor.storage()->bump_version();
  }

  void build_buckets(const std::vector<size_t>& order) {
    NoGrad guard;
    std::vector<Bucket> buckets;
    for (std::vector<size_t>& members :
         assign_buckets(parameters_, order,
                        static_cast<int64_t>(std::min(options_.first_bucket_mb, options_.bucket_cap_mb) * kMebibyte),
                        static_cast<int64_t>(options_.bucket_cap_mb * kMebibyte))) {
      Bucket bucket;
      for (size_t i : members) bucket.gradients += parameters_[i].tensor.numel();
      bucket.flat = group_.empty_shared({bucket.gradients + 1}, parameters_[members[0]].tensor.dtype());
      bucket.flat.zero_();
      int64_t offset = 0;
      for (size_t i : members) {
        const Tensor& parameter = parameters_[i].tensor;
        const Tensor slot =
            bucket.flat.alias(parameter.shape(), contiguous_strides(parameter.shape()), bucket.flat.offset() + offset);
        offset += parameter.numel();
        // A gradient that is there already moves to its new place.
        if (const Tensor gradient = parameter.grad(); gradient.defined()) {
          slot.copy_(gradient);
          parameter.set_grad(slot);
        }
        autograd_meta(parameter).grad_slot = slot;
      }
      bucket.members = std::move(members);
      buckets.push_back(std::move(bucket));
    }
    buckets_ = std::move(buckets);
    bucket_of_.assign(parameters_.size(), 0);
    for (size_t b = 0; b < buckets_.size(); ++b)
      for (size_t i : buckets_[b].members) bucket_of_[i] = b;
  }

  // Once, after the first backward that was reduced: rank 0 says in which order its gradients came.
  void rebuild_buckets() {
    rebuilt_ = true;
    if (buckets_.size() < 2 && parameters_.size() < 2) return;
    Tensor order = empty({static_cast<int64_t>(parameters_.size())}, DType::i64);
    std::copy(arrival_.begin(), arrival_.end(), order.data<int64_t>());
    group_.broadcast(order, 0).wait();
    std::vector<size_t> agreed;
    for (int64_t i : order.view<int64_t>()) agreed.push_back(static_cast<size_t>(i));
    build_buckets(agreed);
  }

  void before_forward() {
    if (!GradMode::enabled() || in_backward_) return;  // evaluation, or a checkpoint that runs forward again
    wait_for_left_over();
    notice_missed_backward();
    forward_synced = require_sync;
    if (!require_sync) return;
    backward_expected_ = true;
    backward_count_ = backward_count();
    if (order_known_ && !rebuilt_) rebuild_buckets();
    if (!options_.broadcast_buffers) return;
    // New tensors: the old ones may be saved in a graph that has still to run backward.
    std::vector<Work> works;
    for (const auto& [name, slot] : module_.buffer_slots()) {
      if (group_.size() == 1) break;
      *slot = slot->detach().clone();
      works.push_back(group_.broadcast(*slot, 0));
    }
    for (const Work& work : works) work.wait();
  }

  // A backward ran after the last forward and reached none of our parameters. On the other ranks it may have reached
  // some: they wait for this rank's reductions. Ours of the next backward must not be taken for those, so this one
  // counts: the ranks then disagree, and all get an error that says so. (Where it is the same on all ranks, as when
  // another model was trained, they go on to agree.)
  void notice_missed_backward() {
    if (std::exchange(backward_expected_, false) && backward_count() != backward_count_) ++round_;
  }

  // A backward that threw leaves reductions on their way; the next gradients must not be written under them.
  void wait_for_left_over() {
    for (Bucket& bucket : buckets_) std::exchange(bucket.work, Work()).wait();
  }

  void start_backward() {
    // The engine drops its callbacks when backward throws; this one then takes the flag with it.
    struct Running {
      explicit Running(bool& f) : flag(f) { flag = true; }
      ~Running() { flag = false; }
      bool& flag;
    };
    queue_backward_callback([this, running = std::make_shared<Running>(in_backward_)] { finish_backward(); });
    backward_expected_ = false;
    ++round_;
    next_bucket_ = 0;
    ready_.assign(parameters_.size(), false);
    if (!rebuilt_) {
      arrival_.clear();
      order_known_ = false;
    }
    wait_for_left_over();
    for (Bucket& bucket : buckets_) bucket.pending = bucket.members.size();
  }

  void gradient_ready(size_t index) {
    if (!require_sync || !forward_synced) return;
    if (!in_backward_) start_backward();
    if (ready_[index])
      fail(ErrorCode::unsupported, "ddp",
           "parameter {} got its gradient twice in one backward; a parameter inside more than one checkpoint needs "
           "no_sync() and one backward without it",
           parameters_[index].name);
    ready_[index] = true;
    if (!rebuilt_) arrival_.push_back(static_cast<int64_t>(index));
    --buckets_[bucket_of_[index]].pending;
    while (next_bucket_ < buckets_.size() && buckets_[next_bucket_].pending == 0) launch(buckets_[next_bucket_++]);
  }

  void launch(Bucket& bucket) {
    NoGrad guard;
    int64_t missing = 0;
    for (size_t i : bucket.members) {
      const Tensor& parameter = parameters_[i].tensor;
      const Tensor& slot = autograd_meta(parameter).grad_slot;
      const Tensor gradient = parameter.grad();
      if (!gradient.defined()) {
        slot.zero_();
        ++missing;
      } else if (!gradient.is(slot)) {
        slot.copy_(gradient);
        parameter.set_grad(slot);
      }
    }
    bucket.flat.select(0, bucket.gradients).fill_(static_cast<double>(missing));
    bucket.work = group_.all_reduce(bucket.flat, Reduce::mean, CallSite().in_round(round_));
  }

  void finish_backward() {
    while (next_bucket_ < buckets_.size()) launch(buckets_[next_bucket_++]);
    bool missing = false;
    for (Bucket& bucket : buckets_) {
      wait_for_reduction(bucket);
      missing = missing || bucket.flat.select(0, bucket.gradients).item() != 0;
    }
    // Unused parameters come last in the order of arrival.
    for (size_t i = 0; i < parameters_.size() && !rebuilt_; ++i)
      if (!ready_[i]) arrival_.push_back(static_cast<int64_t>(i));
    order_known_ = true;
    if (missing) settle_missing();
  }

  static void wait_for_reduction(Bucket& bucket) {
    try {
      std::exchange(bucket.work, Work()).wait();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::mismatch) throw;
      fail(ErrorCode::mismatch, "ddp",
           "{}; a round is one backward: a rank in a later round had one that reached no parameter of the module",
           error.what());
    }
  }

  // Every rank knows that some gradient was missing somewhere; now all learn which.
  void settle_missing() {
    std::string used(parameters_.size(), '0');
    for (size_t i = 0; i < parameters_.size(); ++i)
      if (parameters_[i].tensor.grad().defined()) used[i] = '1';
    const std::vector<std::string> all = group_.all_gather_bytes(used);
    std::vector<std::string> complaints;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      std::vector<int> without;
      for (size_t rank = 0; rank < all.size(); ++rank)
        if (all[rank][i] == '0') without.push_back(static_cast<int>(rank));
      if (without.empty()) continue;
      if (!options_.find_unused_parameters)
        complaints.push_back(fmt::format("{} (rank {})", parameters_[i].name, fmt::join(without, ", ")));
      const Tensor& parameter = parameters_[i].tensor;
      parameter.set_grad(without.size() == all.size() ? Tensor() : autograd_meta(parameter).grad_slot);
    }
    WEFT_CHECK(complaints.empty(), "ddp",
               "these parameters got no gradient: {}; set find_unused_parameters = true if that is meant",
               fmt::join(complaints, "; "));
  }

  nn::ModuleBase& module_;
  ProcessGroup group_;
  Options options_;
  std::vector<Parameter> parameters_;
  std::vector<Bucket> buckets_;
  std::vector<size_t> bucket_of_;  // by parameter
  std::vector<HookHandle> hooks_;
  std::vector<bool> ready_;
  std::vector<int64_t> arrival_;
  size_t next_bucket_ = 0;
  bool in_backward_ = false;
  bool order_known_ = false;  // a backward came to its end, on all ranks
  bool rebuilt_ = false;
  int round_ = 0;                   // of the current backward, or the latest
  bool backward_expected_ = false;  // none has come since the latest forward that was to be synchronised
  uint64_t backward_count_ = 0;     // at that forward
};

DistributedDataParallel::DistributedDataParallel(nn::ModuleBase& module, ProcessGroup group, Options options)
    : reducer_(std::make_unique<Reducer>(module, std::move(group), options)) {}
DistributedDataParallel::~DistributedDataParallel() = default;
DistributedDataParallel::SyncGuard DistributedDataParallel::no_sync() {
  SyncGuard guard;
  guard.set(reducer_->require_sync, false);
  return guard;
}
DistributedDataParallel::SyncGuard DistributedDataParallel::trigger_sync_in_backward() {
  SyncGuard guard;
  guard.set(reducer_->require_sync, true);
  guard.set(reducer_->forward_synced, true);
  return guard;
}
bool DistributedDataParallel::require_sync() const { return reducer_->require_sync; }
void DistributedDataParallel::set_require_sync(bool value) { reducer_->require_sync = value; }
const ProcessGroup& DistributedDataParallel::group() const { return reducer_->group(); }
std::vector<int64_t> DistributedDataParallel::bucket_bytes() const { return reducer_->bucket_bytes(); }
std::vector<std::vector<std::string>> DistributedDataParallel::bucket_names() const { return reducer_->bucket_names(); }

}  // namespace weft::ddp
