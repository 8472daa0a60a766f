// The functions that -fsanitize=thread has the compiler call before each access to memory, and
// -fsanitize-coverage=trace-pc at the beginning of each basic block, so that the examination sees what kernels touch and
// how often what runs: a kernel's source needs nothing for that, and the return address tells the line.
//
// The names and meanings are those of ThreadSanitizer's runtime (LLVM, compiler-rt/lib/tsan), whose place this unit
// takes; it is not compiled with the option itself.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/simt/emulator/state.h"
#include "kernels/simt/trace/recorder.h"

namespace weft::trace {
namespace {

__attribute__((always_inline)) inline void saw(const void* address, size_t bytes, Access kind, const void* pc) {
  Recorder* const recorder = Recorder::active;
  if (!recorder || !emulator::current.block) return;
  recorder->access(address, bytes, kind, pc);
}

}  // namespace
}  // namespace weft::trace

#define WEFT_SAW(address, bytes, kind) \
  weft::trace::saw(address, bytes, weft::trace::Access::kind, __builtin_return_address(0))

extern "C" {

// Called once a unit, before main or when its library is opened.
void __tsan_init() { weft::trace::add_traced_module(__builtin_return_address(0)); }
void __sanitizer_cov_trace_pc() {
  weft::trace::Recorder* const recorder = weft::trace::Recorder::active;
  if (recorder && weft::emulator::current.block) recorder->block_ran(__builtin_return_address(0));
}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

#define WEFT_HOOKS(bytes)                                                                \
  void __tsan_read##bytes(void* address) { WEFT_SAW(address, bytes, load); }             \
  void __tsan_write##bytes(void* address) { WEFT_SAW(address, bytes, store); }           \
  void __tsan_unaligned_read##bytes(void* address) { WEFT_SAW(address, bytes, load); }   \
  void __tsan_unaligned_write##bytes(void* address) { WEFT_SAW(address, bytes, store); } \
  void __tsan_volatile_read##bytes(void* address) { WEFT_SAW(address, bytes, load); }    \
  void __tsan_volatile_write##bytes(void* address) { WEFT_SAW(address, bytes, store); }  \
  void __tsan_read_write##bytes(void* address) {                                         \
    WEFT_SAW(address, bytes, load);                                                      \
    WEFT_SAW(address, bytes, store);                                                     \
  }
WEFT_HOOKS(1)
WEFT_HOOKS(2)
WEFT_HOOKS(4)
WEFT_HOOKS(8)
WEFT_HOOKS(16)
void __tsan_read_range(void* address, size_t bytes) { WEFT_SAW(address, bytes, load); }
void __tsan_write_range(void* address, size_t bytes) { WEFT_SAW(address, bytes, store); }

// Newer clang calls these for copies.
void* __tsan_memcpy(void* to, const void* from, size_t bytes) {
  WEFT_SAW(from, bytes, load);
  WEFT_SAW(to, bytes, store);
  return std::memcpy(to, from, bytes);
}
void* __tsan_memmove(void* to, const void* from, size_t bytes) {
  WEFT_SAW(from, bytes, load);
  WEFT_SAW(to, bytes, store);
  return std::memmove(to, from, bytes);
}
void* __tsan_memset(void* to, int value, size_t bytes) {
  WEFT_SAW(to, bytes, store);
  return std::memset(to, value, bytes);
}

// Atomics do what they are called; which of them are the kernel's, the emulator reports (Observer::atomic). `order` is
// ignored for the strongest one.
#define WEFT_ATOMICS(bits)                                                                                       \
  uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t* p, int) {                             \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                                 \
  }                                                                                                              \
  void __tsan_atomic##bits##_store(volatile uint##bits##_t* p, uint##bits##_t v, int) {                          \
    __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                                                    \
  }                                                                                                              \
  uint##bits##_t __tsan_atomic##bits##_exchange(volatile uint##bits##_t* p, uint##bits##_t v, int) {             \
    return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                                                          \
  }                                                                                                              \
  uint##bits##_t __tsan_atomic##bits##_fetch_add(volatile uint##bits##_t* p, uint##bits##_t v, int) {            \
    return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST);                                                           \
  }                                                                                                              \
  uint##bits##_t __tsan_atomic##bits##_fetch_sub(volatile uint##bits##_t* p, uint##bits##_t v, int) {            \
    return __atomic_fetch_sub(p, v, __ATOMIC_SEQ_CST);                                                           \
  }                                                                                                              \
  uint##bits##_t __tsan_atomic##bits##_fetch_and(volatile uint##bits##_t* p, uint##bits##_t v, int) {            \
    return __atomic_fetch_and(p, v, __ATOMIC_SEQ_CST);                                                           \
  }                                                                                                              \
  uint##bits##_t __tsan_atomic##bits##_fetch_or(volatile uint##bits##_t* p, uint##bits##_t v, int) {             \
    return __atomic_fetch_or(p, v, __ATOMIC_SEQ_CST);                                                            \
  }                                                                                                              \
  uint##bits##_t __tsan_atomic##bits##_fetch_xor(volatile uint##bits##_t* p, uint##bits##_t v, int) {            \
    return __atomic_fetch_xor(p, v, __ATOMIC_SEQ_CST);                                                           \
  }                                                                                                              \
  uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(volatile uint##bits##_t* p, uint##bits##_t expected, \
                                                            uint##bits##_t v, int, int) {                        \
    __atomic_compare_exchange_n(p, &expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                     \
    return expected;                                                                                             \
  }                                                                                                              \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile uint##bits##_t* p, uint##bits##_t* expected,        \
                                                    uint##bits##_t v, int, int) {                                \
    return __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);               \
  }                                                                                                              \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile uint##bits##_t* p, uint##bits##_t* expected,          \
                                                  uint##bits##_t v, int, int) {                                  \
    return __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);               \
  }
WEFT_ATOMICS(8)
WEFT_ATOMICS(16)
WEFT_ATOMICS(32)
WEFT_ATOMICS(64)
void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void __tsan_atomic_signal_fence(int) {}
}
