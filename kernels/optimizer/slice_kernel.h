// How the device kernels of this folder walk a tile of a slice: packs of 16 bytes where all arrays of the slice are
// aligned, else single elements.
#pragma once
#include <cstdint>

#include "kernels/optimizer/slice_table.h"
#include "kernels/simt/pack.h"
#include "kernels/simt/row.h"

namespace weft::WEFT_DEVICE {

// Calls f(width, i) for the elements [begin, end) of a slice that this thread has: `width` neighbours from i on.
template <class T, class F>
__device__ __forceinline__ void for_tile(int64_t begin, int64_t end, bool aligned, F&& f) {
  constexpr int pack = 16 / static_cast<int>(sizeof(T));
  int64_t whole = begin;
  if (aligned) {
    whole = begin + (end - begin) / pack * pack;
    for (int64_t i = begin + threadIdx.x * pack; i < whole; i += kSliceThreads * pack)
      f(std::integral_constant<int, pack>{}, i);
  }
  for (int64_t i = whole + threadIdx.x; i < end; i += kSliceThreads) f(std::integral_constant<int, 1>{}, i);
}

// `width` elements as numbers to compute with, and back. Nothing happens with arrays that are absent.
template <int width, class T>
__device__ __forceinline__ void read(const T* from, int64_t i, ComputeType<T> (&values)[width]) {
  if (from == nullptr) return;
  const Pack<T, width> pack = load_pack<width>(from + i);
  WEFT_UNROLL
  for (int e = 0; e < width; ++e) values[e] = widen(pack[e]);
}
template <int width, class T>
__device__ __forceinline__ void write(T* to, int64_t i, const ComputeType<T> (&values)[width]) {
  if (to == nullptr) return;
  Pack<T, width> pack;
  WEFT_UNROLL
  for (int e = 0; e < width; ++e) pack[e] = narrow<T>(values[e]);
  store_pack(to + i, pack);
}

// Tiles begin at multiples of 16 bytes of a slice, so its address decides.
template <class... Pointers>
bool all_aligned(const Pointers*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
}

}  // namespace weft::WEFT_DEVICE
