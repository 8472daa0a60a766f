// The element types and the one place that switches over them.
//
//   visit_floating(x.dtype(), "softmax", [&](auto type) {
//     using T = typename decltype(type)::type;  …
//   });
//
// A dtype outside the list is a weft::Error that names the op.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/base/error.h"
#include "kernels/base/half.h"

namespace weft {

enum class DType : uint8_t { f64, f32, f16, bf16, f8e4m3, f8e5m2, i64, i32, i16, i8, u8, boolean };
inline constexpr int kDTypeCount = 12;

// Short names for users: randn({2, 3}, f64).
inline constexpr DType f64 = DType::f64;
inline constexpr DType f32 = DType::f32;
inline constexpr DType f16 = DType::f16;
inline constexpr DType bf16 = DType::bf16;
inline constexpr DType f8e4m3 = DType::f8e4m3;
inline constexpr DType f8e5m2 = DType::f8e5m2;
inline constexpr DType i64 = DType::i64;
inline constexpr DType i32 = DType::i32;
inline constexpr DType i16 = DType::i16;
inline constexpr DType i8 = DType::i8;
inline constexpr DType u8 = DType::u8;
inline constexpr DType boolean = DType::boolean;

template <class T>
struct TypeTag {
  using type = T;
};

// Bytes of one element.
constexpr int64_t size_of(DType dtype) {
  constexpr int8_t sizes[] = {8, 4, 2, 2, 1, 1, 8, 4, 2, 1, 1, 1};
  return sizes[static_cast<int>(dtype)];
}
constexpr std::string_view name(DType dtype) {
  constexpr std::string_view names[] = {"f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2",
                                        "i64", "i32", "i16", "i8",   "u8",     "bool"};
  return names[static_cast<int>(dtype)];
}
constexpr bool is_floating(DType dtype) { return dtype <= DType::f8e5m2; }
constexpr bool is_integer(DType dtype) { return dtype >= DType::i64 && dtype <= DType::u8; }

// The dtype of a C++ element type: dtype_of<float> == f32.
template <class T>
inline constexpr DType dtype_of = [] {
  static_assert(sizeof(T) == 0, "not an element type of Weft");
  return DType::f32;
}();
template <>
inline constexpr DType dtype_of<double> = DType::f64;
template <>
inline constexpr DType dtype_of<float> = DType::f32;
template <>
inline constexpr DType dtype_of<Half> = DType::f16;
template <>
inline constexpr DType dtype_of<BFloat16> = DType::bf16;
template <>
inline constexpr DType dtype_of<Float8E4M3> = DType::f8e4m3;
template <>
inline constexpr DType dtype_of<Float8E5M2> = DType::f8e5m2;
template <>
inline constexpr DType dtype_of<int64_t> = DType::i64;
template <>
inline constexpr DType dtype_of<int32_t> = DType::i32;
template <>
inline constexpr DType dtype_of<int16_t> = DType::i16;
template <>
inline constexpr DType dtype_of<int8_t> = DType::i8;
template <>
inline constexpr DType dtype_of<uint8_t> = DType::u8;
template <>
inline constexpr DType dtype_of<bool> = DType::boolean;

// The dtype an operation of the two gives, by torch's rules for two tensors with dimensions: bool < integers (wider
// wins; u8 with a signed type gives the next wider signed one) < floats (f16 with bf16 gives f32; fp8 does not mix).
constexpr DType promote(DType a, DType b) {
  if (a == b) return a;
  if (is_floating(a) && is_floating(b)) {
    if (size_of(a) == size_of(b)) return size_of(a) == 2 ? DType::f32 : DType::f32;
    return size_of(a) > size_of(b) ? a : b;
  }
  if (is_floating(a)) return a;
  if (is_floating(b)) return b;
  if (a == DType::boolean) return b;
  if (b == DType::boolean) return a;
  if (a == DType::u8) return b == DType::i8 ? DType::i16 : b;
  if (b == DType::u8) return a == DType::i8 ? DType::i16 : a;
  return size_of(a) > size_of(b) ? a : b;
}

// Calls f(TypeTag<T>{}) with the C++ type of `dtype`.
template <class F>
decltype(auto) visit_all(DType dtype, std::string_view op, F&& f) {
  switch (dtype) {
    case DType::f64: return f(TypeTag<double>{});
    case DType::f32: return f(TypeTag<float>{});
    case DType::f16: return f(TypeTag<Half>{});
    case DType::bf16: return f(TypeTag<BFloat16>{});
    case DType::f8e4m3: return f(TypeTag<Float8E4M3>{});
    case DType::f8e5m2: return f(TypeTag<Float8E5M2>{});
    case DType::i64: return f(TypeTag<int64_t>{});
    case DType::i32: return f(TypeTag<int32_t>{});
    case DType::i16: return f(TypeTag<int16_t>{});
    case DType::i8: return f(TypeTag<int8_t>{});
    case DType::u8: return f(TypeTag<uint8_t>{});
    case DType::boolean: return f(TypeTag<bool>{});
  }
  fail(ErrorCode::internal, op, "unknown dtype code {}", static_cast<int>(dtype));
}

// The same for the two types in which structured CPU kernels compute.
template <class F>
decltype(auto) visit_compute(DType dtype, std::string_view op, F&& f) {
  switch (dtype) {
    case DType::f64: return f(TypeTag<double>{});
    case DType::f32: return f(TypeTag<float>{});
    default: fail(ErrorCode::unsupported, op, "expected f32 or f64, got {}", name(dtype));
  }
}

// The same for i32 and i64, the types of indices.
template <class F>
decltype(auto) visit_index(DType dtype, std::string_view op, F&& f) {
  switch (dtype) {
    case DType::i64: return f(TypeTag<int64_t>{});
    case DType::i32: return f(TypeTag<int32_t>{});
    default: fail(ErrorCode::unsupported, op, "expected indices of dtype i64 or i32, got {}", name(dtype));
  }
}

}  // namespace weft

template <>
struct fmt::formatter<weft::DType> : fmt::formatter<std::string_view> {
  fmt::appender format(weft::DType dtype, fmt::format_context& context) const;
};
