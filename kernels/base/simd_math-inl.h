// Small vector helpers that several kernel units share, compiled once a Highway target (kernels/base/simd.h):
// partial loads and stores for the end of a row, sums and maxima over a row, and exp.
//
//   const FloatTag d;
//   auto sum = hn::Zero(d);
//   for_row(d, n, [&](auto load, auto, int64_t i) HWY_ATTR { sum = hn::Add(sum, load(x + i, 0.0f)); });
//   float total = sum_lanes(d, sum);
//
// Kernel units include it after <hwy/highway.h> and before HWY_BEFORE_NAMESPACE.
#if defined(WEFT_KERNELS_BASE_SIMD_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_BASE_SIMD_MATH_INL_H_
#undef WEFT_KERNELS_BASE_SIMD_MATH_INL_H_
#else
#define WEFT_KERNELS_BASE_SIMD_MATH_INL_H_
#endif

#include <cstdint>
#include <limits>

#include "kernels/base/simd.h"

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVector = hn::Vec<FloatTag>;

HWY_INLINE int64_t lanes_of(FloatTag d) { return static_cast<int64_t>(hn::Lanes(d)); }

// The first `count` (1 … lanes) elements at `p`, `fill` in the remaining lanes; touches nothing behind them.
HWY_INLINE FloatVector load_part(FloatTag d, const float* p, int64_t count, float fill) {
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN float buffer[HWY_MAX_BYTES / sizeof(float)];
  for (int64_t i = 0; i < lanes_of(d); ++i) buffer[i] = i < count ? p[i] : fill;
  return hn::Load(d, buffer);
#else
  const auto mask = hn::FirstN(d, static_cast<size_t>(count));
  return hn::IfThenElse(mask, hn::MaskedLoad(mask, d, p), hn::Set(d, fill));
#endif
}

// Stores the first `count` lanes to `p`, touches nothing behind them.
HWY_INLINE void store_part(FloatTag d, FloatVector v, float* p, int64_t count) {
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN float buffer[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(v, d, buffer);
  for (int64_t i = 0; i < count; ++i) p[i] = buffer[i];
#else
  hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(count)), d, p);
#endif
}

// Calls f(load, store, i) over a row of n elements, whole vectors first, then the rest; load(p, fill) and store(v, p)
// act on the elements from index i on, partially at the end of the row.
template <class F>
HWY_INLINE void for_row(FloatTag d, int64_t n, F&& f) {
  const int64_t lanes = lanes_of(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    f([d](const float* p, float) HWY_ATTR { return hn::LoadU(d, p); },
      [d](FloatVector v, float* p) HWY_ATTR { hn::StoreU(v, d, p); }, i);
  }
  if (i < n) {
    const int64_t count = n - i;
    f([d, count](const float* p, float fill) HWY_ATTR { return load_part(d, p, count, fill); },
      [d, count](FloatVector v, float* p) HWY_ATTR { store_part(d, v, p, count); }, i);
  }
}

HWY_INLINE float sum_lanes(FloatTag d, FloatVector v) { return hn::GetLane(hn::SumOfLanes(d, v)); }
HWY_INLINE float max_lanes(FloatTag d, FloatVector v) { return hn::GetLane(hn::MaxOfLanes(d, v)); }

// The largest of n elements; -inf when there are none. NaNs may be ignored: the exp that follows carries them on.
HWY_INLINE float row_max(FloatTag d, const float* x, int64_t n) {
  const int64_t lanes = lanes_of(d);
  constexpr float lowest = -std::numeric_limits<float>::infinity();
  auto m0 = hn::Set(d, lowest), m1 = m0, m2 = m0, m3 = m0;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    m0 = hn::Max(m0, hn::LoadU(d, x + i));
    m1 = hn::Max(m1, hn::LoadU(d, x + i + lanes));
    m2 = hn::Max(m2, hn::LoadU(d, x + i + 2 * lanes));
    m3 = hn::Max(m3, hn::LoadU(d, x + i + 3 * lanes));
  }
  for (; i + lanes <= n; i += lanes) m0 = hn::Max(m0, hn::LoadU(d, x + i));
  if (i < n) m1 = hn::Max(m1, load_part(d, x + i, n - i, lowest));
  return max_lanes(d, hn::Max(hn::Max(m0, m1), hn::Max(m2, m3)));
}

// e^x for x <= 88, as softmax needs it (x <= 0 there): below -87.33, where e^x would be subnormal, exactly 0; -inf gives
// 0 and NaN stays NaN. x = n·ln 2 + r, e^x = 2^n · e^r, and a polynomial of degree 6 fitted to e^r on |r| <= ln 2 / 2
// (minimax, relative error 3e-9; 0.63 ulp in all after rounding).
HWY_INLINE FloatVector exp_at_most_88(FloatTag d, FloatVector x) {
  const hn::RebindToSigned<FloatTag> di;
  // Adding 1.5 · 2^23 leaves the nearest integer n in the low mantissa bits.
  const auto magic = hn::Set(d, 12582912.0f);
  const auto shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), magic);
  const auto n = hn::Sub(shifted, magic);
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693145751953125f), x);  // ln 2 in two parts: n times the first is exact
  r = hn::NegMulAdd(n, hn::Set(d, 1.42860677e-06f), r);
  auto p = hn::MulAdd(hn::Set(d, 0.0013814174f), r, hn::Set(d, 0.0083689215f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.041668408f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.1666652f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.49999994f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  const auto exponent = hn::ShiftLeft<23>(hn::Add(hn::BitCast(di, shifted), hn::Set(di, 127)));
  const auto y = hn::Mul(p, hn::BitCast(d, exponent));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.33f)), y);
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
