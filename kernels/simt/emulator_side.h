// simt.h under the host compiler: CUDA's names over the emulator (kernels/simt/emulator).
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>

#include "kernels/base/dtype.h"
#include "kernels/base/half.h"
#include "kernels/simt/emulator/async_copy.h"
#include "kernels/simt/emulator/atomic.h"
#include "kernels/simt/emulator/barrier.h"
#include "kernels/simt/emulator/launch.h"
#include "kernels/simt/emulator/state.h"
#include "kernels/simt/emulator/types.h"
#include "kernels/simt/emulator/warp.h"

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ WEFT_ALWAYS_INLINE
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
// A variable of a block. An OS thread runs one block at a time, so it is one a thread; in a function, thread_local says
// static as well.
#define __shared__ thread_local

#define WEFT_UNROLL
#define WEFT_DYNAMIC_SHARED(T, name) T* const name = reinterpret_cast<T*>(::weft::emulator::current.dynamic_shared)

#define threadIdx (::weft::emulator::current.thread_index)
#define blockIdx (::weft::emulator::current.block_index)
#define blockDim (::weft::emulator::current.block_dim)
#define gridDim (::weft::emulator::current.grid_dim)
inline constexpr int warpSize = 32;

#define WEFT_AT weft::emulator::Location at = weft::emulator::Location::here()

// Barriers of the block.
inline void __syncthreads(WEFT_AT) { weft::emulator::sync_block(at); }
inline int __syncthreads_count(int predicate, WEFT_AT) { return weft::emulator::sync_block_count(predicate != 0, at); }
inline int __syncthreads_and(int predicate, WEFT_AT) { return weft::emulator::sync_block_and(predicate != 0, at); }
inline int __syncthreads_or(int predicate, WEFT_AT) { return weft::emulator::sync_block_or(predicate != 0, at); }

// A warp together.
inline void __syncwarp(unsigned mask = 0xffffffffu, WEFT_AT) { weft::emulator::sync_warp(mask, at); }
// The lanes that happen to run together: here always the caller alone. CUDA promises no more.
inline unsigned __activemask() { return 1u << weft::emulator::current.lane; }

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, WEFT_AT) {
  const auto lane = static_cast<int>(weft::emulator::current.lane);
  return weft::emulator::shuffle_value(mask, value, (lane & ~(width - 1)) | (source & (width - 1)), at);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, WEFT_AT) {
  const auto lane = static_cast<int>(weft::emulator::current.lane);
  const int source = lane ^ lanes;
  // A later group is out of reach; an earlier one is not (CUDA C++ Programming Guide 7.22).
  const bool reachable = source < (lane & ~(width - 1)) + width;
  return weft::emulator::shuffle_value(mask, value, reachable ? source : lane, at);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned lanes, int width = 32, WEFT_AT) {
  const auto lane = static_cast<int>(weft::emulator::current.lane);
  const int source = lane + static_cast<int>(lanes);
  const bool inside = source < (lane & ~(width - 1)) + width;
  return weft::emulator::shuffle_value(mask, value, inside ? source : lane, at);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned lanes, int width = 32, WEFT_AT) {
  const auto lane = static_cast<int>(weft::emulator::current.lane);
  const int source = lane - static_cast<int>(lanes);
  const bool inside = source >= (lane & ~(width - 1));
  return weft::emulator::shuffle_value(mask, value, inside ? source : lane, at);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, WEFT_AT) {
  return weft::emulator::ballot(mask, predicate != 0, at);
}
inline int __any_sync(unsigned mask, int predicate, WEFT_AT) {
  return weft::emulator::ballot(mask, predicate != 0, at) != 0;
}
inline int __all_sync(unsigned mask, int predicate, WEFT_AT) {
  return weft::emulator::ballot(mask, predicate == 0, at) == 0;
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value, WEFT_AT) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return weft::emulator::match(mask, bits, at);
}

