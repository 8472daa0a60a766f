#include "distributed/comm/backends/shm/shm.h"

#include <algorithm>
#include <map>
#include <shared_mutex>
#include <utility>

#include "distributed/comm/backends/direct/direct.h"
#include "distributed/comm/backends/shm/peers.h"
#include "distributed/comm/backends/shm/segment.h"

namespace weft::comm {
namespace {

// Spreads numbers that are counted up over 64 bits, so that combinations of them stay distinct (the finisher of
// MurmurHash3, public domain).
uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9e3779b97f4a7c15ull + b + 1;
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdull;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ull;
  return x ^ (x >> 33);
}

ControlLayout layout_for(int size) {
  return {
      .size = size, .slot_bytes = int64_t{256} << 10, .piece_bytes = size <= 4 ? int64_t{64} << 10 : int64_t{8} << 10};
}

// Made by the group's rank 0, prepared there and then passed to the other members; on failure all of them throw.
template <class Prepare>
Mapping share_memory(Peers& peers, const std::vector<int>& members, uint64_t tag, int64_t bytes,
                     const std::string& purpose, std::chrono::milliseconds timeout, Prepare prepare) {
  if (members[0] != peers.rank()) return Mapping(peers.receive_file(members[0], tag, timeout).get(), bytes);
  FileDescriptor file;
  Mapping memory;
  try {
    file = create_memory_file(bytes, purpose);
    memory = Mapping(file.get(), bytes);
    prepare(memory.data());
  } catch (const Error& error) {
    for (size_t i = 1; i < members.size(); ++i) peers.send_file(members[i], tag, -1, error.code(), error.what());
    throw;
  }
  for (size_t i = 1; i < members.size(); ++i) peers.send_file(members[i], tag, file.get(), ErrorCode::internal, "");
  return memory;
}

Mapping share_control_block(Peers& peers, const std::vector<int>& members, uint64_t tag, const std::string& name,
                            std::chrono::milliseconds timeout) {
  const ControlLayout layout = layout_for(static_cast<int>(members.size()));
  return share_memory(peers, members, tag, layout.total_bytes(), fmt::format("group \"{}\"", name), timeout,
                      [&](std::byte* memory) { layout.construct(memory); });
}

// What a group and its sub-groups have in common in this process: the sockets and the shared memory of tensors.
class ShmFamily {
 public:
  explicit ShmFamily(std::unique_ptr<Peers> sockets) : peers(std::move(sockets)) {}

  // Keeps `memory` findable while the result lives. The result points at this rank's part.
  std::shared_ptr<void> add(uint64_t segment, Mapping memory, int64_t own_offset, std::shared_ptr<ShmFamily> self) {
    auto kept = std::make_shared<Mapping>(std::move(memory));
    std::byte* data = kept->data();
    {
      const std::unique_lock lock(mutex_);
      by_segment_[segment] = kept.get();
      by_address_[data] = segment;
    }
    return std::shared_ptr<void>(data + own_offset, [kept, segment, self](void*) mutable {
      const std::unique_lock lock(self->mutex_);
      self->by_segment_.erase(segment);
      self->by_address_.erase(kept->data());
      kept.reset();
    });
  }
  // Segment and offset of memory that lies in a segment; segment 0 otherwise.
  std::pair<uint64_t, uint64_t> find(const std::byte* data, int64_t bytes) const {
    const std::shared_lock lock(mutex_);
    auto next = by_address_.upper_bound(data);
    if (next == by_address_.begin()) return {0, 0};
    const auto& [begin, segment] = *--next;
    const Mapping& memory = *by_segment_.at(segment);
    if (data - begin + bytes > memory.bytes()) return {0, 0};
    return {segment, static_cast<uint64_t>(data - begin)};
  }
  std::byte* resolve(uint64_t segment, uint64_t offset, int64_t bytes) const {
    const std::shared_lock lock(mutex_);
    const auto found = by_segment_.find(segment);
    if (found == by_segment_.end() || static_cast<int64_t>(offset) + bytes > found->second->bytes()) return nullptr;
    return found->second->data() + offset;
  }

