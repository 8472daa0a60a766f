// Storage: the memory behind tensors. All views of a tensor share one Storage.
//
// Its buffer can be given back (release) and made again (materialize) in place, while tensors keep referring to it:
// that is how a sharded parameter is freed after forward and gathered again before backward. Nobody may keep a raw
// pointer over such a change; kernels read data() at launch.
#pragma once
#include <atomic>
#include <functional>

#include "kernels/base/ref.h"
#include "kernels/base/stream.h"

namespace weft {

class Storage final : public RefCounted {
 public:
  // Uninitialised memory from the device's caching allocator, in the order of its current stream (none on the meta
  // device).
  static Ref<Storage> allocate(int64_t bytes, Device device);
  // Memory owned by someone else; `deleter` (may be empty) runs when the last tensor goes.
  static Ref<Storage> wrap(void* data, int64_t bytes, Device device, std::function<void()> deleter);
  ~Storage();

  void* data() const noexcept { return data_; }
  int64_t bytes() const noexcept { return bytes_; }
  Device device() const noexcept { return device_; }
  bool materialized() const noexcept { return data_ != nullptr || bytes_ == 0; }
  void release();
  void materialize();

  // Counts in-place writes; backward compares it with the count at save time.
  uint32_t version() const noexcept { return version_.load(std::memory_order_relaxed); }
  void bump_version() noexcept { version_.fetch_add(1, std::memory_order_relaxed); }

 private:
  Storage(void* data, int64_t bytes, Device device, bool owned, std::function<void()> deleter)
      : data_(data), bytes_(bytes), device_(device), owned_(owned), deleter_(std::move(deleter)) {}
  void* data_;
  int64_t bytes_;
  Device device_;
  bool owned_;  // comes from the caching allocator
  std::function<void()> deleter_;
  std::atomic<uint32_t> version_{0};
};

}  // namespace weft
