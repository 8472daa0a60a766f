// The joint at which an examination watches kernels (kernels/simt/trace).
//
//   class Report final : public Observer { void block_end(Block& block) override { … } … };
//   set_observer(&report);       // null: nobody
//
// The emulator reports launches, blocks, atomics and asynchronous copies. Plain loads and stores it does not see: a
// traced build has the compiler call a function before each. Which thread it was is in emulator::current; the barriers
// it has passed are counted in Block and Warp (block.h).
#pragma once
#include <cstddef>
#include <cstdint>

namespace weft::emulator {

class Block;
struct Launch;

class Observer {
 public:
  virtual ~Observer() = default;

  // On the thread that launches, before and after all blocks. `launch` lives until launch_end.
  virtual void launch_begin(const Launch& launch) = 0;
  virtual void launch_end(const Launch& launch) = 0;

  // On the OS thread that runs the block; several at a time. block_end also comes after an error.
  virtual void block_begin(Block& block) = 0;
  virtual void block_end(Block& block) = 0;

  // On the running kernel thread. `pc` is an address in the code that called.
  virtual void atomic(const void* address, size_t bytes, const void* pc) = 0;
  // cp.async: `shared` is being written from now until the thread waits, which is reported as copy_landed.
  virtual void copy_started(void* shared, const void* global, size_t bytes, const void* pc) = 0;
  virtual void copy_landed(void* shared, const void* global, size_t bytes, const void* pc) = 0;
  // __syncwarp, on the last lane to arrive: what the lanes of `mask` did before is ordered before what they do next.
  virtual void warp_synced(unsigned mask) = 0;
  // ldmatrix: the calling lane's row of 16 bytes.
  virtual void matrix_row_read(const void* shared, size_t bytes, const void* pc) = 0;

  // mma, on the last lane to arrive: what the warp has done, a product and a sum being two operations.
  virtual void matrices_multiplied(uint64_t operations, const void* pc) = 0;

  // An error in the kernel, as the launch is going to throw it. The launch goes on to stop.
  virtual void kernel_error(const char* text) = 0;
};

void set_observer(Observer* observer);
// Null in ordinary runs.
Observer* observer();

// Called by atomics in front of the access; costs a load where nobody watches.
void observe_atomic(const void* address, size_t bytes);

}  // namespace weft::emulator
