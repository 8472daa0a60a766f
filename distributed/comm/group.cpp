#include "distributed/comm/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "distributed/comm/backends/nccl/nccl.h"
#include "kernels/base/device.h"

namespace weft::comm {
namespace {

std::vector<int> unpack(const std::string& bytes) {
  std::vector<int> list(bytes.size() / sizeof(int));
  if (!list.empty()) std::memcpy(list.data(), bytes.data(), bytes.size());
  return list;
}

std::string to_string(const std::vector<int>& list) { return fmt::format("[{}]", fmt::join(list, ", ")); }

}  // namespace

Group::Group(std::unique_ptr<Backend> backend, std::shared_ptr<Store> store, std::chrono::milliseconds timeout)
    : backend_(std::move(backend)),
      store_(std::move(store)),
      timeout_(timeout),
      exceptions_(std::uncaught_exceptions()),
      queue_(*backend_) {}

Group::~Group() {
  if (std::uncaught_exceptions() > exceptions_ && size() > 1) {
    backend_->abort(ErrorCode::peer_lost,
                    fmt::format("rank {} left group \"{}\" because of an exception", rank(), backend_->group_name()));
  }
}

Work Group::submit(Operation operation, std::function<void()> finish) {
  const std::string_view op = name(operation.kind);
  if (operation.peer != -1 || is_point_to_point(operation.kind)) {
    WEFT_CHECK(operation.peer >= 0 && operation.peer < size(), op, "rank {} is not in group \"{}\" of {} ranks",
               operation.peer, backend_->group_name(), size());
  }
  if (is_reducing(operation.kind)) {
    WEFT_CHECK(operation.reduce != Reduce::mean || is_floating(operation.dtype), op,
               "the mean over ranks needs a floating dtype, got {}; reduce with sum and divide", name(operation.dtype));
  }
  if (is_point_to_point(operation.kind)) {
    WEFT_CHECK(operation.peer != rank(), op, "rank {} cannot exchange messages with itself", rank());
    operation.sequence = transfers_++;
  } else {
    operation.sequence = collectives_++;
  }
  operation.timeout = timeout_;
  auto task = std::make_shared<Task>();
  task->operation = operation;
  task->finish = std::move(finish);
  queue_.push(task);
  return Work(std::move(task), shared_from_this());
}

std::vector<std::string> Group::all_gather_bytes(const std::string& bytes, CallSite site) {
  Operation gather{.kind = OpKind::all_gather, .dtype = DType::i64, .count = 1, .site = site};
  const auto length = static_cast<int64_t>(bytes.size());
  std::vector<int64_t> lengths(static_cast<size_t>(size()));
  gather.input = &length;
  gather.output = lengths.data();
  submit(gather).wait();

  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  std::string padded = bytes;
  padded.resize(static_cast<size_t>(longest));
  std::string all(static_cast<size_t>(longest * size()), '\0');
  gather.dtype = DType::u8;
  gather.count = longest;
  gather.input = padded.data();
  gather.output = all.data();
  submit(gather).wait();
  std::vector<std::string> result;
  for (int other = 0; other < size(); ++other)
    result.push_back(
        all.substr(static_cast<size_t>(other * longest), static_cast<size_t>(lengths[static_cast<size_t>(other)])));
  return result;
}

std::string Group::broadcast_bytes(const std::string& bytes, int root, CallSite site) {
  Operation broadcast{.kind = OpKind::broadcast, .dtype = DType::i64, .peer = root, .count = 1, .site = site};
  auto length = static_cast<int64_t>(bytes.size());
  broadcast.input = &length;
  broadcast.output = &length;
  submit(broadcast).wait();
  std::string result = bytes;
  result.resize(static_cast<size_t>(length));
  broadcast.dtype = DType::u8;
  broadcast.count = length;
  broadcast.input = result.data();
  broadcast.output = result.data();
  submit(broadcast).wait();
  return result;
}

std::shared_ptr<void> Group::allocate_shared(int64_t bytes, CallSite site) {
  std::vector<int64_t> all(static_cast<size_t>(size()));
  Operation gather{.kind = OpKind::all_gather, .dtype = DType::i64, .count = 1, .site = site};
  gather.input = &bytes;
  gather.output = all.data();
  submit(gather).wait();
  for (int other = 1; other < size(); ++other) {
    if (all[0] != all[static_cast<size_t>(other)]) {
      fail(ErrorCode::mismatch, "empty_shared", "ranks disagree: rank 0 asks for {} bytes, rank {} for {} bytes",
           all[0], other, all[static_cast<size_t>(other)]);
    }
  }
  if (bytes == 0) return nullptr;
  return backend_->allocate_shared(bytes, timeout_);
}

std::shared_ptr<Group> Group::make_subgroup(const std::vector<int>& ranks, uint64_t color, std::string name) {
  const uint64_t id = splits_ << 32 | color;
  if (name.empty()) name = fmt::format("{}/{}.{}", backend_->group_name(), splits_, color);
  return std::make_shared<Group>(backend_->subgroup(ranks, id, std::move(name), timeout_), store_, timeout_);
}

std::shared_ptr<Group> Group::split(int color, int key, std::string name, CallSite site) {
  const int64_t mine[2] = {color, key};
  std::vector<int64_t> all(2 * static_cast<size_t>(size()));
  Operation gather{.kind = OpKind::all_gather, .dtype = DType::i64, .count = 2, .site = site};
  gather.input = mine;
  gather.output = all.data();
  submit(gather).wait();
  ++splits_;
  if (color < 0) return nullptr;
  std::vector<int> ranks;
  for (int other = 0; other < size(); ++other)
    if (all[2 * static_cast<size_t>(other)] == color) ranks.push_back(other);
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
    return all[2 * static_cast<size_t>(a) + 1] < all[2 * static_cast<size_t>(b) + 1];
  });
  return make_subgroup(ranks, static_cast<uint64_t>(color), std::move(name));
}