  const std::unique_ptr<Peers> peers;
  Mapping root_control;  // holds the family's abort record

 private:
  mutable std::shared_mutex mutex_;
  std::map<uint64_t, Mapping*> by_segment_;
  std::map<const std::byte*, uint64_t> by_address_;
};

// A base before DirectBackend, so that the memory outlives it.
struct ShmMemory {
  std::shared_ptr<ShmFamily> family;
  Mapping own;  // empty for the first group, whose control block is the family's
  std::byte* data() const { return own.data() ? own.data() : family->root_control.data(); }
};

class ShmBackend final : private ShmMemory, public DirectBackend {
 public:
  ShmBackend(std::shared_ptr<ShmFamily> family, Mapping own, std::vector<int> members, int rank, uint64_t id,
             std::string name)
      : ShmMemory{std::move(family), std::move(own)},
        DirectBackend(rank, static_cast<int>(members.size()), std::move(name),
                      layout_for(static_cast<int>(members.size())), this->data(),
                      reinterpret_cast<AbortControl*>(this->family->root_control.data()), Scope::host),
        members_(std::move(members)),
        id_(id) {}

  std::string_view backend_name() const override { return "shm"; }

  std::shared_ptr<void> allocate_shared(int64_t bytes, std::chrono::milliseconds timeout) override {
    const int64_t stride = (std::max<int64_t>(bytes, 1) + 4095) / 4096 * 4096;
    if (stride > std::numeric_limits<int64_t>::max() / size())
      fail(ErrorCode::out_of_memory, "empty_shared", "{} bytes on each of {} ranks", bytes, size());
    const uint64_t segment = mix(id_, 2 * ++allocations_);
    Mapping memory = share_memory(*family->peers, members_, segment, stride * size(),
                                  fmt::format("a shared tensor of {} bytes on each of {} ranks", bytes, size()),
                                  timeout, [](std::byte*) {});
    return family->add(segment, std::move(memory), rank() * stride, family);
  }

  std::unique_ptr<Backend> subgroup(const std::vector<int>& ranks, uint64_t id, std::string name,
                                    std::chrono::milliseconds timeout) override {
    std::vector<int> members;
    for (const int rank : ranks) members.push_back(members_[static_cast<size_t>(rank)]);
    const uint64_t tag = mix(id_, 2 * id + 1);
    Mapping memory = share_control_block(*family->peers, members, tag, name, timeout);
    const auto self = std::find(ranks.begin(), ranks.end(), rank());
    return std::make_unique<ShmBackend>(family, std::move(memory), std::move(members),
                                        static_cast<int>(self - ranks.begin()), tag, std::move(name));
  }

 protected:
  Location locate(const void* data, int64_t bytes) const override {
    const auto [segment, offset] = family->find(static_cast<const std::byte*>(data), bytes);
    return {segment, offset};
  }
  std::byte* resolve(int rank, Location location, int64_t bytes) const override {
    std::byte* data = family->resolve(location.segment, location.offset, bytes);
    if (!data) {
      fail(ErrorCode::internal, "process_group", "shared memory of rank {} in group \"{}\" is not mapped here", rank,
           group_name());
    }
    return data;
  }
  bool one_address_space() const override { return false; }
  bool connection_lost(int rank) const override { return family->peers->lost(members_[static_cast<size_t>(rank)]); }

 private:
  std::vector<int> members_;  // ranks in the first group
  uint64_t id_;
  uint64_t allocations_ = 0;
};

}  // namespace

std::unique_ptr<Backend> make_shm_backend(Store& store, int rank, int size, const std::string& name,
                                          std::chrono::milliseconds timeout) {
  auto family = std::make_shared<ShmFamily>(std::make_unique<Peers>(store, rank, size, timeout));
  std::vector<int> members;
  for (int other = 0; other < size; ++other) members.push_back(other);
  family->root_control = share_control_block(*family->peers, members, 0, name, timeout);
  return std::make_unique<ShmBackend>(family, Mapping(), std::move(members), rank, 0, name);
}

}  // namespace weft::comm
