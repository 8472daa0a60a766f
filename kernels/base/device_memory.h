// The caching allocator for device memory: stream-ordered, so that freeing and allocating never wait.
//
//   ScratchBuffer partial(stream, blocks * sizeof(float));   // a kernel's workspace
//   launch(first_stage, …, partial.as<float>());
//   launch(second_stage, …, partial.as<float>());            // `partial` goes at the end of the scope: that is safe
//
// A block belongs to the stream that it was allocated on. Freed, it may be handed out again at once on the same stream:
// what runs later there starts after everything queued before, so nobody sees the block too early. A tensor that is
// also used on another stream says so with record_stream; its block then waits for an event. Size classes are those of
// the CPU's allocator (tensor/allocator.h).
//
// While a graph is captured, its memory comes from a pool of the graph's own and stays there: a replay writes to the
// same addresses again.
#pragma once
#include <cstdint>

#include "kernels/base/stream.h"

namespace weft {

struct MemoryStats {
  int64_t current = 0;             // bytes in live blocks, rounded up to size classes
  int64_t peak = 0;                // highest `current` since the start or reset_peak_memory_stats
  int64_t cached = 0;              // bytes kept for reuse
  int64_t allocations = 0;         // blocks handed out so far
  int64_t system_allocations = 0;  // of those, blocks that had to come from the system
};

namespace detail {

// Bytes of the block that a request for `bytes` gets: four classes an octave, at most a quarter is wasted.
int64_t block_size(int64_t bytes);

// At least `bytes` (> 0), aligned to 256 bytes, for use in the order of `stream`. Throws out_of_memory naming the bytes
// after giving the cache back did not help.
void* allocate_device_block(Stream stream, int64_t bytes);
void free_device_block(Device device, void* block) noexcept;
// The block is also used on `stream`; it is not handed out again before the work queued there by its freeing is done.
void record_device_stream(Device device, void* block, Stream stream);

MemoryStats device_memory_stats(Device device);
void reset_peak_device_memory_stats(Device device);
// Waits for the device and gives all cached blocks back.
void empty_device_cache(Device device);

// Pools of captured graphs: from begin to end this thread's allocations on `device` come from the pool (> 0) returned.
int64_t begin_graph_pool(Device device);
void end_graph_pool() noexcept;
// The graph is gone: what it held is ordinary memory again.
void release_graph_pool(Device device, int64_t pool) noexcept;

}  // namespace detail

// Workspace of a kernel, freed to its stream when the object goes.
class ScratchBuffer {
 public:
  ScratchBuffer(Stream stream, int64_t bytes);
  ~ScratchBuffer();
  ScratchBuffer(const ScratchBuffer&) = delete;
  ScratchBuffer& operator=(const ScratchBuffer&) = delete;
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  Device device_;
  void* data_ = nullptr;
};

}  // namespace weft
