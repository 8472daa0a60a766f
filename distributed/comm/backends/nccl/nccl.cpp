#include "distributed/comm/backends/nccl/nccl.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "kernels/base/error.h"
#include "kernels/cuda/libraries.h"
#include "tensor/device.h"

namespace weft::comm {
namespace {

using Clock = std::chrono::steady_clock;
using cuda::check_status;

ncclDataType_t type_of(DType dtype, std::string_view op) {
  switch (dtype) {
    case DType::f64: return ncclFloat64;
    case DType::f32: return ncclFloat32;
    case DType::f16: return ncclFloat16;
    case DType::bf16: return ncclBfloat16;
    case DType::f8e4m3: return ncclFloat8e4m3;
    case DType::f8e5m2: return ncclFloat8e5m2;
    case DType::i64: return ncclInt64;
    case DType::i32: return ncclInt32;
    case DType::i8: return ncclInt8;
    case DType::u8:
    case DType::boolean: return ncclUint8;
    case DType::i16: break;
  }
  fail(ErrorCode::unsupported, op, "NCCL does not reduce {}; convert to i32", name(dtype));
}

ncclRedOp_t reduction_of(Reduce reduce, DType dtype) {
  const bool truth = dtype == DType::boolean;  // sum and max: or; product and min: and
  switch (reduce) {
    case Reduce::sum: return truth ? ncclMax : ncclSum;
    case Reduce::mean: return ncclAvg;
    case Reduce::min: return ncclMin;
    case Reduce::max: return ncclMax;
    case Reduce::product: break;
  }
  return truth ? ncclMin : ncclProd;
}

// One communicator with a stream of its own. Operations on it run in the order of issue.
class Lane {
 public:
  Lane(int size, int rank, const ncclUniqueId& id, Device device) : stream_(device) {
    cuda::use_device(device);
    WEFT_CUDA_CHECK(ncclCommInitRank(&communicator_, size, id, rank));
  }
  ~Lane() {
    if (communicator_) ncclCommDestroy(communicator_);
  }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  Stream stream() const { return stream_; }
  cudaStream_t native() const { return cuda::native(stream_); }
  ncclComm_t communicator() const { return communicator_; }

  // What NCCL found wrong while its kernels ran.
  ncclResult_t error() {
    const std::lock_guard lock(mutex_);
    ncclResult_t result = ncclSuccess;
    if (communicator_) ncclCommGetAsyncError(communicator_, &result);
    return result;
  }
  // Ends what is running; the lane is of no more use.
  void abort() {
    const std::lock_guard lock(mutex_);
    if (communicator_) ncclCommAbort(communicator_);
    communicator_ = nullptr;
  }

 private:
  std::mutex mutex_;
  DeviceStream stream_;
  ncclComm_t communicator_ = nullptr;
};

// A pair of group calls around several sends and receives, which NCCL then runs at the same time.
class GroupCalls {
 public:
  GroupCalls() { WEFT_CUDA_CHECK(ncclGroupStart()); }
  ~GroupCalls() {
    if (open_) ncclGroupEnd();
  }
  GroupCalls(const GroupCalls&) = delete;
  GroupCalls& operator=(const GroupCalls&) = delete;
  void end() {
    open_ = false;
    WEFT_CUDA_CHECK(ncclGroupEnd());
  }

 private:
  bool open_ = true;
};

// The root's id on every rank of `base`.
ncclUniqueId shared_id(Backend& base, std::chrono::milliseconds timeout) {
  ncclUniqueId id{};
  if (base.rank() == 0) WEFT_CUDA_CHECK(ncclGetUniqueId(&id));
  Operation broadcast{.kind = OpKind::broadcast, .dtype = DType::u8, .peer = 0, .count = sizeof id, .timeout = timeout};
  if (base.rank() == 0)
    broadcast.input = &id;
  else
    broadcast.output = &id;
  base.run(broadcast, Patience::waiting_thread);
  return id;
}

class NcclBackend final : public Backend {
 public:
  NcclBackend(std::unique_ptr<Backend> base, Device device, std::chrono::milliseconds timeout)
      : Backend(base->rank(), base->size(), base->group_name()),
        base_(std::move(base)),
        device_(device),
        collectives_(size(), rank(), shared_id(*base_, timeout), device),
        upward_(size(), rank(), shared_id(*base_, timeout), device),
        downward_(size(), rank(), shared_id(*base_, timeout), device) {}

  std::string_view backend_name() const override { return "nccl"; }
  bool reaches(Device device) const override { return device == device_ || base_->reaches(device); }

