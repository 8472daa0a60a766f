// How the emulator runs kernels. Change it between launches.
//
//   emulator::config().reversed = true;    // threads and blocks start last to first: a race may show
#pragma once
#include <cstddef>

namespace weft::emulator {

struct Config {
  // Blocks and their threads start in descending order and, of several runnable lanes, the last one goes on.
  bool reversed = false;
  // Dynamic shared memory begins as NaN in every block.
  bool poison = true;
  // 1: the thread that launches runs all blocks, as always under AddressSanitizer; 0: the pool shares them
  // (kernels/base/parallel.h).
  int threads = 0;
  // Of a kernel thread. Taken from the system when a thread first has to wait, then kept.
  size_t stack_bytes = 64 * 1024;
};

Config& config();

}  // namespace weft::emulator
