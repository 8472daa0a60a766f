// Sleeping on a 32-bit word until another thread or process changes it (futex(2)), and the ways to wait a moment without.
//
// std::atomic::wait has no timeout and does not reach across processes, hence this file.
#pragma once
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <thread>

namespace weft::comm {

enum class Scope { process, host };  // who may wake the sleeper

// Sleeps while `word` holds `expected`, at most for `limit`. May return early for no reason.
inline void futex_wait(std::atomic<uint32_t>& word, uint32_t expected, std::chrono::nanoseconds limit, Scope scope) {
  static_assert(sizeof(std::atomic<uint32_t>) == 4);
  timespec time{};
  time.tv_sec = static_cast<time_t>(limit.count() / 1000000000);
  time.tv_nsec = static_cast<long>(limit.count() % 1000000000);
  const int op = scope == Scope::host ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE;
  syscall(SYS_futex, &word, op, expected, &time, nullptr, 0);
}

inline void futex_wake(std::atomic<uint32_t>& word, Scope scope) {
  syscall(SYS_futex, &word, scope == Scope::host ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

// Tells the core that this is a spin loop.
inline void cpu_relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Calls ready() for up to `limit` without sleeping, and returns what it said last. After the first moment it yields the core
// at every turn, as whoever is waited for may need it; at once when `crowded`: fewer cores than threads that want one.
template <class Ready>
bool spin_until(Ready&& ready, std::chrono::nanoseconds limit, bool crowded) {
  for (int i = 0; i < (crowded ? 1 : 100); ++i) {
    if (ready()) return true;
    cpu_relax();
  }
  const auto end = std::chrono::steady_clock::now() + limit;
  do {
    sched_yield();
    if (ready()) return true;
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace weft::comm
