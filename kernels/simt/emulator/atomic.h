// Read-modify-write that other threads cannot interrupt, for the types that CUDA has it for. Blocks run on several OS
// threads, so these are real atomics.
#pragma once
#include <algorithm>
#include <concepts>
#include <type_traits>

#include "kernels/simt/emulator/observer.h"
#include "kernels/simt/emulator/types.h"

namespace weft::emulator {

template <class T>
concept AtomicInteger = std::same_as<T, int> || std::same_as<T, unsigned> || std::same_as<T, unsigned long long>;
template <class T>
concept AtomicNumber = AtomicInteger<T> || std::same_as<T, float> || std::same_as<T, double>;

// Puts f(*address) in place of *address and returns what stood there.
template <class T, class F>
WEFT_ALWAYS_INLINE T read_modify_write(T* address, F f) {
  observe_atomic(address, sizeof(T));
  T before;
  __atomic_load(address, &before, __ATOMIC_RELAXED);
  for (;;) {
    T after = f(before);
    if (__atomic_compare_exchange(address, &before, &after, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) return before;
  }
}

}  // namespace weft::emulator

template <weft::emulator::AtomicNumber T>
WEFT_ALWAYS_INLINE T atomicAdd(T* address, std::type_identity_t<T> value) {
  return weft::emulator::read_modify_write(address, [=](T before) { return before + value; });
}
template <weft::emulator::AtomicInteger T>
WEFT_ALWAYS_INLINE T atomicSub(T* address, std::type_identity_t<T> value) {
  return weft::emulator::read_modify_write(address, [=](T before) { return before - value; });
}
template <weft::emulator::AtomicInteger T>
WEFT_ALWAYS_INLINE T atomicMax(T* address, std::type_identity_t<T> value) {
  return weft::emulator::read_modify_write(address, [=](T before) { return std::max(before, value); });
}
template <weft::emulator::AtomicInteger T>
WEFT_ALWAYS_INLINE T atomicMin(T* address, std::type_identity_t<T> value) {
  return weft::emulator::read_modify_write(address, [=](T before) { return std::min(before, value); });
}
template <weft::emulator::AtomicInteger T>
WEFT_ALWAYS_INLINE T atomicAnd(T* address, std::type_identity_t<T> value) {
  return weft::emulator::read_modify_write(address, [=](T before) { return before & value; });
}
template <weft::emulator::AtomicInteger T>
WEFT_ALWAYS_INLINE T atomicOr(T* address, std::type_identity_t<T> value) {
  return weft::emulator::read_modify_write(address, [=](T before) { return before | value; });
}
template <weft::emulator::AtomicInteger T>
WEFT_ALWAYS_INLINE T atomicXor(T* address, std::type_identity_t<T> value) {
  return weft::emulator::read_modify_write(address, [=](T before) { return before ^ value; });
}
template <class T>
requires weft::emulator::AtomicInteger<T> || std::same_as<T, float> WEFT_ALWAYS_INLINE T
atomicExch(T* address, std::type_identity_t<T> value) {
  return weft::emulator::read_modify_write(address, [=](T) { return value; });
}
template <weft::emulator::AtomicInteger T>
WEFT_ALWAYS_INLINE T atomicCAS(T* address, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  return weft::emulator::read_modify_write(address, [=](T before) { return before == expected ? value : before; });
}
