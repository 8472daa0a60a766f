// Reading and writing elements whose dtype is known only at launch, on devices.
//
//   const float x = load_as<float>(dtype, data, i);      // any dtype
//   store_as(dtype, out, i, x * x);
//
// All threads of a launch take the same way through the switch, so it costs a few instructions and saves a kernel for
// every combination of dtypes. The values are those of convert_element (kernels/copy/convert.h).
#pragma once
#include "kernels/base/dtype.h"
#include "kernels/copy/convert.h"
#include "kernels/simt/simt.h"

namespace weft::WEFT_DEVICE {

template <class To, class From>
__device__ __forceinline__ To convert_value(From value) {
  if constexpr (std::is_same_v<To, From>)
    return value;
  else if constexpr (is_small_float<From>)
    return convert_value<To>(to_float(value));
  else if constexpr (is_small_float<To>)
    return from_float<To>(static_cast<float>(value));
  else
    return convert_element<To>(value);
}

template <class From, class C>
__device__ __forceinline__ C load_typed(const void* data, int64_t i) {
  return convert_value<C>(static_cast<const From*>(data)[i]);
}
template <class To, class C>
__device__ __forceinline__ void store_typed(void* data, int64_t i, C value) {
  static_cast<To*>(data)[i] = convert_value<To>(value);
}

// Out of line: thirty kernels of a unit share one copy of the rarer conversions.
template <class C>
[[gnu::noinline, gnu::pure]] __device__ C load_uncommon(DType dtype, const void* data, int64_t i) {
  switch (dtype) {
    case DType::f64: return load_typed<double, C>(data, i);
    case DType::f32: return load_typed<float, C>(data, i);
    case DType::f16: return load_typed<Half, C>(data, i);
    case DType::bf16: return load_typed<BFloat16, C>(data, i);
    case DType::f8e4m3: return load_typed<Float8E4M3, C>(data, i);
    case DType::f8e5m2: return load_typed<Float8E5M2, C>(data, i);
    case DType::i64: return load_typed<int64_t, C>(data, i);
    case DType::i32: return load_typed<int32_t, C>(data, i);
    case DType::i16: return load_typed<int16_t, C>(data, i);
    case DType::i8: return load_typed<int8_t, C>(data, i);
    case DType::u8: return load_typed<uint8_t, C>(data, i);
    case DType::boolean: return load_typed<bool, C>(data, i);
  }
  return C(0);
}
template <class C>
[[gnu::noinline]] __device__ void store_uncommon(DType dtype, void* data, int64_t i, C value) {
  switch (dtype) {
    case DType::f64: return store_typed<double>(data, i, value);
    case DType::f32: return store_typed<float>(data, i, value);
    case DType::f16: return store_typed<Half>(data, i, value);
    case DType::bf16: return store_typed<BFloat16>(data, i, value);
    case DType::f8e4m3: return store_typed<Float8E4M3>(data, i, value);
    case DType::f8e5m2: return store_typed<Float8E5M2>(data, i, value);
    case DType::i64: return store_typed<int64_t>(data, i, value);
    case DType::i32: return store_typed<int32_t>(data, i, value);
    case DType::i16: return store_typed<int16_t>(data, i, value);
    case DType::i8: return store_typed<int8_t>(data, i, value);
    case DType::u8: return store_typed<uint8_t>(data, i, value);
    case DType::boolean: return store_typed<bool>(data, i, value);
  }
}

// Element i of `data` as a float, double or int64_t.
template <class C>
__device__ __forceinline__ C load_as(DType dtype, const void* data, int64_t i) {
  if (dtype == dtype_of<C>) return static_cast<const C*>(data)[i];
  if constexpr (std::is_same_v<C, float>) {
    if (dtype == DType::bf16) return load_typed<BFloat16, C>(data, i);
    if (dtype == DType::f16) return load_typed<Half, C>(data, i);
  }
  return load_uncommon<C>(dtype, data, i);
}
template <class C>
__device__ __forceinline__ void store_as(DType dtype, void* data, int64_t i, C value) {
  if (dtype == dtype_of<C>) {
    static_cast<C*>(data)[i] = value;
    return;
  }
  if constexpr (std::is_same_v<C, float>) {
    if (dtype == DType::bf16) return store_typed<BFloat16>(data, i, value);
    if (dtype == DType::f16) return store_typed<Half>(data, i, value);
  }
  store_uncommon(dtype, data, i, value);
}

// The dtypes that load_pack_as and store_pack_as know.
constexpr bool has_packs(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16 || dtype == DType::boolean;
}

template <class From, int n>
__device__ __forceinline__ void load_pack_typed(const void* data, int64_t i, float (&values)[n]) {
  const auto pack = load_pack<n>(static_cast<const From*>(data) + i);
  for (int e = 0; e < n; ++e) values[e] = convert_value<float>(pack[e]);
}
template <class To, int n>
__device__ __forceinline__ void store_pack_typed(void* data, int64_t i, const float (&values)[n]) {
  Pack<To, n> pack;
  for (int e = 0; e < n; ++e) pack[e] = convert_value<To>(values[e]);
  store_pack(static_cast<To*>(data) + i, pack);
}

// n neighbours from element i on, in one access of at most 16 bytes: 4 of the dtypes of has_packs, or 8 of bf16 or f16.
// Their address is a multiple of their size.
template <int n>
__device__ __forceinline__ void load_pack_as(DType dtype, const void* data, int64_t i, float (&values)[n]) {
  if (dtype == DType::bf16) return load_pack_typed<BFloat16>(data, i, values);
  if constexpr (n <= 4) {
    if (dtype == DType::f32) return load_pack_typed<float>(data, i, values);
    if (dtype == DType::boolean) return load_pack_typed<bool>(data, i, values);
  }
  load_pack_typed<Half>(data, i, values);
}
template <int n>
__device__ __forceinline__ void store_pack_as(DType dtype, void* data, int64_t i, const float (&values)[n]) {
  if (dtype == DType::bf16) return store_pack_typed<BFloat16>(data, i, values);
  if constexpr (n <= 4) {
    if (dtype == DType::f32) return store_pack_typed<float>(data, i, values);
    if (dtype == DType::boolean) return store_pack_typed<bool>(data, i, values);
  }
  store_pack_typed<Half>(data, i, values);
}

}  // namespace weft::WEFT_DEVICE
