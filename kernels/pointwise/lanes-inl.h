// The vocabulary of the pointwise functors (vocabulary-inl.h) over Lanes<T>, a SIMD vector of float or double. Included
// once a Highway target, see kernels/base/simd.h.
#if defined(WEFT_KERNELS_POINTWISE_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_POINTWISE_LANES_INL_H_
#undef WEFT_KERNELS_POINTWISE_LANES_INL_H_
#else
#define WEFT_KERNELS_POINTWISE_LANES_INL_H_
#endif

#include <cmath>
#include <limits>

#include "kernels/base/simd.h"

#include <hwy/highway.h>

#include "kernels/base/simd_math-inl.h"

#define WEFT_INLINE HWY_INLINE
#define WEFT_FUNCTORS HWY_NAMESPACE
#define WEFT_BEFORE_FUNCTORS HWY_BEFORE_NAMESPACE
#define WEFT_AFTER_FUNCTORS HWY_AFTER_NAMESPACE
#include "kernels/pointwise/plain-inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
struct Lanes {
  using D = hn::ScalableTag<T>;
  using Mask = hn::Mask<D>;
  hn::Vec<D> v;
  Lanes() = default;
  HWY_INLINE Lanes(hn::Vec<D> vector) : v(vector) {}
  template <class C, class = std::enable_if_t<std::is_arithmetic_v<C>>>
  HWY_INLINE Lanes(C constant) : v(hn::Set(D(), static_cast<T>(constant))) {}

  friend HWY_INLINE Lanes operator+(Lanes a, Lanes b) { return hn::Add(a.v, b.v); }
  friend HWY_INLINE Lanes operator-(Lanes a, Lanes b) { return hn::Sub(a.v, b.v); }
  friend HWY_INLINE Lanes operator*(Lanes a, Lanes b) { return hn::Mul(a.v, b.v); }
  friend HWY_INLINE Lanes operator/(Lanes a, Lanes b) { return hn::Div(a.v, b.v); }
  friend HWY_INLINE Lanes operator-(Lanes a) { return hn::Neg(a.v); }
  friend HWY_INLINE Mask operator<(Lanes a, Lanes b) { return hn::Lt(a.v, b.v); }
  friend HWY_INLINE Mask operator<=(Lanes a, Lanes b) { return hn::Le(a.v, b.v); }
  friend HWY_INLINE Mask operator>(Lanes a, Lanes b) { return hn::Gt(a.v, b.v); }
  friend HWY_INLINE Mask operator>=(Lanes a, Lanes b) { return hn::Ge(a.v, b.v); }
  friend HWY_INLINE Mask operator==(Lanes a, Lanes b) { return hn::Eq(a.v, b.v); }
  friend HWY_INLINE Mask operator!=(Lanes a, Lanes b) {
    return hn::Not(hn::Eq(a.v, b.v));
  }  // hn::Ne is false for NaN on x86
  friend HWY_INLINE Lanes select(Mask mask, Lanes yes, Lanes no) { return hn::IfThenElse(mask, yes.v, no.v); }
  friend HWY_INLINE Lanes abs(Lanes a) { return hn::Abs(a.v); }
  friend HWY_INLINE Lanes sqrt(Lanes a) { return hn::Sqrt(a.v); }
  friend HWY_INLINE Lanes floor(Lanes a) { return hn::Floor(a.v); }
  friend HWY_INLINE Lanes ceil(Lanes a) { return hn::Ceil(a.v); }
  friend HWY_INLINE Lanes trunc(Lanes a) { return hn::Trunc(a.v); }
  friend HWY_INLINE Lanes round(Lanes a) { return hn::Round(a.v); }  // ties to even
};

// Of masks.
template <class Mask>
HWY_INLINE Mask both(Mask a, Mask b) {
  return hn::And(a, b);
}
template <class Mask>
HWY_INLINE Mask either(Mask a, Mask b) {
  return hn::Or(a, b);
}

