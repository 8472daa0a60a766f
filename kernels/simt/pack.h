// n neighbouring elements, loaded and stored together: a thread that moves 16 bytes an access keeps memory busier than
// one that moves 4.
//
//   Pack<float, 4> values = load_pack<4>(x + 4 * i);   // one 16-byte load; x + 4 * i must be 16-byte aligned
//   for (int e = 0; e < 4; ++e) values[e] *= 2.0f;
//   store_pack(y + 4 * i, values);
//
// A pack of up to 16 bytes is one access on both sides, aligned to its size; a larger one is several of 16 bytes.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/simt/simt.h"

namespace weft::WEFT_DEVICE {

template <class T, int n>
struct alignas(sizeof(T) * n < 16 ? sizeof(T) * n : 16) Pack {
  static_assert(n > 0 && (n & (n - 1)) == 0, "a pack has 1, 2, 4, 8 … elements");
  T items[n];
  __host__ __device__ __forceinline__ T& operator[](int i) { return items[i]; }
  __host__ __device__ __forceinline__ const T& operator[](int i) const { return items[i]; }
};

namespace detail {

// One access: the Words are types of that size that may alias anything.
template <size_t bytes>
__device__ __forceinline__ void move_word(void* to, const void* from) {
  static_assert(bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16);
  if constexpr (bytes == 1)
    *static_cast<Word1*>(to) = *static_cast<const Word1*>(from);
  else if constexpr (bytes == 2)
    *static_cast<Word2*>(to) = *static_cast<const Word2*>(from);
  else if constexpr (bytes == 4)
    *static_cast<Word4*>(to) = *static_cast<const Word4*>(from);
  else if constexpr (bytes == 8)
    *static_cast<Word8*>(to) = *static_cast<const Word8*>(from);
  else
    *static_cast<Word16*>(to) = *static_cast<const Word16*>(from);
}

template <size_t bytes>
__device__ __forceinline__ void move_bytes(void* to, const void* from) {
  if constexpr (bytes <= 16) {
    move_word<bytes>(to, from);
  } else {
    WEFT_UNROLL
    for (size_t at = 0; at < bytes; at += 16)
      move_word<16>(static_cast<char*>(to) + at, static_cast<const char*>(from) + at);
  }
}

}  // namespace detail

template <int n, class T>
__device__ __forceinline__ Pack<T, n> load_pack(const T* from) {
  Pack<T, n> result;
  detail::move_bytes<sizeof(result)>(result.items, from);
  return result;
}

template <class T, int n>
__device__ __forceinline__ void store_pack(T* to, const Pack<T, n>& pack) {
  detail::move_bytes<sizeof(pack)>(to, pack.items);
}

}  // namespace weft::WEFT_DEVICE
