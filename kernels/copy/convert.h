// Conversion of single elements and of rows between any two element types.
//
// Floats convert by rounding to nearest even; to integers by truncation, where NaN and values outside int64 give the
// lowest int64 (as x86 does) before it is cut to the width; to bool: not equal to zero (NaN is true). fp8 saturates.
#pragma once
#include <type_traits>

#include "kernels/base/dtype.h"

namespace weft {

template <class T>
inline constexpr bool is_small_float = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16> ||
                                       std::is_same_v<T, Float8E4M3> || std::is_same_v<T, Float8E5M2>;

template <class To, class From>
constexpr To convert_element(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (is_small_float<From>) {
    return convert_element<To>(static_cast<float>(value));
  } else if constexpr (is_small_float<To>) {
    return To(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From{0};
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    constexpr From limit = From(9223372036854775808.0);
    const int64_t whole = value >= -limit && value < limit ? static_cast<int64_t>(value) : INT64_MIN;
    return static_cast<To>(whole);
  } else {
    return static_cast<To>(value);
  }
}

namespace cpu {
// n elements from `src` (stride in elements, may be 0) to `dst`.
void convert_row(DType from, const void* src, int64_t src_stride, DType to, void* dst, int64_t dst_stride, int64_t n);
}  // namespace cpu

}  // namespace weft
