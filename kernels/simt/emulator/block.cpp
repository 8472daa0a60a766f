#include "kernels/simt/emulator/block.h"

#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "kernels/base/error.h"
#include "kernels/simt/emulator/barrier.h"
#include "kernels/simt/emulator/config.h"
#include "kernels/simt/emulator/observer.h"
#include "kernels/simt/emulator/sanitizer.h"

namespace weft::emulator {

constinit thread_local ThreadState current;

namespace {

// Stacks come in slabs of a warp's worth. Each begins one page above a guard page, so all have the same offset in a page
// and, unless moved apart, their tops would compete for the same few lines of the L1 cache.
constexpr size_t kSlabFibers = kWarpSize;
constexpr size_t stack_colour(size_t fiber) { return fiber % 61 * 64; }

std::string where(Location at) {
  if (!at.file) return "an unknown line";
  return fmt::format("{}:{}", at.file, at.line);
}
std::string name_thread(uint3 index) { return fmt::format("thread ({}, {}, {})", index.x, index.y, index.z); }

}  // namespace

Block::Block() : self_(current) {
  // 128: what WEFT_DYNAMIC_SHARED promises.
  dynamic_shared_.reset(static_cast<unsigned char*>(std::aligned_alloc(128, kMaxDynamicShared)));
  if (!dynamic_shared_) fail(ErrorCode::out_of_memory, "launch", "no memory for shared memory");
}

Block::~Block() {
  allow_access(dynamic_shared_.get(), kMaxDynamicShared);
  for (const auto& [memory, bytes] : mappings_) {
    allow_access(memory, bytes);
    munmap(memory, bytes);
  }
}

void Block::FreeBytes::operator()(unsigned char* bytes) const { std::free(bytes); }

void Block::prepare(const Launch& launch) {
  launch_ = &launch;
  reversed_ = config().reversed;
  const dim3 dim = launch.block;
  const size_t count = size_t{dim.x} * dim.y * dim.z;
  threads_.assign(count, Thread{});
  warps_.resize((count + kWarpSize - 1) / kWarpSize);
  size_t number = 0;
  for (unsigned z = 0; z < dim.z; ++z)
    for (unsigned y = 0; y < dim.y; ++y)
      for (unsigned x = 0; x < dim.x; ++x) threads_[number++].index = {x, y, z};
  if (stack_bytes_ != config().stack_bytes) {
    for (const auto& [memory, bytes] : mappings_) munmap(memory, bytes);
    mappings_.clear();
    fibers_.clear();
    idle_.clear();
    stack_bytes_ = config().stack_bytes;
  }
}

void Block::run(uint3 index) {
  const auto count = static_cast<unsigned>(threads_.size());
  next_ = exited_ = waiting_ = 0;
  epoch_ = 0;
  barrier_at_ = {};
  predicates_ = 0;
  failed_ = false;
  for (unsigned w = 0; w < warps_.size(); ++w) {
    Warp& warp = warps_[w];
    const unsigned lanes = std::min(kWarpSize, count - w * kWarpSize);
    warp.exists = lanes == kWarpSize ? ~0u : (1u << lanes) - 1;
    warp.exited = warp.ready = warp.barrier = warp.arrived = 0;
    warp.epoch = 0;
  }
  if (async_used_) {
    async_copies_.clear();
    async_used_ = false;
  }
  allow_access(dynamic_shared_.get(), kMaxDynamicShared);
  if (config().poison) std::memset(dynamic_shared_.get(), 0xff, launch_->shared_bytes);
  forbid_access(dynamic_shared_.get() + launch_->shared_bytes, kMaxDynamicShared - launch_->shared_bytes);

  self_.block_index = index;
  self_.block_dim = launch_->block;
  self_.grid_dim = launch_->grid;
  self_.dynamic_shared = dynamic_shared_.get();
  self_.block = this;
  running_ = &main_;
  Observer* const watcher = observer();
  if (watcher) watcher->block_begin(*this);
  jump(idle_fiber());
  if (watcher) watcher->block_end(*this);
  self_.block = nullptr;
  allow_access(dynamic_shared_.get(), kMaxDynamicShared);
  if (!failed_) return;

  // Threads that waited have left frames on their stacks: all fibers begin anew.
  idle_.clear();
  for (size_t i = 0; i < fibers_.size(); ++i) reset_fiber(i);
  std::rethrow_exception(std::exchange(error_, nullptr));
}

// --- fibers -----------------------------------------------------------------------------------------------------

void Block::allocate_fibers() {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t stack = (stack_bytes_ + page - 1) / page * page;
  const size_t each = page + stack;
  void* memory = mmap(nullptr, kSlabFibers * each, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED)
    fail(ErrorCode::out_of_memory, "launch", "no memory for the stacks of {} kernel threads: {}", kSlabFibers,
         std::strerror(errno));
  mappings_.emplace_back(memory, kSlabFibers * each);
  for (size_t i = 0; i < kSlabFibers; ++i) {
    char* guard = static_cast<char*>(memory) + i * each;
    // A process has some 65,000 mappings; where they run out, stacks go without a guard.
    mprotect(guard, page, PROT_NONE);
    auto fiber = std::make_unique<Fiber>();
    fiber->stack = guard + page;
    fiber->stack_bytes = stack;
    fibers_.push_back(std::move(fiber));
  }
  // The first of the slab is used first.
  for (size_t i = fibers_.size(); i > fibers_.size() - kSlabFibers; --i) reset_fiber(i - 1);
}

void Block::reset_fiber(size_t number) {
  Fiber& fiber = *fibers_[number];
  allow_access(fiber.stack, fiber.stack_bytes);
  prepare_fiber(fiber, fiber.stack_bytes - stack_colour(number), fiber_body);
  idle_.push_back(&fiber);
}

Fiber& Block::idle_fiber() {
  if (idle_.empty()) allocate_fibers();
  Fiber* fiber = idle_.back();
  idle_.pop_back();
  return *fiber;
}

void Block::fiber_body() { current.block->run_threads(); }

// Switches stacks, and puts the running thread's state back when somebody switches here again.
void Block::jump(Fiber& to) {
  Fiber& from = *running_;
  const uint3 index = self_.thread_index;
  const unsigned thread = self_.thread;
  running_ = &to;
  switch_fiber(from, to);
  self_.thread_index = index;
  self_.thread = thread;
  self_.lane = thread % kWarpSize;
}

// --- threads ----------------------------------------------------------------------------------------------------

void Block::start_next_thread() {
  const auto count = static_cast<unsigned>(threads_.size());
  const unsigned number = reversed_ ? count - 1 - next_ : next_;
  ++next_;
  Thread& thread = threads_[number];
  thread.status = ThreadStatus::running;
  self_.thread_index = thread.index;
  self_.thread = number;
  self_.lane = number % kWarpSize;
}

void Block::finish_thread() {
  threads_[self_.thread].status = ThreadStatus::exited;
  ++exited_;
  Warp& own = warp();
  own.exited |= 1u << self_.lane;
  // Lanes that wait for this one wait for ever.
  for (unsigned rest = own.arrived; rest; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(rest));
    if (!(own.mask[lane] >> self_.lane & 1)) continue;
    const Thread& waiting = threads_[self_.thread / kWarpSize * kWarpSize + lane];
    return fail_block(fmt::format(
        "exited lane: {} waits in {} at {} with the mask {:#010x} for lane {}, whose thread has returned",
        name_thread(waiting.index), name(waiting.operation), where(waiting.at), own.mask[lane], self_.lane));
  }
  if (waiting_ != 0 && waiting_ == threads_.size() - exited_) release_barrier();
}

