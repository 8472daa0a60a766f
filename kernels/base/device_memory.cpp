#include "kernels/base/device_memory.h"

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/base/device.h"
#include "kernels/base/error.h"

namespace weft {
namespace detail {
namespace {

constexpr int64_t kPage = int64_t{2} << 20;

struct Block {
  int64_t size = 0;
  int64_t pool = 0;  // 0: everyone's; else a graph's
  Stream stream;
  std::vector<Stream> others;  // streams that use it too
};

// A freed block that other streams may still be using.
struct Pending {
  void* memory;
  Block block;
  std::vector<void*> events;
};

class Cache {
 public:
  explicit Cache(Device device) : device_(device) {}

  void* allocate(Stream stream, int64_t bytes, int64_t pool) {
    const DeviceRuntime& runtime = device_runtime(device_.type, "allocate");
    const int64_t size = std::max<int64_t>(256, block_size(bytes));
    std::lock_guard lock(mutex_);
    if (pool == 0) collect(runtime);
    void* memory = take(stream, size, pool);
    if (!memory) {
      memory = runtime.allocate(device_, size);
      if (!memory) {
        release_free(runtime);
        memory = runtime.allocate(device_, size);
      }
      if (!memory)
        fail(ErrorCode::out_of_memory, "allocate", "{} bytes refused on {}; {} bytes are in live tensors", size,
             name(device_), stats_.current);
      ++stats_.system_allocations;
    }
    live_.emplace(memory, Block{size, pool, stream, {}});
    if (runtime.note_use) runtime.note_use(device_, memory, bytes);
    ++stats_.allocations;
    stats_.current += size;
    stats_.peak = std::max(stats_.peak, stats_.current);
    return memory;
  }

  void free(void* memory) noexcept {
    std::lock_guard lock(mutex_);
    const auto found = live_.find(memory);
    if (found == live_.end()) return;
    Block block = std::move(found->second);
    live_.erase(found);
    forget_use(memory);
    stats_.current -= block.size;
    stats_.cached += block.size;
    if (block.others.empty()) {
      put(memory, block);
      return;
    }
    try {
      const DeviceRuntime& runtime = device_runtime(device_.type, "free");
      Pending pending{memory, block, {}};
      for (Stream other : block.others) {
        pending.events.push_back(runtime.create_event(device_, false));
        runtime.record_event(other, pending.events.back());
      }
      pending_.push_back(std::move(pending));
    } catch (...) {
      // Without an event nobody can tell when the block is idle: it is lost rather than handed out too early.
    }
  }

  void record_stream(void* memory, Stream stream) {
    std::lock_guard lock(mutex_);
    const auto found = live_.find(memory);
    if (found == live_.end() || found->second.stream == stream) return;
    std::vector<Stream>& others = found->second.others;
    if (std::find(others.begin(), others.end(), stream) == others.end()) others.push_back(stream);
  }

  MemoryStats stats() {
    std::lock_guard lock(mutex_);
    return stats_;
  }
  void reset_peak() {
    std::lock_guard lock(mutex_);
    stats_.peak = stats_.current;
  }
  void empty() {
    std::lock_guard lock(mutex_);
    release_free(device_runtime(device_.type, "empty_cache"));
  }

  void release_pool(int64_t pool) noexcept {
    std::lock_guard lock(mutex_);
    for (auto& [memory, block] : live_)
      if (block.pool == pool) block.pool = 0;
    std::vector<std::pair<void*, Block>> freed;
    for (auto at = free_.begin(); at != free_.end();) {
      if (std::get<0>(at->first) != pool) {
        ++at;
        continue;
      }
      for (void* memory : at->second) freed.push_back({memory, Block{std::get<2>(at->first), 0, streams_[memory], {}}});
      at = free_.erase(at);
    }
    for (auto& [memory, block] : freed) put(memory, block);
  }

 private:
  void forget_use(void* memory) noexcept {
    try {
      const DeviceRuntime& runtime = device_runtime(device_.type, "free");
      if (runtime.note_use) runtime.note_use(device_, memory, 0);
    } catch (...) {
      // Only a record for examinations.
    }
  }

  // (pool, native stream, size)
  using Key = std::tuple<int64_t, void*, int64_t>;

  void* take(Stream stream, int64_t size, int64_t pool) {
    const auto found = free_.find(Key{pool, stream.native, size});
    if (found == free_.end() || found->second.empty()) return nullptr;
    void* memory = found->second.back();
    found->second.pop_back();
    streams_.erase(memory);
    stats_.cached -= size;
    return memory;
  }

