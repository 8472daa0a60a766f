#include "tensor/allocator.h"

#include <sys/mman.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include "kernels/base/error.h"

namespace weft {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;

struct Cache {
  std::mutex mutex;
  std::map<int64_t, std::vector<void*>> free_blocks;  // by block size
  MemoryStats stats;

  void release_all() {
    for (auto& [size, blocks] : free_blocks)
      for (void* block : blocks) std::free(block);
    free_blocks.clear();
    stats.cached = 0;
  }
};

// Never destroyed: tensors in static storage may be freed after any static of ours.
Cache& cache() {
  static Cache* const instance = new Cache;
  return *instance;
}

void* from_system(int64_t size) {
  const bool huge = size >= kHugePage;
  void* data = std::aligned_alloc(static_cast<size_t>(huge ? kHugePage : 64), static_cast<size_t>(size));
  if (data && huge) madvise(data, static_cast<size_t>(size), MADV_HUGEPAGE);
  return data;
}

}  // namespace

namespace detail {

void* allocate_block(int64_t bytes) {
  if (bytes > (int64_t{1} << 60)) fail(ErrorCode::out_of_memory, "allocate", "{} bytes cannot be allocated", bytes);
  const int64_t size = block_size(bytes);
  Cache& c = cache();
  std::lock_guard lock(c.mutex);
  void* data = nullptr;
  if (auto found = c.free_blocks.find(size); found != c.free_blocks.end() && !found->second.empty()) {
    data = found->second.back();
    found->second.pop_back();
    c.stats.cached -= size;
  } else {
    data = from_system(size);
    if (!data) {
      c.release_all();
      data = from_system(size);
    }
    if (!data)
      fail(ErrorCode::out_of_memory, "allocate", "{} bytes refused by the system; {} bytes are in live tensors", size,
           c.stats.current);
    ++c.stats.system_allocations;
  }
  ++c.stats.allocations;
  c.stats.current += size;
  if (c.stats.current > c.stats.peak) c.stats.peak = c.stats.current;
  return data;
}

void free_block(void* data, int64_t bytes) noexcept {
  const int64_t size = block_size(bytes);
  Cache& c = cache();
  std::lock_guard lock(c.mutex);
  c.stats.current -= size;
  c.stats.cached += size;
  c.free_blocks[size].push_back(data);
}

}  // namespace detail

MemoryStats memory_stats(Device device) {
  if (device.type != DeviceType::cpu) return detail::device_memory_stats(device);
  std::lock_guard lock(cache().mutex);
  return cache().stats;
}

void reset_peak_memory_stats(Device device) {
  if (device.type != DeviceType::cpu) return detail::reset_peak_device_memory_stats(device);
  std::lock_guard lock(cache().mutex);
  cache().stats.peak = cache().stats.current;
}

void empty_cache(Device device) {
  if (device.type != DeviceType::cpu) return detail::empty_device_cache(device);
  std::lock_guard lock(cache().mutex);
  cache().release_all();
}

}  // namespace weft