// What every fiber does: run threads until none is left to start.
void Block::run_threads() {
  for (;;) {
    start_next_thread();
    try {
      launch_->call(launch_->arguments);
    } catch (...) {
      if (!failed_) error_ = std::current_exception();
      failed_ = true;
    }
    Fiber* next = &main_;
    if (!failed_) finish_thread();
    if (!failed_) {
      const unsigned own = self_.thread / kWarpSize;
      // The usual way: on with the next thread, on this stack.
      if (next_ < threads_.size() && !warps_[own].ready) continue;
      next = next_runnable(own);
      if (!next) {
        if (exited_ < threads_.size()) fail_block(deadlock_message());
        next = &main_;
      }
    }
    idle_.push_back(running_);
    jump(*next);  // comes back when this fiber is taken from the idle ones
  }
}

void Block::wait(ThreadStatus status, Location at) {
  Thread& thread = threads_[self_.thread];
  thread.status = status;
  thread.fiber = running_;
  thread.at = at;
  Fiber* next = next_runnable(self_.thread / kWarpSize);
  if (!next) {
    fail_block(deadlock_message());
    next = &main_;
  }
  jump(*next);
}

// Lanes of the own warp go first: they are about to meet again. Then a thread that has not started. Then other warps.
Fiber* Block::next_runnable(unsigned warp) {
  if (const unsigned ready = warps_[warp].ready) {
    if (reversed_) {
      const unsigned below = ready & ((1u << self_.lane) - 1);
      return take(warp, 31u - static_cast<unsigned>(std::countl_zero(below ? below : ready)));
    }
    const unsigned above = self_.lane < 31 ? ready & (~0u << (self_.lane + 1)) : 0;
    return take(warp, static_cast<unsigned>(std::countr_zero(above ? above : ready)));
  }
  if (next_ < threads_.size()) return &idle_fiber();
  const auto count = static_cast<unsigned>(warps_.size());
  for (unsigned i = 1; i < count; ++i) {
    const unsigned other = (reversed_ ? warp + count - i : warp + i) % count;
    if (const unsigned ready = warps_[other].ready)
      return take(other, static_cast<unsigned>(reversed_ ? 31 - std::countl_zero(ready) : std::countr_zero(ready)));
  }
  return nullptr;
}

