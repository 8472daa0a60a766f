// The caching allocator for CPU memory, and the statistics of every device's memory.
//
//   MemoryStats s = memory_stats();                   // s.current, s.peak: bytes in live tensors
//   MemoryStats g = memory_stats(Device::cuda());     // of a GPU: kernels/base/device_memory.h
//
// Freed blocks are kept by size class and handed out again, so a training step that repeats allocates nothing from the
// system. Blocks are 64-byte aligned; from 2 MiB on they are aligned to huge pages.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/base/device_memory.h"

namespace weft {

MemoryStats memory_stats(Device device = cpu_device);
void reset_peak_memory_stats(Device device = cpu_device);
// Gives all cached blocks back to the system (of a GPU: after waiting for it).
void empty_cache(Device device = cpu_device);

namespace detail {
// Throws out_of_memory naming the bytes. bytes > 0.
void* allocate_block(int64_t bytes);
void free_block(void* data, int64_t bytes) noexcept;
}  // namespace detail

}  // namespace weft
