// The maximum of a row and sum(exp(x - maximum)) in one pass (Milakov and Gimelshein 2018, arXiv:1805.02867): a larger
// maximum rescales the sum so far.
//
//   OnlineSum<float> part;
//   for_row<float, Group>(size, head, [&](auto width, int64_t i) { part.add(load_pack<width>(x + i)); });
//   part.combine<Group>();   // now the whole row's, in every thread
//
// Entries of -inf add nothing; a NaN or +inf makes the sum NaN, and so does a row of nothing but -inf.
#pragma once
#include "kernels/simt/row.h"

namespace weft::WEFT_DEVICE {

template <class T>
struct OnlineSum {
  using C = ComputeType<T>;
  C max = kNegativeInfinity<C>;
  C sum = 0;

  template <int width>
  __device__ __forceinline__ void add(const Pack<T, width>& items) {
    C next = max;
    for (int e = 0; e < width; ++e) next = larger(next, widen(items[e]));
    const C shift = finite(next);
    // Most packs leave the maximum where it was.
    if (next != max) sum *= exponential<T>(max - shift);
    max = next;
    for (int e = 0; e < width; ++e) sum += exponential<T>(widen(items[e]) - shift);
  }

  // The sum as it is with a maximum of `largest`, which is not smaller.
  __device__ __forceinline__ C relative_to(C largest) const { return sum * exponential<T>(max - finite(largest)); }

  template <class Group>
  __device__ __forceinline__ void combine() {
    const C largest = Group::max(max);
    sum = Group::sum(relative_to(largest)) + (largest - largest);  // adds 0, or NaN for an infinity
    max = largest;
  }

 private:
  // exp(x - shift) for x = shift = -inf has to be 0, not NaN.
  static __device__ __forceinline__ C finite(C shift) { return shift == kNegativeInfinity<C> ? C(0) : shift; }
};

}  // namespace weft::WEFT_DEVICE
