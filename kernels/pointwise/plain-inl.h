// Plain<T>: one number as a value of the pointwise vocabulary. Integers are computed in it everywhere, floats on devices.
//
// Included by lanes-inl.h once a Highway target and by device_lanes.h; both say what WEFT_INLINE and WEFT_FUNCTORS are.
#if defined(WEFT_KERNELS_POINTWISE_PLAIN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_POINTWISE_PLAIN_INL_H_
#undef WEFT_KERNELS_POINTWISE_PLAIN_INL_H_
#else
#define WEFT_KERNELS_POINTWISE_PLAIN_INL_H_
#endif

#include <cstdint>
#include <limits>
#include <type_traits>

WEFT_BEFORE_FUNCTORS();
namespace weft::WEFT_FUNCTORS {

template <class T>
struct Plain {
  using Mask = bool;
  T v;
  Plain() = default;
  WEFT_INLINE Plain(T value) : v(value) {}
  template <class C, class = std::enable_if_t<std::is_arithmetic_v<C> && !std::is_same_v<C, T>>>
  WEFT_INLINE Plain(C constant) : v(converted(constant)) {}

  // Integers wrap around, as unsigned arithmetic does.
  friend WEFT_INLINE Plain operator+(Plain a, Plain b) {
    return wrapped(a, b, [](auto x, auto y) { return x + y; });
  }
  friend WEFT_INLINE Plain operator-(Plain a, Plain b) {
    return wrapped(a, b, [](auto x, auto y) { return x - y; });
  }
  friend WEFT_INLINE Plain operator*(Plain a, Plain b) {
    return wrapped(a, b, [](auto x, auto y) { return x * y; });
  }
  friend WEFT_INLINE Plain operator/(Plain a, Plain b) { return T(a.v / b.v); }
  friend WEFT_INLINE Plain operator-(Plain a) { return Plain(T(0)) - a; }
  friend WEFT_INLINE bool operator<(Plain a, Plain b) { return a.v < b.v; }
  friend WEFT_INLINE bool operator<=(Plain a, Plain b) { return a.v <= b.v; }
  friend WEFT_INLINE bool operator>(Plain a, Plain b) { return a.v > b.v; }
  friend WEFT_INLINE bool operator>=(Plain a, Plain b) { return a.v >= b.v; }
  friend WEFT_INLINE bool operator==(Plain a, Plain b) { return a.v == b.v; }
  friend WEFT_INLINE bool operator!=(Plain a, Plain b) { return a.v != b.v; }
  // Of integers; only ops whose result is integral use them.
  friend WEFT_INLINE Plain operator&(Plain a, Plain b) { return T(a.v & b.v); }
  friend WEFT_INLINE Plain operator|(Plain a, Plain b) { return T(a.v | b.v); }
  friend WEFT_INLINE Plain operator^(Plain a, Plain b) { return T(a.v ^ b.v); }
  friend WEFT_INLINE Plain select(bool mask, Plain yes, Plain no) { return mask ? yes : no; }

 private:
  // A bound of infinity is the largest integer.
  template <class C>
  static WEFT_INLINE T converted(C constant) {
    if constexpr (std::is_integral_v<T> && std::is_floating_point_v<C>) {
      if (constant >= static_cast<C>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
      if (!(constant > static_cast<C>(std::numeric_limits<T>::min()))) return std::numeric_limits<T>::min();
    }
    return static_cast<T>(constant);
  }
  template <class F>
  static WEFT_INLINE Plain wrapped(Plain a, Plain b, F f) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return T(f(static_cast<U>(a.v), static_cast<U>(b.v)));
    } else {
      return f(a.v, b.v);
    }
  }
};

// Of masks.
WEFT_INLINE bool both(bool a, bool b) { return a && b; }
WEFT_INLINE bool either(bool a, bool b) { return a || b; }

// Integer forms; only ops whose result is numeric use them.
WEFT_INLINE Plain<int64_t> abs(Plain<int64_t> x) { return x < 0 ? -x : x; }
WEFT_INLINE Plain<int64_t> floor(Plain<int64_t> x) { return x; }
WEFT_INLINE Plain<int64_t> ceil(Plain<int64_t> x) { return x; }
WEFT_INLINE Plain<int64_t> trunc(Plain<int64_t> x) { return x; }
WEFT_INLINE Plain<int64_t> round(Plain<int64_t> x) { return x; }

}  // namespace weft::WEFT_FUNCTORS
WEFT_AFTER_FUNCTORS();

#endif  // per-target include guard
