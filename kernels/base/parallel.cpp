// The pool behind parallel_for.
//
// A call puts a Job on its own stack and opens one of 64 slots that live for ever. A worker that finds an open slot
// first registers in the slot's state word as a visitor, and only then reads the job; the caller closes the slot when
// every tile is claimed and returns when the last visitor has left. So a late worker can look at a slot but never at
// the stack of a caller that has gone. Nothing here allocates once the workers run, and every global is trivially
// destructible: parallel_for works (on the caller alone) even in destructors of static objects.
#include "kernels/base/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "kernels/base/error.h"

namespace weft {
namespace {

constexpr int kMaxThreads = 1024;
constexpr auto kSpinTime = std::chrono::microseconds(50);

struct alignas(64) Job {
  detail::TileFunction function;
  void* context;
  int64_t total;
  int64_t tile;
  int64_t count;             // tiles in all
  std::exception_ptr error;  // written by whoever sets `failed`
  std::atomic<bool> failed{false};
  alignas(64) std::atomic<int64_t> next{0};  // the first tile nobody has claimed
};

// state: kOpen while tiles are left, plus the number of workers inside.
constexpr uint32_t kOpen = 1u << 31;
struct alignas(64) Slot {
  std::atomic<uint32_t> state{0};
  Job* job = nullptr;
};

constinit Slot slots[64];
alignas(64) constinit std::atomic<uint64_t> used_slots{0};    // one bit a slot
alignas(64) constinit std::atomic<uint32_t> signal_count{0};  // rises with every job; workers sleep on it
alignas(64) constinit std::atomic<int> worker_count{0};       // running workers
constinit std::atomic<int> calling_threads{0};                // living threads that have used the pool
constinit std::atomic<int> thread_target{0};                  // num_threads(); 0: not decided yet
constinit std::atomic<bool> stopping{false};
constinit std::atomic<bool> exiting{false};
constinit std::mutex start_mutex;                       // guards `workers` and every start and stop
constinit std::vector<std::thread>* workers = nullptr;  // joined, never freed

// What the pool remembers about a thread.
struct ThreadState {
  bool inside_tile = false;
  bool counted = false;
  ~ThreadState() {
    if (counted) calling_threads.fetch_sub(1, std::memory_order_relaxed);
  }
};
thread_local ThreadState thread_state;

int available_cores() {
  static const int cores = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }();
  return cores;
}

// A count from the environment, or 0 when the variable is unset or empty.
int count_from_environment(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return 0;
  int count = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, code] = std::from_chars(text, end, count);
  WEFT_CHECK(code == std::errc{} && stop == end && count >= 1 && count <= 1 << 20, "parallel",
             "{} must be a positive number, got \"{}\"", variable, text);
  return count;
}

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits a short while for `done`; true when it came. Gives the core away at every look when threads outnumber cores.
template <class F>
bool spin_until(F&& done) {
  const bool crowded = calling_threads.load(std::memory_order_relaxed) + worker_count.load(std::memory_order_relaxed) >
                       available_cores();
  const auto deadline = std::chrono::steady_clock::now() + kSpinTime;
  do {
    if (crowded) {
      if (done()) return true;
      std::this_thread::yield();
    } else {
      for (int i = 0; i < 32; ++i) {
        if (done()) return true;
        pause();
      }
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return done();
}

void run_claimed_tiles(Job& job) {
  thread_state.inside_tile = true;
  try {
    for (;;) {
      const int64_t index = job.next.fetch_add(1, std::memory_order_relaxed);
      if (index >= job.count) break;
      const int64_t begin = index * job.tile;
      job.function(job.context, begin, job.total - begin < job.tile ? job.total : begin + job.tile);
    }
  } catch (...) {
    if (!job.failed.exchange(true, std::memory_order_relaxed)) job.error = std::current_exception();
    job.next.store(job.count, std::memory_order_relaxed);  // the tiles nobody has begun are dropped
  }
  thread_state.inside_tile = false;
}

// Joins the slot's job if it is open, and helps until its tiles are claimed.
bool visit(Slot& slot) {
  uint32_t state = slot.state.load(std::memory_order_relaxed);
  do {
    if (!(state & kOpen)) return false;
  } while (!slot.state.compare_exchange_weak(state, state + 1, std::memory_order_acquire, std::memory_order_relaxed));
  run_claimed_tiles(*slot.job);
  slot.state.fetch_and(~kOpen, std::memory_order_relaxed);
  // From here on the caller may return: only the slot itself may be touched.
  if (slot.state.fetch_sub(1, std::memory_order_acq_rel) == 1) slot.state.notify_one();
  return true;
}

void work(int index) {
  while (!stopping.load(std::memory_order_acquire)) {
    const uint32_t seen = signal_count.load(std::memory_order_acquire);
    bool worked = false;
    // Different workers start at different slots, so that concurrent callers each get some.
    const uint64_t used = std::rotr(used_slots.load(std::memory_order_acquire), index & 63);
    for (uint64_t rest = used; rest != 0; rest &= rest - 1)
      worked |= visit(slots[(std::countr_zero(rest) + index) & 63]);
    if (worked) continue;
    if (!spin_until([&] { return signal_count.load(std::memory_order_relaxed) != seen; })) signal_count.wait(seen);
  }
}

// Ends all workers; the caller holds start_mutex.
void stop_workers() {
  if (workers == nullptr || workers->empty()) return;
  stopping.store(true, std::memory_order_release);
  signal_count.fetch_add(1);
  signal_count.notify_all();
  for (std::thread& worker : *workers) worker.join();
  workers->clear();
  worker_count.store(0, std::memory_order_relaxed);
  stopping.store(false, std::memory_order_relaxed);
}

// Runs after main: no thread of ours outlives the program's objects.
void stop_at_exit() {
  if (thread_state.inside_tile) return;  // exit() from inside a tile: joining would wait for ourselves
  const std::lock_guard lock(start_mutex);
  exiting.store(true, std::memory_order_relaxed);
  stop_workers();
}

void start_workers(int target) {
  const std::lock_guard lock(start_mutex);
  if (exiting.load(std::memory_order_relaxed)) return;
  if (workers == nullptr) {
    workers = new std::vector<std::thread>;
    std::atexit(stop_at_exit);
  }
  // Signals belong to the program's own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    workers->reserve(target - 1);
    while (static_cast<int>(workers->size()) < target - 1) {
      const int index = static_cast<int>(workers->size());
      workers->emplace_back([index] {
        pthread_setname_np(pthread_self(), "weft-compute");
        work(index);
      });
    }
  } catch (const std::system_error&) {
    // The system grants no more threads: the ones there are do the work.
    thread_target.store(static_cast<int>(workers->size()) + 1, std::memory_order_relaxed);
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  worker_count.store(static_cast<int>(workers->size()), std::memory_order_relaxed);
}

void run_inline(int64_t total, int64_t tile, detail::TileFunction function, void* context) {
  for (int64_t begin = 0; begin < total; begin += tile)
    function(context, begin, total - begin < tile ? total : begin + tile);
}

// The index of a slot that now belongs to the caller, or 64 when all are taken.
int acquire_slot() {
  uint64_t used = used_slots.load(std::memory_order_relaxed);
  for (;;) {
    const int index = std::countr_one(used);
    if (index == 64) return index;
    const uint64_t bit = uint64_t{1} << index;
    if (used_slots.compare_exchange_weak(used, used | bit, std::memory_order_acq_rel, std::memory_order_relaxed))
      return index;
  }
}

}  // namespace

int num_threads() {
  int count = thread_target.load(std::memory_order_relaxed);
  if (count != 0) [[likely]]
    return count;
  count = count_from_environment("WEFT_NUM_THREADS");
  if (count == 0) count = std::max(1, available_cores() / std::max(1, count_from_environment("LOCAL_WORLD_SIZE")));
  count = std::min(count, kMaxThreads);
  int undecided = 0;
  return thread_target.compare_exchange_strong(undecided, count) ? count : undecided;
}

void set_num_threads(int count) {
  WEFT_CHECK(count >= 1 && count <= kMaxThreads, "set_num_threads", "expected 1 to {} threads, got {}", kMaxThreads,
             count);
  WEFT_CHECK(!thread_state.inside_tile, "set_num_threads", "called from inside a parallel_for");
  const std::lock_guard lock(start_mutex);
  thread_target.store(count, std::memory_order_relaxed);
  if (worker_count.load(std::memory_order_relaxed) != count - 1) stop_workers();
}

void detail::run_tiles(int64_t total, int64_t tile, TileFunction function, void* context) {
  WEFT_CHECK(tile >= 1, "parallel_for", "expected a tile of at least 1, got {}", tile);
  ThreadState& self = thread_state;
  const int threads = num_threads();
  if (threads == 1 || self.inside_tile || total <= tile) return run_inline(total, tile, function, context);
  if (worker_count.load(std::memory_order_relaxed) < threads - 1) [[unlikely]]
    start_workers(threads);
  if (!self.counted) [[unlikely]] {
    self.counted = true;
    calling_threads.fetch_add(1, std::memory_order_relaxed);
  }
  const int index = acquire_slot();
  if (index == 64) return run_inline(total, tile, function, context);

  Job job{};
  job.function = function;
  job.context = context;
  job.total = total;
  job.tile = tile;
  job.count = (total - 1) / tile + 1;
  Slot& slot = slots[index];
  slot.job = &job;
  slot.state.store(kOpen, std::memory_order_release);
  signal_count.fetch_add(1);
  const int64_t helpers = std::min<int64_t>(job.count, threads) - 1;
  if (helpers == threads - 1)
    signal_count.notify_all();
  else
    for (int64_t i = 0; i < helpers; ++i) signal_count.notify_one();

  run_claimed_tiles(job);
  slot.state.fetch_and(~kOpen, std::memory_order_relaxed);
  const auto empty = [&] { return slot.state.load(std::memory_order_acquire) == 0; };
  if (!empty() && !spin_until(empty)) {
    for (uint32_t state; (state = slot.state.load(std::memory_order_acquire)) != 0;) slot.state.wait(state);
  }
  used_slots.fetch_and(~(uint64_t{1} << index), std::memory_order_release);
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace weft