std::shared_ptr<Group> Group::with_device(Device device, CallSite site) {
  std::string failure;
  MakeNcclBackend make = nullptr;
  if (!backend_->reaches(device)) {
    try {
      void* symbol =
          device.type == DeviceType::cuda ? device_symbol(device.type, kMakeNcclBackend, "with_device") : nullptr;
      if (!symbol)
        fail(ErrorCode::unsupported, "with_device", "no backend exchanges tensors on {}", weft::name(device));
      make = reinterpret_cast<MakeNcclBackend>(symbol);
      const int devices = device_runtime(device.type, "with_device").device_count();
      WEFT_CHECK(device.index < devices, "with_device", "there is no {}; this machine has {} devices",
                 weft::name(device), devices);
    } catch (const Error& error) {
      failure = error.what();
    }
  }
  // All or none: a rank without a device must not leave the others waiting for it.
  const std::vector<std::string> failures = all_gather_bytes(failure, site);
  for (int other = 0; other < size(); ++other) {
    const std::string& theirs = failures[static_cast<size_t>(other)];
    if (!theirs.empty()) fail(ErrorCode::unsupported, "with_device", "rank {}: {}", other, theirs);
  }
  ++splits_;
  std::vector<int> everyone(static_cast<size_t>(size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  std::unique_ptr<Backend> base = backend_->subgroup(everyone, splits_ << 32, backend_->group_name(), timeout_);
  std::unique_ptr<Backend> backend =
      make ? std::unique_ptr<Backend>(make(base.release(), device, timeout_)) : std::move(base);
  return std::make_shared<Group>(std::move(backend), store_, timeout_);
}

std::shared_ptr<Group> Group::subgroup(const std::vector<int>& ranks, std::string name, CallSite site) {
  std::string mine(ranks.size() * sizeof(int), '\0');
  if (!ranks.empty()) std::memcpy(mine.data(), ranks.data(), mine.size());
  const std::vector<std::string> all = all_gather_bytes(mine, site);
  ++splits_;
  // Every rank checks all lists, so that all come to the same verdict.
  for (int other = 0; other < size(); ++other) {
    const std::string& theirs = all[static_cast<size_t>(other)];
    const std::vector<int> list = unpack(theirs);
    std::vector<int> sorted = list;
    std::sort(sorted.begin(), sorted.end());
    WEFT_CHECK(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(), "subgroup",
               "rank {} names a rank twice: {}", other, to_string(list));
    for (const int member : list) {
      WEFT_CHECK(member >= 0 && member < size(), "subgroup", "rank {} names rank {}, but group \"{}\" has {} ranks",
                 other, member, backend_->group_name(), size());
    }
    if (!std::binary_search(sorted.begin(), sorted.end(), other)) continue;
    for (const int member : list) {
      if (all[static_cast<size_t>(member)] == theirs) continue;
      fail(ErrorCode::mismatch, "subgroup", "ranks disagree: rank {} names ranks {}, rank {} names {}", other,
           to_string(list), member, to_string(unpack(all[static_cast<size_t>(member)])));
    }
  }
  if (std::find(ranks.begin(), ranks.end(), rank()) == ranks.end()) return nullptr;
  return make_subgroup(ranks, static_cast<uint64_t>(*std::min_element(ranks.begin(), ranks.end())), std::move(name));
}

}  // namespace weft::comm