Fiber* Block::take(unsigned warp, unsigned lane) {
  warps_[warp].ready &= ~(1u << lane);
  Thread& thread = threads_[warp * kWarpSize + lane];
  thread.status = ThreadStatus::running;
  return thread.fiber;
}

// --- barriers ---------------------------------------------------------------------------------------------------

void Block::barrier(Location at) {
  if (waiting_ == 0) {
    barrier_at_ = at;
  } else if (at.line != barrier_at_.line ||
             (at.file != barrier_at_.file && std::strcmp(at.file, barrier_at_.file) != 0)) {
    stop([&] {
      return fmt::format("divergent barrier: some threads of a block wait at {}, {} at {}", where(barrier_at_),
                         name_thread(self_.thread_index), where(at));
    });
  }
  ++waiting_;
  if (waiting_ == threads_.size() - exited_) return release_barrier();
  warp().barrier |= 1u << self_.lane;
  wait(ThreadStatus::at_barrier, at);
}

int Block::barrier_count(bool predicate, Location at) {
  predicates_ += predicate;
  barrier(at);
  return predicate_count_;
}

void Block::release_barrier() {
  for (Warp& warp : warps_) {
    warp.ready |= warp.barrier;
    warp.barrier = 0;
    ++warp.epoch;
  }
  waiting_ = 0;
  ++epoch_;
  predicate_count_ = predicates_;
  predicates_ = 0;
}

// --- warp operations --------------------------------------------------------------------------------------------