// Functions without a vector form go lane by lane through the C library: exact, and fast enough where they are used.
template <class T, class F>
HWY_INLINE Lanes<T> by_lane(Lanes<T> x, F f) {
  typename Lanes<T>::D d;
  HWY_ALIGN T values[HWY_MAX_BYTES / sizeof(T)];
  hn::Store(x.v, d, values);
  for (size_t i = 0; i < hn::Lanes(d); ++i) values[i] = f(values[i]);
  return hn::Load(d, values);
}
template <class T, class F>
HWY_INLINE Lanes<T> by_lane(Lanes<T> x, Lanes<T> y, F f) {
  typename Lanes<T>::D d;
  HWY_ALIGN T a[HWY_MAX_BYTES / sizeof(T)];
  HWY_ALIGN T b[HWY_MAX_BYTES / sizeof(T)];
  hn::Store(x.v, d, a);
  hn::Store(y.v, d, b);
  for (size_t i = 0; i < hn::Lanes(d); ++i) a[i] = f(a[i], b[i]);
  return hn::Load(d, a);
}

#define WEFT_LANE_FUNCTION(name)                                                 \
  template <class T>                                                             \
  HWY_INLINE Lanes<T> name(Lanes<T> x) {                                         \
    return by_lane(x, [](T value) { return static_cast<T>(std::name(value)); }); \
  }
WEFT_LANE_FUNCTION(log)
WEFT_LANE_FUNCTION(log1p)
WEFT_LANE_FUNCTION(expm1)
WEFT_LANE_FUNCTION(sin)
WEFT_LANE_FUNCTION(cos)
WEFT_LANE_FUNCTION(tan)
WEFT_LANE_FUNCTION(atan)
#undef WEFT_LANE_FUNCTION

template <class T>
HWY_INLINE Lanes<T> pow(Lanes<T> x, Lanes<T> y) {
  return by_lane(x, y, [](T a, T b) { return static_cast<T>(std::pow(a, b)); });
}
template <class T>
HWY_INLINE Lanes<T> atan2(Lanes<T> x, Lanes<T> y) {
  return by_lane(x, y, [](T a, T b) { return static_cast<T>(std::atan2(a, b)); });
}
template <class T>
HWY_INLINE Lanes<T> fmod(Lanes<T> x, Lanes<T> y) {
  return by_lane(x, y, [](T a, T b) { return static_cast<T>(std::fmod(a, b)); });
}

// exp in f32: as exp_at_most_88 (kernels/base/simd_math-inl.h), with infinity above 88.7228 and subnormal results
// (below -87.33) as 0.
HWY_INLINE Lanes<float> exp(Lanes<float> x) {
  const hn::ScalableTag<float> d;
  // Halving the argument keeps 88 … 88.72 in the polynomial's range.
  const auto high = hn::Gt(x.v, hn::Set(d, 88.0f));
  const auto half = cpu::HWY_NAMESPACE::exp_at_most_88(d, hn::IfThenElse(high, hn::Mul(x.v, hn::Set(d, 0.5f)), x.v));
  const auto result = hn::IfThenElse(high, hn::Mul(half, half), half);
  const auto infinite = hn::Gt(x.v, hn::Set(d, 88.72283f));
  return hn::IfThenElse(infinite, hn::Set(d, std::numeric_limits<float>::infinity()), result);
}
HWY_INLINE Lanes<double> exp(Lanes<double> x) {
  return by_lane(x, [](double value) { return std::exp(value); });
}

// tanh in f32: t = 1 - 2 / (e^{2|x|} + 1) with the sign of x; for |x| < 0.625 an odd polynomial, as the difference
// would lose digits there (minimax fit of (tanh(x) - x) / x^3 in x^2, relative error below 1e-7).
HWY_INLINE Lanes<float> tanh(Lanes<float> x) {
  const Lanes<float> magnitude = abs(x);
  const Lanes<float> large = 1 - 2 / (exp(magnitude * 2) + 1);
  const Lanes<float> s = x * x;
  const Lanes<float> p =
      (((Lanes<float>(-5.70498872745e-3f) * s + 2.06390887954e-2f) * s - 5.37397155531e-2f) * s + 1.33314422036e-1f) *
          s -
      3.33332819422e-1f;
  const Lanes<float> small = x + x * s * p;
  return select(magnitude < 0.625f, small, Lanes<float>(hn::CopySign(large.v, x.v)));
}
HWY_INLINE Lanes<double> tanh(Lanes<double> x) {
  return by_lane(x, [](double value) { return std::tanh(value); });
}
template <class T>
HWY_INLINE Lanes<T> erf(Lanes<T> x) {
  return by_lane(x, [](T value) { return static_cast<T>(std::erf(value)); });
}

}  // namespace weft::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