  void put(void* memory, const Block& block) {
    free_[Key{block.pool, block.stream.native, block.size}].push_back(memory);
    streams_[memory] = block.stream;
  }

  // Blocks whose other streams are done become free.
  void collect(const DeviceRuntime& runtime) {
    for (size_t i = 0; i < pending_.size();) {
      Pending& p = pending_[i];
      const bool done = std::all_of(p.events.begin(), p.events.end(),
                                    [&](void* event) { return runtime.query_event(device_, event); });
      if (!done) {
        ++i;
        continue;
      }
      finish(runtime, p);
      std::swap(p, pending_.back());
      pending_.pop_back();
    }
  }

  void finish(const DeviceRuntime& runtime, Pending& p) {
    for (void* event : p.events) runtime.destroy_event(device_, event);
    p.events.clear();
    put(p.memory, p.block);
  }

  // Gives everything idle back, graphs' own memory apart. Waits for the streams concerned.
  void release_free(const DeviceRuntime& runtime) {
    for (Pending& p : pending_) {
      for (void* event : p.events) runtime.synchronize_event(device_, event);
      finish(runtime, p);
    }
    pending_.clear();
    std::vector<Stream> waited;
    for (auto at = free_.begin(); at != free_.end();) {
      if (std::get<0>(at->first) != 0) {
        ++at;
        continue;
      }
      for (void* memory : at->second) {
        const Stream stream = streams_[memory];
        if (std::find(waited.begin(), waited.end(), stream) == waited.end()) {
          runtime.synchronize(stream);
          waited.push_back(stream);
        }
        runtime.free(device_, memory);
        streams_.erase(memory);
        stats_.cached -= std::get<2>(at->first);
      }
      at = free_.erase(at);
    }
  }

  const Device device_;
  std::mutex mutex_;
  std::unordered_map<void*, Block> live_;
  std::map<Key, std::vector<void*>> free_;
  std::unordered_map<void*, Stream> streams_;  // of the free blocks
  std::vector<Pending> pending_;
  MemoryStats stats_;
};

// Never destroyed: tensors in static storage may be freed after any static of ours.
Cache& cache(Device device) {
  static std::mutex mutex;
  static auto* const caches = new std::map<std::pair<DeviceType, int>, Cache*>;
  std::lock_guard lock(mutex);
  Cache*& found = (*caches)[{device.type, device.index}];
  if (!found) found = new Cache(device);
  return *found;
}

struct CapturePool {
  Device device;
  int64_t pool = 0;  // 0: this thread captures nothing
};
constinit thread_local CapturePool capture{};

}  // namespace

int64_t block_size(int64_t bytes) {
  if (bytes <= 512) return (bytes + 63) / 64 * 64;
  const int64_t step = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(bytes))) / 4;
  int64_t size = (bytes + step - 1) / step * step;
  if (size >= kPage) size = (size + kPage - 1) / kPage * kPage;
  return size;
}

void* allocate_device_block(Stream stream, int64_t bytes) {
  if (bytes > (int64_t{1} << 60)) fail(ErrorCode::out_of_memory, "allocate", "{} bytes cannot be allocated", bytes);
  const int64_t pool = capture.device == stream.device ? capture.pool : 0;
  return cache(stream.device).allocate(stream, bytes, pool);
}

void free_device_block(Device device, void* block) noexcept { cache(device).free(block); }
void record_device_stream(Device device, void* block, Stream stream) { cache(device).record_stream(block, stream); }
MemoryStats device_memory_stats(Device device) { return cache(device).stats(); }
void reset_peak_device_memory_stats(Device device) { cache(device).reset_peak(); }
void empty_device_cache(Device device) { cache(device).empty(); }

int64_t begin_graph_pool(Device device) {
  static std::atomic<int64_t> last{0};
  WEFT_CHECK(capture.pool == 0, "graph", "this thread is already capturing a graph");
  capture = {device, ++last};
  return capture.pool;
}
void end_graph_pool() noexcept { capture = {}; }
void release_graph_pool(Device device, int64_t pool) noexcept { cache(device).release_pool(pool); }

}  // namespace detail

ScratchBuffer::ScratchBuffer(Stream stream, int64_t bytes) : device_(stream.device) {
  if (bytes > 0) data_ = detail::allocate_device_block(stream, bytes);
}
ScratchBuffer::~ScratchBuffer() {
  if (data_) detail::free_device_block(device_, data_);
}

}  // namespace weft