bool Block::arrive(WarpOperation operation, unsigned mask, Location at) {
  Warp& own = warp();
  const unsigned lane = self_.lane;
  // Lanes beyond the end of the block do not count: 0xffffffff is how CUDA code says "the warp".
  const unsigned lanes = mask & own.exists;
  if (!(mask >> lane & 1))
    stop([&] {
      return fmt::format("mask mismatch: {} calls {} at {} with the mask {:#010x}, which leaves out its lane {}",
                         name_thread(self_.thread_index), name(operation), where(at), mask, lane);
    });
  if (const unsigned gone = lanes & own.exited)
    stop([&] {
      return fmt::format("exited lane: {} at {} waits with the mask {:#010x} for lane {}, whose thread has returned",
                         name(operation), where(at), mask, std::countr_zero(gone));
    });
  Thread& self = threads_[self_.thread];
  self.operation = operation;
  self.at = at;
  own.mask[lane] = lanes;
  own.arrived |= 1u << lane;
  if (const unsigned others = own.arrived & lanes & ~(1u << lane)) {
    // Whoever is there already has to be in the same operation with the same lanes; one of them says enough.
    const auto other = static_cast<unsigned>(std::countr_zero(others));
    const Thread& there = threads_[self_.thread / kWarpSize * kWarpSize + other];
    if (there.operation != operation || own.mask[other] != lanes)
      stop([&] {
        return fmt::format(
            "mask mismatch: lane {} calls {} at {} for lanes {:#010x}, lane {} calls {} at {} for lanes {:#010x}", lane,
            name(operation), where(at), lanes, other, name(there.operation), where(there.at), own.mask[other]);
      });
  }
  if ((own.arrived & lanes) == lanes) return true;
  wait(ThreadStatus::at_warp_operation, at);
  return false;
}

void Block::complete(unsigned mask) {
  Warp& own = warp();
  const unsigned lanes = mask & own.exists;
  own.arrived &= ~lanes;
  own.ready |= lanes & ~(1u << self_.lane);
  ++own.epoch;
}

AsyncCopies& Block::async_copies() {
  if (!async_used_) {
    async_copies_.resize(threads_.size());
    async_used_ = true;
  }
  return async_copies_[self_.thread];
}

// --- errors -----------------------------------------------------------------------------------------------------

void Block::fail_block(std::string message) {
  if (failed_) return;
  failed_ = true;
  const uint3 index = self_.block_index;
  message = fmt::format("{}; in block ({}, {}, {}) of the kernel launched at {}", message, index.x, index.y, index.z,
                        where(launch_->at));
  if (Observer* watcher = observer()) watcher->kernel_error(message.c_str());
  error_ = std::make_exception_ptr(Error(ErrorCode::internal, "kernel", message));
}

void Block::give_up() {
  jump(main_);
  __builtin_unreachable();
}

std::string Block::deadlock_message() const {
  // One thread of each line says enough.
  std::string text = "deadlock: no thread of the block can go on;";
  std::vector<Location> told;
  for (const Thread& thread : threads_) {
    const bool barrier = thread.status == ThreadStatus::at_barrier;
    if (!barrier && thread.status != ThreadStatus::at_warp_operation) continue;
    bool known = told.size() >= 4;
    for (const Location& at : told) known = known || (at.line == thread.at.line && at.file == thread.at.file);
    if (known) continue;
    told.push_back(thread.at);
    text += fmt::format("{} {} waits in {} at {}", told.size() > 1 ? "," : "", name_thread(thread.index),
                        barrier ? "__syncthreads" : name(thread.operation), where(thread.at));
  }
  if (exited_ > 0) text += fmt::format("; {} of {} threads have returned", exited_, threads_.size());
  return text;
}

void sync_block(Location at) { current.block->barrier(at); }
int sync_block_count(bool predicate, Location at) { return current.block->barrier_count(predicate, at); }
int sync_block_and(bool predicate, Location at) { return current.block->barrier_count(!predicate, at) == 0; }
int sync_block_or(bool predicate, Location at) { return current.block->barrier_count(predicate, at) != 0; }

}  // namespace weft::emulator
