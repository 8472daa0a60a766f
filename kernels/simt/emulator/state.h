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

// An ordinary thread_local variable: the faster "initial-exec" model is not for a library that is opened late, all of
// whose thread-local memory (the __shared__ variables of every kernel) would have to fit into the 1.6 kB that glibc keeps
// for such libraries. The compiler computes the address once a function, and the emulator itself passes it on.
extern constinit thread_local ThreadState current;

// A line of a kernel. Clang 14 has no std::source_location.
struct Location {
  const char* file = nullptr;
  int line = 0;
  static constexpr Location here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

}  // namespace weft::emulator