  void run(const Operation& operation, Patience patience) override {
    if (operation.device != device_) return base_->run(operation, patience);
    begin(operation, collectives_);
    guarded(operation, [&] { launch(operation); });
    Event done(device_);
    done.record(collectives_.stream());
    const Clock::time_point start = Clock::now();
    while (!finished(operation, done)) pause(operation, start, patience);
  }

  bool progress(Transfer& transfer) override {
    const Operation& operation = *transfer.operation;
    if (operation.device != device_) return base_->progress(transfer);
    const bool sends = operation.kind == OpKind::send;
    if (!transfer.started) {
      // Two lanes, so that a rank that waits for its send is not kept from receiving out of the other direction.
      Lane& lane = (operation.peer > rank()) == sends ? upward_ : downward_;
      begin(operation, lane);
      guarded(operation, [&] {
        const auto bytes = static_cast<size_t>(operation.bytes());
        if (sends)
          WEFT_CUDA_CHECK(
              ncclSend(operation.input, bytes, ncclInt8, operation.peer, lane.communicator(), lane.native()));
        else
          WEFT_CUDA_CHECK(
              ncclRecv(operation.output, bytes, ncclInt8, operation.peer, lane.communicator(), lane.native()));
      });
      transfer.started = true;
      started_.emplace_back(&transfer, std::make_unique<Event>(device_), Clock::now());
      started_.back().done->record(lane.stream());
    }
    const auto found =
        std::find_if(started_.begin(), started_.end(), [&](const Started& s) { return s.of == &transfer; });
    if (found == started_.end()) return true;
    if (!finished(operation, *found->done)) return false;
    started_.erase(found);
    return true;
  }

  void wait_for_progress(std::span<Transfer* const> transfers, Patience patience) override {
    const bool all_elsewhere = std::all_of(transfers.begin(), transfers.end(), [&](const Transfer* transfer) {
      return transfer->operation->device != device_;
    });
    if (all_elsewhere) return base_->wait_for_progress(transfers, patience);
    const uint32_t seen = poked_.exchange(0);
    if (seen != 0) return;
    for (const Transfer* transfer : transfers)
      for (const Started& started : started_)
        if (started.of == transfer) pause(*transfer->operation, started.since, patience);
  }

  void poke() override {
    poked_.fetch_add(1);
    base_->poke();
  }
  bool check(const Operation& operation) override { return base_->check(operation); }

  void abort(ErrorCode code, std::string_view reason) override {
    base_->abort(code, reason);
    aborted_.store(true);
    for (Lane* lane : {&collectives_, &upward_, &downward_}) lane->abort();
  }

  std::shared_ptr<void> allocate_shared(int64_t bytes, std::chrono::milliseconds timeout) override {
    return base_->allocate_shared(bytes, timeout);
  }

  std::unique_ptr<Backend> subgroup(const std::vector<int>& ranks, uint64_t id, std::string name,
                                    std::chrono::milliseconds timeout) override {
    return std::make_unique<NcclBackend>(base_->subgroup(ranks, id, std::move(name), timeout), device_, timeout);
  }

 private:
  struct Started {
    Started(const Transfer* of, std::unique_ptr<Event> done, Clock::time_point since)
        : of(of), done(std::move(done)), since(since) {}
    const Transfer* of;
    std::unique_ptr<Event> done;
    Clock::time_point since;
  };

  void begin(const Operation& operation, Lane& lane) {
    base_->check(operation);
    if (aborted_.load()) fail(ErrorCode::peer_lost, title(operation, group_name(), rank()), "the group was aborted");
    cuda::use_device(device_);
    if (operation.ready) operation.ready->wait(lane.stream());
  }

