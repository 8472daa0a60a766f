// What the running kernel thread is: the emulator's whole thread-local state.
//
// It is one plain object so that threadIdx costs one load. All fibers of a block run on one OS thread, one at a time,
// and whoever switches fibers puts the next one's values here (Block::jump).
#pragma once
#include "kernels/simt/emulator/types.h"

namespace weft::emulator {

class Block;

struct ThreadState {
  uint3 thread_index{};
  uint3 block_index{};
  dim3 block_dim;
  dim3 grid_dim;
  Block* block = nullptr;  // null: no kernel runs on this OS thread
  unsigned thread = 0;     // in the block: x + y · dim.x + z · dim.x · dim.y
  unsigned lane = 0;       // thread % 32
  unsigned char* dynamic_shared = nullptr;
};

// initial-exec: an address without a function call, also in a library that is opened late; there is little such space
// (1.6 kB in glibc), which is why the emulator keeps everything else on the heap.
extern constinit thread_local ThreadState current __attribute__((tls_model("initial-exec")));

// A line of a kernel. Clang 14 has no std::source_location.
struct Location {
  const char* file = nullptr;
  int line = 0;
  static constexpr Location here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

}  // namespace weft::emulator
