// The device's memory: the host's, with a record of what belongs to whom.
//
//   void* block = allocate_memory(4096);
//   note_use(block, 4000);             // the caching allocator handed out 4,000 bytes of it
//   std::vector<Buffer> all = buffers();
//
// The record is for examinations, which say what lies where a kernel reaches beyond the end of a buffer. Around each
// block there is room that belongs to nobody, so that a small step beyond hits nobody else's data.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::emulator {

inline constexpr size_t kMemoryMargin = 512;  // on both sides of a block

struct Buffer {
  const char* begin = nullptr;
  size_t bytes = 0;  // in use; 0: freed, kept for the next one
  size_t room = 0;   // that the block has
};

// 256-byte aligned; null when there is no more.
void* allocate_memory(size_t bytes) noexcept;
void free_memory(void* block) noexcept;

// Of `block`, the first `bytes` are in use from now on; 0: none.
void note_use(const void* block, size_t bytes) noexcept;

// By address. `version` changes with every change of them.
std::vector<Buffer> buffers();
uint64_t buffers_version();

}  // namespace weft::emulator
