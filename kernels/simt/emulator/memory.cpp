#include "kernels/simt/emulator/memory.h"

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>

namespace weft::emulator {
namespace {

struct Record {
  std::mutex mutex;
  std::map<const char*, Buffer> buffers;
  std::atomic<uint64_t> version{1};
};
// Tensors in static storage are freed after any static of ours.
Record& record() {
  static auto* const value = new Record;
  return *value;
}

}  // namespace

void* allocate_memory(size_t bytes) noexcept {
  constexpr size_t alignment = 256;
  static_assert(kMemoryMargin % alignment == 0);
  const size_t room = (bytes + alignment - 1) / alignment * alignment;
  if (room < bytes || room > SIZE_MAX / 2) return nullptr;
  auto* memory = static_cast<char*>(std::aligned_alloc(alignment, room + 2 * kMemoryMargin));
  if (!memory) return nullptr;
  char* block = memory + kMemoryMargin;
  try {
    Record& all = record();
    const std::lock_guard lock(all.mutex);
    all.buffers[block] = {block, bytes, room};
    ++all.version;
  } catch (...) {
    std::free(memory);
    return nullptr;
  }
  return block;
}

void free_memory(void* block) noexcept {
  if (!block) return;
  {
    Record& all = record();
    const std::lock_guard lock(all.mutex);
    all.buffers.erase(static_cast<const char*>(block));
    ++all.version;
  }
  std::free(static_cast<char*>(block) - kMemoryMargin);
}

void note_use(const void* block, size_t bytes) noexcept {
  Record& all = record();
  const std::lock_guard lock(all.mutex);
  const auto found = all.buffers.find(static_cast<const char*>(block));
  if (found == all.buffers.end()) return;
  found->second.bytes = bytes;
  ++all.version;
}

std::vector<Buffer> buffers() {
  Record& all = record();
  const std::lock_guard lock(all.mutex);
  std::vector<Buffer> list;
  list.reserve(all.buffers.size());
  for (const auto& [begin, buffer] : all.buffers) list.push_back(buffer);
  return list;
}

uint64_t buffers_version() { return record().version.load(std::memory_order_acquire); }

}  // namespace weft::emulator