  void launch(const Operation& o) {
    const ncclComm_t comm = collectives_.communicator();
    const cudaStream_t stream = collectives_.native();
    const auto count = static_cast<size_t>(o.count);
    const auto bytes = static_cast<size_t>(o.bytes());
    const auto type = [&] { return type_of(o.dtype, name(o.kind)); };
    const ncclRedOp_t reduction = reduction_of(o.reduce, o.dtype);
    const auto part = [&](const void* whole, int index) {
      return static_cast<const std::byte*>(whole) + index * o.bytes();
    };
    const auto place = [&](void* whole, int index) { return static_cast<std::byte*>(whole) + index * o.bytes(); };
    switch (o.kind) {
      case OpKind::all_reduce:
        WEFT_CUDA_CHECK(ncclAllReduce(o.input, o.output, count, type(), reduction, comm, stream));
        return;
      case OpKind::reduce:
        WEFT_CUDA_CHECK(ncclReduce(o.input, o.output, count, type(), reduction, o.peer, comm, stream));
        return;
      case OpKind::reduce_scatter:
        WEFT_CUDA_CHECK(ncclReduceScatter(o.input, o.output, count, type(), reduction, comm, stream));
        return;
      case OpKind::all_gather: WEFT_CUDA_CHECK(ncclAllGather(o.input, o.output, bytes, ncclInt8, comm, stream)); return;
      case OpKind::broadcast: {
        const void* from = o.input ? o.input : o.output;
        void* to = o.output ? o.output : const_cast<void*>(o.input);  // the root's x stays what it is
        WEFT_CUDA_CHECK(ncclBroadcast(from, to, bytes, ncclInt8, o.peer, comm, stream));
        return;
      }
      case OpKind::gather:
      case OpKind::scatter:
      case OpKind::all_to_all: break;
      case OpKind::none:
      case OpKind::barrier:
      case OpKind::send:
      case OpKind::recv: fail(ErrorCode::internal, name(o.kind), "not an operation of NCCL's");
    }
    GroupCalls calls;
    const auto send = [&](const void* data, int to) {
      WEFT_CUDA_CHECK(ncclSend(data, bytes, ncclInt8, to, comm, stream));
    };
    const auto recv = [&](void* data, int from) {
      WEFT_CUDA_CHECK(ncclRecv(data, bytes, ncclInt8, from, comm, stream));
    };
    const bool is_root = o.peer == rank();
    if (o.kind == OpKind::gather) send(o.input, o.peer);
    if (o.kind == OpKind::scatter) recv(o.output, o.peer);
    for (int other = 0; other < size(); ++other) {
      if (o.kind == OpKind::all_to_all || (o.kind == OpKind::scatter && is_root)) send(part(o.input, other), other);
      if (o.kind == OpKind::all_to_all || (o.kind == OpKind::gather && is_root)) recv(place(o.output, other), other);
    }
    calls.end();
  }

  // Runs `work`; when NCCL refuses, the other ranks would wait in vain: the group is aborted.
  template <class Work>
  void guarded(const Operation& operation, Work work) {
    try {
      work();
    } catch (const Error& error) {
      give_up(operation, error.code(), error.what());
    }
  }

  bool finished(const Operation& operation, const Event& done) {
    if (!aborted_.load() && done.done()) return true;
    for (Lane* lane : {&collectives_, &upward_, &downward_}) {
      const ncclResult_t status = lane->error();
      if (status == ncclSuccess || status == ncclInProgress) continue;
      guarded(operation, [&] { check_status(status, "ncclCommGetAsyncError"); });
    }
    return false;
  }

  // One turn of waiting: throws when the group was aborted, a rank has gone, or the time is up.
  void pause(const Operation& operation, Clock::time_point start, Patience patience) {
    using namespace std::chrono_literals;
    const Clock::time_point now = Clock::now();
    if (now - start < 200us && patience == Patience::waiting_thread) return std::this_thread::yield();
    std::this_thread::sleep_for(20us);
    if (now < next_check_) return;
    next_check_ = now + 20ms;
    // A rank whose part is done may end before ours is: it has a second.
    if (base_->check(operation)) {
      if (!lost_since_) lost_since_ = now;
      if (now - *lost_since_ > 1s) give_up(operation, ErrorCode::peer_lost, "the process of another rank has ended");
    }
    if (aborted_.load()) fail(ErrorCode::peer_lost, title(operation, group_name(), rank()), "the group was aborted");
    if (now - start > operation.timeout)
      give_up(
          operation, ErrorCode::timeout,
          fmt::format("not done after {}; has every rank called it, with the same size?", describe(operation.timeout)));
  }

  [[noreturn]] void give_up(const Operation& operation, ErrorCode code, const std::string& text) {
    const std::string what = title(operation, group_name(), rank());
    abort(code, fmt::format("rank {} stopped the group in {}: {}", rank(), what, text));
    fail(code, what, "{}", text);
  }

  std::unique_ptr<Backend> base_;
  Device device_;
  Lane collectives_;
  Lane upward_;    // from lower to higher ranks
  Lane downward_;  // and back
  std::vector<Started> started_;
  std::atomic<uint32_t> poked_{0};
  std::atomic<bool> aborted_{false};
  std::optional<Clock::time_point> lost_since_;
  Clock::time_point next_check_{};
};

}  // namespace
}  // namespace weft::comm

extern "C" weft::comm::Backend* weft_make_nccl_backend(weft::comm::Backend* base, weft::Device device,
                                                       std::chrono::milliseconds timeout) {
  std::unique_ptr<weft::comm::Backend> owned(base);
  return new weft::comm::NcclBackend(std::move(owned), device, timeout);
}
