#include "distributed/comm/backends/local/local.h"

#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>

#include "distributed/comm/backends/direct/direct.h"

namespace weft::comm {
namespace {

// The control block of one group, in ordinary memory.
class LocalGroup {
 public:
  explicit LocalGroup(int size) : layout{.size = size, .slot_bytes = DirectBackend::kEagerBytes, .piece_bytes = 4096} {
    const auto bytes = static_cast<size_t>(ControlLayout::aligned(layout.total_bytes()));
    memory.reset(static_cast<std::byte*>(std::aligned_alloc(64, bytes)));
    if (!memory) fail(ErrorCode::out_of_memory, "process_group", "cannot allocate {} bytes for {} ranks", bytes, size);
    std::memset(memory.get(), 0, bytes);
    layout.construct(memory.get());
  }

  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  ControlLayout layout;
  std::unique_ptr<std::byte, Free> memory;
};

// What a group and its sub-groups share: where the members of a new sub-group find its control block, and whether the
// family was aborted.
class LocalFamily {
 public:
  explicit LocalFamily(std::shared_ptr<LocalGroup> root) : root_(std::move(root)) {}
  AbortControl* abort_control() const {
    return reinterpret_cast<AbortControl*>(root_->memory.get() + root_->layout.abort_offset());
  }
  // The first member to come makes the group, the last one takes it off the list.
  std::shared_ptr<LocalGroup> join(uint64_t parent, uint64_t id, int size) {
    const std::lock_guard lock(mutex_);
    auto& [group, missing] = forming_[{parent, id}];
    if (!group) {
      group = std::make_shared<LocalGroup>(size);
      missing = size;
    }
    std::shared_ptr<LocalGroup> result = group;
    if (--missing == 0) forming_.erase({parent, id});
    return result;
  }

 private:
  std::shared_ptr<LocalGroup> root_;
  std::mutex mutex_;
  std::map<std::pair<uint64_t, uint64_t>, std::pair<std::shared_ptr<LocalGroup>, int>> forming_;
};

// Holds the group, and is a base before DirectBackend so that the memory outlives it.
struct LocalMemory {
  std::shared_ptr<LocalFamily> family;
  std::shared_ptr<LocalGroup> group;
};

class LocalBackend final : private LocalMemory, public DirectBackend {
 public:
  LocalBackend(std::shared_ptr<LocalFamily> family, std::shared_ptr<LocalGroup> group, int rank, std::string name)
      : LocalMemory{std::move(family), std::move(group)},
        DirectBackend(rank, this->group->layout.size, std::move(name), this->group->layout, this->group->memory.get(),
                      this->family->abort_control(), Scope::process) {}

  std::string_view backend_name() const override { return "local"; }

  std::shared_ptr<void> allocate_shared(int64_t, std::chrono::milliseconds) override { return nullptr; }

  std::unique_ptr<Backend> subgroup(const std::vector<int>& ranks, uint64_t id, std::string name,
                                    std::chrono::milliseconds) override {
    const auto parent = reinterpret_cast<uint64_t>(group.get());
    std::shared_ptr<LocalGroup> child = family->join(parent, id, static_cast<int>(ranks.size()));
    const auto self = std::find(ranks.begin(), ranks.end(), rank());
    return std::make_unique<LocalBackend>(family, std::move(child), static_cast<int>(self - ranks.begin()),
                                          std::move(name));
  }

 protected:
  Location locate(const void* data, int64_t) const override { return {1, reinterpret_cast<uint64_t>(data)}; }
  std::byte* resolve(int, Location location, int64_t) const override {
    return reinterpret_cast<std::byte*>(location.offset);
  }
  bool one_address_space() const override { return true; }
  bool connection_lost(int) const override { return false; }
};

}  // namespace

std::vector<std::unique_ptr<Backend>> make_local_backends(int size, const std::string& name) {
  auto group = std::make_shared<LocalGroup>(size);
  auto family = std::make_shared<LocalFamily>(group);
  std::vector<std::unique_ptr<Backend>> backends;
  for (int rank = 0; rank < size; ++rank) backends.push_back(std::make_unique<LocalBackend>(family, group, rank, name));
  return backends;
}

}  // namespace weft::comm
