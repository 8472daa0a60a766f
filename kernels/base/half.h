// The four small floating-point formats as storage types with exact, constexpr conversions.
//
//   Half h(1.5f);  float back = h;                    // round to nearest, ties to even
//
// Half: IEEE 754 binary16. BFloat16: the upper half of a float. Float8E4M3 ("fn": no infinity, one NaN code a sign,
// max 448) and Float8E5M2 (IEEE-like, max 57344): Micikevicius et al. 2022, arXiv:2209.05433. Casts to fp8 saturate;
// NaN stays NaN (quiet, its sign kept). Arithmetic is done in float.
#pragma once
#include <bit>
#include <cstdint>

namespace weft {

namespace detail {

// Rounds `value` to a format with `exponent_bits`, `mantissa_bits` and the usual bias. `max_code` is the largest finite
// magnitude code, `overflow_code` what a larger magnitude becomes, `infinity_code` what an infinity becomes.
template <int exponent_bits, int mantissa_bits>
constexpr uint32_t encode_small_float(float value, uint32_t max_code, uint32_t overflow_code, uint32_t infinity_code,
                                      uint32_t nan_code) {
  constexpr int bias = (1 << (exponent_bits - 1)) - 1;
  constexpr uint32_t sign_bit = 1u << (exponent_bits + mantissa_bits);
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 31) ? sign_bit : 0;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | nan_code;
  if (magnitude == 0x7f800000u) return sign | infinity_code;
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  uint32_t significand = (magnitude & 0x7fffffu) | (magnitude >> 23 ? 0x800000u : 0);
  // How many low bits of the 24-bit significand are rounded away; subnormals lose more.
  int drop = 23 - mantissa_bits;
  uint32_t base = 0;
  if (exponent >= 1 - bias) {
    base = static_cast<uint32_t>(exponent + bias - 1) << mantissa_bits;  // the hidden bit adds the missing 1
  } else {
    drop += (1 - bias) - (magnitude >> 23 ? exponent : -126);
    if (drop > 25) return sign;  // below half of the smallest subnormal
  }
  const uint32_t half = 1u << (drop - 1);
  const uint32_t rest = significand & ((half << 1) - 1);
  significand >>= drop;
  if (rest > half || (rest == half && (significand & 1))) ++significand;
  const uint32_t code = base + significand;
  return sign | (code > max_code ? overflow_code : code);
}

template <int exponent_bits, int mantissa_bits>
constexpr float decode_small_float(uint32_t code, bool has_infinity, uint32_t nan_code) {
  constexpr int bias = (1 << (exponent_bits - 1)) - 1;
  const bool negative = (code >> (exponent_bits + mantissa_bits)) & 1;
  const uint32_t sign = negative ? 0x80000000u : 0;
  const uint32_t magnitude = code & ((1u << (exponent_bits + mantissa_bits)) - 1);
  const uint32_t exponent = magnitude >> mantissa_bits;
  uint32_t mantissa = magnitude & ((1u << mantissa_bits) - 1);
  constexpr uint32_t top = (1u << exponent_bits) - 1;
  if (has_infinity && exponent == top)
    return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << (23 - mantissa_bits)) | (mantissa ? 0x400000u : 0));
  if (!has_infinity && magnitude == nan_code) return std::bit_cast<float>(sign | 0x7fc00000u);
  if (exponent == 0) {
    if (mantissa == 0) return std::bit_cast<float>(sign);
    int shift = 0;
    while (!(mantissa & (1u << mantissa_bits))) {
      mantissa <<= 1;
      ++shift;
    }
    mantissa &= (1u << mantissa_bits) - 1;
    return std::bit_cast<float>(sign | static_cast<uint32_t>(1 - bias - shift + 127) << 23 |
                                mantissa << (23 - mantissa_bits));
  }
  return std::bit_cast<float>(sign | (exponent - bias + 127) << 23 | mantissa << (23 - mantissa_bits));
}

}  // namespace detail

struct Half {
  uint16_t bits = 0;
  constexpr Half() = default;
  constexpr explicit Half(float value)
      : bits(static_cast<uint16_t>(detail::encode_small_float<5, 10>(value, 0x7bff, 0x7c00, 0x7c00, 0x7e00))) {}
  constexpr operator float() const { return detail::decode_small_float<5, 10>(bits, true, 0); }
  static constexpr Half from_bits(uint16_t bits) {
    Half h;
    h.bits = bits;
    return h;
  }
};

struct BFloat16 {
  uint16_t bits = 0;
  constexpr BFloat16() = default;
  constexpr explicit BFloat16(float value) {
    const uint32_t b = std::bit_cast<uint32_t>(value);
    if ((b & 0x7fffffffu) > 0x7f800000u)
      bits = static_cast<uint16_t>((b >> 16) | 0x40u);  // keep NaN a (quiet) NaN
    else
      bits = static_cast<uint16_t>((b + 0x7fffu + ((b >> 16) & 1)) >> 16);
  }
  constexpr operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
  static constexpr BFloat16 from_bits(uint16_t bits) {
    BFloat16 h;
    h.bits = bits;
    return h;
  }
};

struct Float8E4M3 {
  uint8_t bits = 0;
  constexpr Float8E4M3() = default;
  constexpr explicit Float8E4M3(float value)
      : bits(static_cast<uint8_t>(detail::encode_small_float<4, 3>(value, 0x7e, 0x7e, 0x7e, 0x7f))) {}
  constexpr operator float() const { return detail::decode_small_float<4, 3>(bits, false, 0x7f); }
  static constexpr Float8E4M3 from_bits(uint8_t bits) {
    Float8E4M3 f;
    f.bits = bits;
    return f;
  }
};

struct Float8E5M2 {
  uint8_t bits = 0;
  constexpr Float8E5M2() = default;
  // A finite value saturates; an infinity stays one (C107).
  constexpr explicit Float8E5M2(float value)
      : bits(static_cast<uint8_t>(detail::encode_small_float<5, 2>(value, 0x7b, 0x7b, 0x7c, 0x7e))) {}
  constexpr operator float() const { return detail::decode_small_float<5, 2>(bits, true, 0); }
  static constexpr Float8E5M2 from_bits(uint8_t bits) {
    Float8E5M2 f;
    f.bits = bits;
    return f;
  }
};

}  // namespace weft
