// Arithmetic, rounding and ordering.
//
// fwd gives y; bwd<i> the gradient of input i from the inputs, y and dy.
#if defined(WEFT_FUNCTORS_ARITHMETIC_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_FUNCTORS_ARITHMETIC_INL_H_
#undef WEFT_FUNCTORS_ARITHMETIC_INL_H_
#else
#define WEFT_FUNCTORS_ARITHMETIC_INL_H_
#endif

#include "kernels/pointwise/vocabulary-inl.h"

WEFT_BEFORE_FUNCTORS();
namespace weft::WEFT_FUNCTORS {

struct Neg {
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return -x;
  }
  template <int, class V>
  WEFT_INLINE V bwd(V x, V y, V dy) const {
    return -dy;
  }
};
struct Add {
  template <class V>
  WEFT_INLINE V fwd(V a, V b) const {
    return a + b;
  }
  template <int input, class V>
  WEFT_INLINE V bwd(V a, V b, V y, V dy) const {
    if constexpr (input == 0)
      return dy;
    else
      return dy;
  }
};
// a + alpha · b
struct AddScaled {
  double alpha;
  template <class V>
  WEFT_INLINE V fwd(V a, V b) const {
    return a + alpha * b;
  }
  template <int input, class V>
  WEFT_INLINE V bwd(V a, V b, V y, V dy) const {
    if constexpr (input == 0)
      return dy;
    else
      return alpha * dy;
  }
};
struct Sub {
  template <class V>
  WEFT_INLINE V fwd(V a, V b) const {
    return a - b;
  }
  template <int input, class V>
  WEFT_INLINE V bwd(V a, V b, V y, V dy) const {
    if constexpr (input == 0)
      return dy;
    else
      return -dy;
  }
};
struct Mul {
  template <class V>
  WEFT_INLINE V fwd(V a, V b) const {
    return a * b;
  }
  template <int input, class V>
  WEFT_INLINE V bwd(V a, V b, V y, V dy) const {
    if constexpr (input == 0)
      return dy * b;
    else
      return dy * a;
  }
};
struct Div {
  template <class V>
  WEFT_INLINE V fwd(V a, V b) const {
    return a / b;
  }
  template <int input, class V>
  WEFT_INLINE V bwd(V a, V b, V y, V dy) const {
    if constexpr (input == 0)
      return dy / b;
    else
      return -dy * a / (b * b);
  }
};
// The quotient rounded down; a zero integer divisor gives 0, as there is no other answer that fits.
struct FloorDivide {
  template <class V>
  WEFT_INLINE V fwd(V a, V b) const {
    return floor(a / b);
  }
  WEFT_INLINE Plain<int64_t> fwd(Plain<int64_t> a, Plain<int64_t> b) const {
    if (b.v == 0) return 0;
    if (b.v == -1) return -a;
    const int64_t quotient = a.v / b.v;
    return quotient - ((a.v % b.v != 0) && ((a.v < 0) != (b.v < 0)));
  }
};
// The quotient rounded towards zero; a zero integer divisor gives 0.
struct TruncDivide {
  template <class V>
  WEFT_INLINE V fwd(V a, V b) const {
    return trunc(a / b);
  }
  WEFT_INLINE Plain<int64_t> fwd(Plain<int64_t> a, Plain<int64_t> b) const {
    if (b.v == 0) return 0;
    if (b.v == -1) return -a;
    return a.v / b.v;
  }
};
// What FloorDivide leaves: the sign is the divisor's (Python's %).
struct Remainder {
  template <class V>
  WEFT_INLINE V fwd(V a, V b) const {
    const V r = fmod(a, b);
    return select(either(both(r<0, b> 0), both(r > 0, b < 0)), r + b, r);
  }
  WEFT_INLINE Plain<int64_t> fwd(Plain<int64_t> a, Plain<int64_t> b) const {
    if (b.v == 0 || b.v == -1) return 0;
    const int64_t r = a.v % b.v;
    return r != 0 && (r < 0) != (b.v < 0) ? r + b.v : r;
  }
  template <int input, class V>
  WEFT_INLINE V bwd(V a, V b, V y, V dy) const {
    if constexpr (input == 0)
      return dy;
    else
      return -dy * floor(a / b);
  }
};
// What TruncDivide leaves: the sign is the dividend's (C's %).
struct Fmod {
  template <class V>
  WEFT_INLINE V fwd(V a, V b) const {
    return fmod(a, b);
  }
  WEFT_INLINE Plain<int64_t> fwd(Plain<int64_t> a, Plain<int64_t> b) const {
    return b.v == 0 || b.v == -1 ? 0 : a.v % b.v;
  }
  template <int input, class V>
  WEFT_INLINE V bwd(V a, V b, V y, V dy) const {
    if constexpr (input == 0)
      return dy;
    else
      return -dy * trunc(a / b);
  }
};
struct Square {
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return x * x;
  }
  template <int, class V>
  WEFT_INLINE V bwd(V x, V y, V dy) const {
    return 2 * dy * x;
  }
};
struct Reciprocal {
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return 1 / x;
  }
  template <int, class V>
  WEFT_INLINE V bwd(V x, V y, V dy) const {
    return -dy * y * y;
  }
};
// The gradient at 0 is 0.
struct Abs {
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return abs(x);
  }
  template <int, class V>
  WEFT_INLINE V bwd(V x, V y, V dy) const {
    return select(x > 0, dy, select(x < 0, -dy, 0));
  }
};
struct Sign {
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return select(x > 0, V(1), select(x < 0, V(-1), x));
  }
};
// NaN wins; equal operands get half of the gradient each.
struct Maximum {
  template <class V>
  WEFT_INLINE V fwd(V a, V b) const {
    return select(either(a >= b, a != a), a, b);
  }
  template <int input, class V>
  WEFT_INLINE V bwd(V a, V b, V y, V dy) const {
    if constexpr (input == 0)
      return select(a == b, 0.5 * dy, select(a >= b, dy, 0));
    else
      return select(a == b, 0.5 * dy, select(a >= b, 0, dy));
  }
};
// NaN wins; equal operands get half of the gradient each.
struct Minimum {
  template <class V>
  WEFT_INLINE V fwd(V a, V b) const {
    return select(either(a <= b, a != a), a, b);
  }
  template <int input, class V>
  WEFT_INLINE V bwd(V a, V b, V y, V dy) const {
    if constexpr (input == 0)
      return select(a == b, 0.5 * dy, select(a <= b, dy, 0));
    else
      return select(a == b, 0.5 * dy, select(a <= b, 0, dy));
  }
};
// The upper bound wins where low > high; a value on a bound passes its gradient.
struct Clamp {
  double low, high;
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    const V raised = select(x < low, V(low), x);
    return select(raised > high, V(high), raised);
  }
  template <int, class V>
  WEFT_INLINE V bwd(V x, V y, V dy) const {
    return select(both(x >= low, x <= high), dy, 0);
  }
};
struct Lerp {
  double weight;
  template <class V>
  WEFT_INLINE V fwd(V a, V b) const {
    return a + weight * (b - a);
  }
  template <int input, class V>
  WEFT_INLINE V bwd(V a, V b, V y, V dy) const {
    if constexpr (input == 0)
      return (1 - weight) * dy;
    else
      return weight * dy;
  }
};
// a + value · b · c
struct Addcmul {
  double value;
  template <class V>
  WEFT_INLINE V fwd(V a, V b, V c) const {
    return a + value * b * c;
  }
  template <int input, class V>
  WEFT_INLINE V bwd(V a, V b, V c, V y, V dy) const {
    if constexpr (input == 0)
      return dy;
    else if constexpr (input == 1)
      return value * dy * c;
    else
      return value * dy * b;
  }
};
// a + value · b / c
struct Addcdiv {
  double value;
  template <class V>
  WEFT_INLINE V fwd(V a, V b, V c) const {
    return a + value * b / c;
  }
  template <int input, class V>
  WEFT_INLINE V bwd(V a, V b, V c, V y, V dy) const {
    if constexpr (input == 0)
      return dy;
    else if constexpr (input == 1)
      return value * dy / c;
    else
      return -value * dy * b / (c * c);
  }
};
struct Floor {
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return floor(x);
  }
};
struct Ceil {
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return ceil(x);
  }
};
// Ties go to the even neighbour.
struct Round {
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return round(x);
  }
};
struct Trunc {
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return trunc(x);
  }
};
struct BitwiseAnd {
  template <class V>
  WEFT_INLINE V fwd(V a, V b) const {
    return a & b;
  }
};
struct BitwiseOr {
  template <class V>
  WEFT_INLINE V fwd(V a, V b) const {
    return a | b;
  }
};
struct BitwiseXor {
  template <class V>
  WEFT_INLINE V fwd(V a, V b) const {
    return a ^ b;
  }
};
struct BitwiseNot {
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return x ^ V(-1);
  }
};

}  // namespace weft::WEFT_FUNCTORS
WEFT_AFTER_FUNCTORS();

#endif  // per-target include guard
