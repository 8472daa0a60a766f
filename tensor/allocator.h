// The caching allocator for CPU memory, and its statistics.
//
//   MemoryStats s = memory_stats();   // s.current, s.peak: bytes in live tensors
//
// Freed blocks are kept by size class and handed out again, so a training step that repeats allocates nothing from the
// system. Blocks are 64-byte aligned; from 2 MiB on they are aligned to huge pages.
#pragma once
#include <cstddef>
#include <cstdint>

namespace weft {

struct MemoryStats {
  int64_t current = 0;             // bytes in live blocks, rounded up to size classes
  int64_t peak = 0;                // highest `current` since the start or reset_peak_memory_stats
  int64_t cached = 0;              // bytes kept for reuse
  int64_t allocations = 0;         // blocks handed out so far
  int64_t system_allocations = 0;  // of those, blocks that had to come from the system
};

MemoryStats memory_stats();
void reset_peak_memory_stats();
// Gives all cached blocks back to the system.
void empty_cache();

namespace detail {
// Bytes of the block that a request for `bytes` gets.
int64_t block_size(int64_t bytes);
// Throws out_of_memory naming the bytes. bytes > 0.
void* allocate_block(int64_t bytes);
void free_block(void* data, int64_t bytes) noexcept;
}  // namespace detail

}  // namespace weft
