// From the number of an element to its place in strided operands, without divisions.
//
//   StridedIndex<2> index(layout);                 // on the host: a Layout<2>, or sizes and strides
//   int64_t at[2];
//   index.offsets(i, at);                          // in a kernel: row-major element i of either operand
//
// A division by a number that is known at launch is a multiplication and a shift (Granlund & Montgomery 1994, "Division
// by invariant integers using multiplication"); a device has no instruction that divides. Everything is constexpr, so
// that it can be called on either side.
#pragma once
#include <bit>
#include <cstdint>

#include "kernels/base/layout.h"

namespace weft {

// n / divisor for 0 ≤ n < 2^31 and 1 ≤ divisor < 2^31.
struct Divider {
  uint32_t divisor = 1;
  uint32_t multiplier = 1;
  uint32_t shift = 0;

  constexpr Divider() = default;
  constexpr explicit Divider(uint32_t d)
      : divisor(d), shift(d > 1 ? 32u - static_cast<uint32_t>(std::countl_zero(d - 1)) : 0) {
    multiplier = static_cast<uint32_t>((uint64_t{1} << 32) * ((uint64_t{1} << shift) - d) / d + 1);
  }
  constexpr uint32_t divide(uint32_t n) const {
    return (static_cast<uint32_t>(static_cast<uint64_t>(n) * multiplier >> 32) + n) >> shift;
  }
};

// Offsets of the elements of up to 8 dimensions in several operands.
template <int operands>
struct StridedIndex {
  static constexpr int kMaxDims = 8;
  int ndim = 0;
  bool wide = false;  // too many elements for 32-bit numbers
  Divider divider[kMaxDims];
  int64_t size[kMaxDims] = {};
  int64_t stride[operands][kMaxDims] = {};

  StridedIndex() = default;
  explicit StridedIndex(const Layout<operands>& layout) {
    for (int d = 0; d < layout.ndim; ++d) {
      const auto at = static_cast<size_t>(d);
      int64_t step[operands];
      for (int k = 0; k < operands; ++k) step[k] = layout.strides[static_cast<size_t>(k)][at];
      push(layout.sizes[at], step);
    }
  }

  // Adds a dimension inside the present ones.
  void push(int64_t dim_size, const int64_t (&step)[operands]) {
    size[ndim] = dim_size;
    for (int k = 0; k < operands; ++k) stride[k][ndim] = step[k];
    ++ndim;
    wide = count() > INT32_MAX;
    if (dim_size > 0 && dim_size <= INT32_MAX) divider[ndim - 1] = Divider(static_cast<uint32_t>(dim_size));
  }
  int64_t count() const {
    int64_t total = 1;
    for (int d = 0; d < ndim; ++d) total *= size[d];
    return total;
  }

  constexpr void offsets(int64_t element, int64_t (&at)[operands]) const {
    for (int k = 0; k < operands; ++k) at[k] = 0;
    if (ndim == 0) return;
    if (wide) return wide_offsets(element, at);
    auto left = static_cast<uint32_t>(element);
    // Most launches have one or two dimensions: copies of this loop's body would only make kernels large.
#ifdef __CUDA_ARCH__
#pragma unroll 1
#endif
    for (int d = ndim - 1; d > 0; --d) {
      const uint32_t rest = divider[d].divide(left);
      add(d, left - rest * divider[d].divisor, at);
      left = rest;
    }
    add(0, left, at);
  }

 private:
  [[gnu::noinline]] constexpr void wide_offsets(int64_t element, int64_t (&at)[operands]) const {
#ifdef __CUDA_ARCH__
#pragma unroll 1
#endif
    for (int d = ndim - 1; d > 0; --d) {
      const int64_t rest = element / size[d];
      add(d, element - rest * size[d], at);
      element = rest;
    }
    add(0, element, at);
  }
  constexpr void add(int d, int64_t index, int64_t (&at)[operands]) const {
    for (int k = 0; k < operands; ++k) at[k] += index * stride[k][d];
  }
};

}  // namespace weft