#define WEFT_REDUCE(name, operation, T)                                                       \
  inline T name(unsigned mask, T value, WEFT_AT) {                                            \
    return weft::emulator::reduce(weft::emulator::WarpOperation::operation, mask, value, at); \
  }
WEFT_REDUCE(__reduce_add_sync, reduce_add, unsigned)
WEFT_REDUCE(__reduce_add_sync, reduce_add, int)
WEFT_REDUCE(__reduce_min_sync, reduce_min, unsigned)
WEFT_REDUCE(__reduce_min_sync, reduce_min, int)
WEFT_REDUCE(__reduce_max_sync, reduce_max, unsigned)
WEFT_REDUCE(__reduce_max_sync, reduce_max, int)
WEFT_REDUCE(__reduce_and_sync, reduce_and, unsigned)
WEFT_REDUCE(__reduce_or_sync, reduce_or, unsigned)
WEFT_REDUCE(__reduce_xor_sync, reduce_xor, unsigned)
#undef WEFT_REDUCE

// Atomics order everything around them, so that fences have nothing left to do.
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}

// Arithmetic.
inline float __expf(float x) { return ::expf(x); }
inline float __logf(float x) { return ::logf(x); }
inline float __powf(float x, float y) { return ::powf(x, y); }
inline float __sinf(float x) { return ::sinf(x); }
inline float __cosf(float x) { return ::cosf(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int bit = 0; bit < 32; ++bit) reversed |= (x >> bit & 1u) << (31 - bit);
  return reversed;
}
inline unsigned __umulhi(unsigned x, unsigned y) { return static_cast<unsigned>(uint64_t{x} * y >> 32); }
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  __extension__ typedef unsigned __int128 Wide;
  return static_cast<unsigned long long>(static_cast<Wide>(x) * y >> 64);
}
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
inline int __float2int_rn(float x) { return static_cast<int>(std::lrint(x)); }
template <class T>
__forceinline__ T __ldg(const T* pointer) {
  return *pointer;
}
using std::max;
using std::min;

namespace weft::simt {

// Of two numbers, or of a number and a NaN, as in <cmath>; but inline, as a host compiler calls the C library for these.
inline float fmaxf(float x, float y) { return x > y || y != y ? x : y; }
inline float fminf(float x, float y) { return x < y || y != y ? x : y; }

// Newer C libraries have the float one under this name.
inline float rsqrtf(float x) { return 1.0f / ::sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / ::sqrt(x); }

__forceinline__ void cp_async16(void* shared, const void* global) { emulator::start_copy16(shared, global); }
inline void cp_async_commit() { emulator::commit_copies(); }
template <int groups>
void cp_async_wait() {
  emulator::wait_copies(groups);
}

__forceinline__ void ldmatrix_x4(uint32_t (&r)[4], const void* shared, WEFT_AT) {
  emulator::load_matrix(r, shared, false, at);
}
__forceinline__ void ldmatrix_x4_trans(uint32_t (&r)[4], const void* shared, WEFT_AT) {
  emulator::load_matrix(r, shared, true, at);
}
inline void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], TypeTag<BFloat16>, WEFT_AT) {
  emulator::multiply_tile(d, a, b, emulator::Format::bfloat16, at);
}
inline void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], TypeTag<Half>, WEFT_AT) {
  emulator::multiply_tile(d, a, b, emulator::Format::half, at);
}

template <class T>
__forceinline__ float to_float(T value) {
  return static_cast<float>(value);
}
template <class T>
__forceinline__ T from_float(float value) {
  return T(value);
}

namespace detail {  // what Packs move through
using Word1 = uint8_t;
typedef uint16_t Word2 __attribute__((may_alias));
typedef uint32_t Word4 __attribute__((may_alias));
typedef uint64_t Word8 __attribute__((may_alias));
typedef uint32_t Word16 __attribute__((vector_size(16), may_alias));
}  // namespace detail

}  // namespace weft::simt

#undef WEFT_AT
