#include "kernels/simt/emulator/async_copy.h"

#include <cstdint>
#include <cstring>

#include "kernels/base/error.h"
#include "kernels/simt/emulator/block.h"
#include "kernels/simt/emulator/observer.h"

namespace weft::emulator {

void start_copy16(void* shared, const void* global) {
  Block& block = *current.block;
  if (reinterpret_cast<uintptr_t>(shared) % 16 != 0 || reinterpret_cast<uintptr_t>(global) % 16 != 0)
    block.stop([&] {
      return fmt::format("misaligned address: cp_async16 from {} to {}, which have to be multiples of 16", global,
                         shared);
    });
  const void* pc = __builtin_return_address(0);
  if (Observer* watcher = observer()) watcher->copy_started(shared, global, 16, pc);
  block.async_copies().copies.push_back({shared, global, pc});
  std::memset(shared, 0xff, 16);
}

void commit_copies() {
  AsyncCopies& own = current.block->async_copies();
  own.group_begin.push_back(own.open_begin);
  own.open_begin = own.copies.size();
}

void wait_copies(int groups) {
  AsyncCopies& own = current.block->async_copies();
  const auto keep = static_cast<size_t>(groups);
  if (own.group_begin.size() <= keep) return;
  const size_t landing = own.group_begin.size() - keep;
  const size_t end = keep == 0 ? own.open_begin : own.group_begin[landing];
  Observer* const watcher = observer();
  for (size_t i = 0; i < end; ++i) {
    const AsyncCopy& copy = own.copies[i];
    std::memcpy(copy.shared, copy.global, 16);
    if (watcher) watcher->copy_landed(copy.shared, copy.global, 16, copy.pc);
  }
  own.copies.erase(own.copies.begin(), own.copies.begin() + static_cast<ptrdiff_t>(end));
  own.group_begin.erase(own.group_begin.begin(), own.group_begin.begin() + static_cast<ptrdiff_t>(landing));
  for (size_t& begin : own.group_begin) begin -= end;
  own.open_begin -= end;
}

}  // namespace weft::emulator
