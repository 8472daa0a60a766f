#include "kernels/simt/emulator/launch.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>

#include "kernels/base/device.h"
#include "kernels/base/error.h"
#include "kernels/base/parallel.h"
#include "kernels/device_table.h"
#include "kernels/simt/emulator/block.h"
#include "kernels/simt/emulator/config.h"
#include "kernels/simt/emulator/observer.h"
#include "kernels/simt/emulator/sanitizer.h"

namespace weft::emulator {
namespace {

// Threads of a kernel that are worth waking another OS thread for.
constexpr int64_t kThreadsPerTile = 512;
// So that blocks of unequal work spread evenly.
constexpr int64_t kTilesPerThread = 8;

std::atomic<Observer*> current_observer{nullptr};

// The OS thread's block, with its stacks. On the heap: thread-local memory is for __shared__ variables.
Block& own_block() {
  static thread_local std::unique_ptr<Block> block;
  if (!block) block = std::make_unique<Block>();
  return *block;
}

void check(const Launch& launch) {
  const dim3 grid = launch.grid, block = launch.block;
  const auto refuse = [&](std::string_view why) {
    fail(ErrorCode::invalid_argument, "launch",
         "{}: {} × {} × {} blocks of {} × {} × {} threads with {} bytes of shared memory, launched at {}:{}", why,
         grid.x, grid.y, grid.z, block.x, block.y, block.z, launch.shared_bytes, launch.at.file, launch.at.line);
  };
  if (current.block) refuse("a kernel cannot launch another one");
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (uint64_t{grid.x} * grid.y * grid.z == 0 || threads == 0) refuse("there is nothing to run");
  if (threads > 1024 || block.z > 64) refuse("a block has at most 1024 threads, 64 along z");
  if (grid.x > std::numeric_limits<int>::max() || grid.y > 65535 || grid.z > 65535)
    refuse("a grid has at most 2147483647 × 65535 × 65535 blocks");
  if (launch.shared_bytes > kMaxDynamicShared) refuse("a block has at most 232448 bytes of dynamic shared memory");
}

uint3 block_index(uint64_t number, dim3 grid) {
  return {static_cast<unsigned>(number % grid.x), static_cast<unsigned>(number / grid.x % grid.y),
          static_cast<unsigned>(number / grid.x / grid.y)};
}

// The error of the block that comes first in the launch, of those that ran.
class FirstError {
 public:
  bool any() const { return any_.load(std::memory_order_relaxed); }
  void add(int64_t block, std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (any() && block > block_) return;
    block_ = block;
    error_ = std::move(error);
    any_.store(true, std::memory_order_relaxed);
  }
  void rethrow() {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::atomic<bool> any_{false};
  int64_t block_ = 0;
  std::exception_ptr error_;
};

}  // namespace

Config& config() {
  static Config value;
  return value;
}

void set_observer(Observer* observer) { current_observer.store(observer, std::memory_order_release); }
Observer* observer() { return current_observer.load(std::memory_order_acquire); }

void observe_atomic(const void* address, size_t bytes) {
  if (Observer* watcher = observer()) watcher->atomic(address, bytes, __builtin_return_address(0));
}

void run(const Launch& launch) {
  check(launch);
  const auto blocks = static_cast<int64_t>(uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z);
  const bool reversed = config().reversed;
  FirstError error;
  const auto run_blocks = [&](int64_t begin, int64_t end) {
    try {
      Block& block = own_block();
      block.prepare(launch);
      for (int64_t i = begin; i < end && !error.any(); ++i) {
        const int64_t number = reversed ? blocks - 1 - i : i;
        try {
          block.run(block_index(static_cast<uint64_t>(number), launch.grid));
        } catch (...) {
          error.add(number, std::current_exception());
        }
      }
    } catch (...) {  // no memory for a block
      error.add(reversed ? blocks - 1 - begin : begin, std::current_exception());
    }
  };

  Observer* const watcher = observer();
  if (watcher) watcher->launch_begin(launch);
  const int threads = kAddressSanitizer || config().threads == 1 ? 1 : num_threads();
  if (threads == 1) {
    run_blocks(0, blocks);
  } else {
    const int64_t block_threads = int64_t{launch.block.x} * launch.block.y * launch.block.z;
    const int64_t tile = std::max(blocks / (threads * kTilesPerThread), (kThreadsPerTile - 1) / block_threads + 1);
    parallel_for(blocks, tile, run_blocks);
  }
  if (watcher) watcher->launch_end(launch);
  error.rethrow();
  // What kernels found wrong in their data (kernels/base/device.h).
  throw_fault(*simt::device_runtime_table.fault(Device::simt()));
}

}  // namespace weft::emulator
