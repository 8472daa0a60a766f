// The block that an OS thread is running: its threads, what they wait for, and who goes on next.
//
// Threads run one after the other on one stack, as a loop, as long as none has to wait. One that waits (at a barrier, or
// for the other lanes of its warp) keeps the stack, and the loop goes on with the next thread on another one. When the
// last thread of a barrier, or the last lane of a warp operation, arrives, it makes the others runnable and runs on
// itself; the others follow as it comes to wait again. So a kernel without barriers never switches stacks, and every
// order of execution is the same in every run.
//
//   Block block;                              // one an OS thread, reused: stacks stay mapped
//   block.prepare(launch);
//   block.run({x, y, z});                     // throws the first error of the block
#pragma once
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "kernels/simt/emulator/fiber.h"
#include "kernels/simt/emulator/launch.h"
#include "kernels/simt/emulator/state.h"
#include "kernels/simt/emulator/warp.h"

namespace weft::emulator {

// What CUDA allows of dynamic shared memory a block on sm_90.
inline constexpr size_t kMaxDynamicShared = 227 * 1024;
inline constexpr unsigned kWarpSize = 32;

enum class ThreadStatus : uint8_t { unstarted, running, ready, at_barrier, at_warp_operation, exited };

struct Thread {
  uint3 index;
  ThreadStatus status = ThreadStatus::unstarted;
  WarpOperation operation = WarpOperation::none;  // at_warp_operation
  Fiber* fiber = nullptr;                         // which holds its stack; null before its start
  Location at;                                    // where it last waited
};

// Sets of lanes have bit l for lane l.
struct Warp {
  unsigned exists = 0;   // lanes the block has
  unsigned exited = 0;   // their kernel has returned
  unsigned ready = 0;    // may go on, but does not run
  unsigned barrier = 0;  // waits in __syncthreads
  unsigned arrived = 0;  // waits in a warp operation
  uint32_t epoch = 0;    // warp operations and barriers completed: an order among its lanes
  // Of lanes that have arrived, and of the operation last completed.
  unsigned mask[kWarpSize];
  uint64_t value[kWarpSize];
  int source[kWarpSize];
  uint64_t result[kWarpSize];
  void* operands[kWarpSize];  // of matrix operations: a struct on the waiting lane's stack
};

// 16 bytes on their way to shared memory.
struct AsyncCopy {
  void* shared;
  const void* global;
  const void* pc;  // in the kernel
};
struct AsyncCopies {
  std::vector<AsyncCopy> copies;    // in order
  std::vector<size_t> group_begin;  // where each committed group begins
  size_t open_begin = 0;            // where the group not yet committed begins
};

class Block {
 public:
  Block();
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  // For all blocks of a launch, which has to live on.
  void prepare(const Launch& launch);
  void run(uint3 index);

  // --- for the running kernel thread ---

  void barrier(Location at);
  // The number of threads whose predicate was true.
  int barrier_count(bool predicate, Location at);

  // Waits until all lanes of `mask` are in the same operation. True for the last one, before the others may go on: it
  // computes the results and calls complete().
  bool arrive(WarpOperation operation, unsigned mask, Location at);
  void complete(unsigned mask);

  // Ends the block with the error text(). Does not return: the thread's stack is given up and nothing on it destroyed,
  // which is why the text comes from a function.
  template <class Text>
  [[noreturn]] void stop(Text&& text) {
    fail_block(text());
    give_up();
  }

  Warp& warp() { return warps_[self_.thread / kWarpSize]; }
  unsigned lane() const { return self_.lane; }
  AsyncCopies& async_copies();

  // --- for an examination ---

  const Launch& launch() const { return *launch_; }
  unsigned threads() const { return static_cast<unsigned>(threads_.size()); }
  const Thread& thread(unsigned number) const { return threads_[number]; }
  const Warp& warp_of(unsigned thread) const { return warps_[thread / kWarpSize]; }
  // Barriers completed so far: accesses of different threads are ordered if theirs differ.
  uint32_t epoch() const { return epoch_; }
  // The stack that is in use.
  const Fiber& fiber() const { return *running_; }
  const unsigned char* dynamic_shared() const { return dynamic_shared_.get(); }

 private:
  struct FreeBytes {
    void operator()(unsigned char* bytes) const;
  };

  static void fiber_body();
  void run_threads();
  void start_next_thread();
  void finish_thread();
  void wait(ThreadStatus status, Location at);
  void jump(Fiber& to);
  Fiber* next_runnable(unsigned warp);
  Fiber* take(unsigned warp, unsigned lane);
  Fiber& idle_fiber();
  void allocate_fibers();
  void reset_fiber(size_t number);
  void release_barrier();
  void fail_block(std::string message);
  [[noreturn]] void give_up();
  std::string deadlock_message() const;

  ThreadState& self_;  // `current` of the OS thread that the block belongs to
  const Launch* launch_ = nullptr;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<AsyncCopies> async_copies_;
  bool async_used_ = false;

  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  std::vector<std::pair<void*, size_t>> mappings_;
  size_t stack_bytes_ = 0;
  Fiber main_;  // the OS thread's own stack
  Fiber* running_ = nullptr;
  std::unique_ptr<unsigned char, FreeBytes> dynamic_shared_;

  unsigned next_ = 0;     // threads started
  unsigned exited_ = 0;   // threads whose kernel returned
  unsigned waiting_ = 0;  // threads at the barrier
  uint32_t epoch_ = 0;
  Location barrier_at_;  // of the first thread at the barrier
  int predicates_ = 0;
  int predicate_count_ = 0;  // of the barrier last completed
  bool reversed_ = false;
  bool failed_ = false;
  std::exception_ptr error_;
};

}  // namespace weft::emulator
