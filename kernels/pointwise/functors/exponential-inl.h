// Exponentials, logarithms, roots, powers and trigonometry.
//
// fwd gives y; bwd<i> the gradient of input i from the inputs, y and dy.
#if defined(WEFT_FUNCTORS_EXPONENTIAL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_FUNCTORS_EXPONENTIAL_INL_H_
#undef WEFT_FUNCTORS_EXPONENTIAL_INL_H_
#else
#define WEFT_FUNCTORS_EXPONENTIAL_INL_H_
#endif

#include "kernels/pointwise/vocabulary-inl.h"

WEFT_BEFORE_FUNCTORS();
namespace weft::WEFT_FUNCTORS {

struct Exp {
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return exp(x);
  }
  template <int, class V>
  WEFT_INLINE V bwd(V x, V y, V dy) const {
    return dy * y;
  }
};
struct Expm1 {
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return expm1(x);
  }
  template <int, class V>
  WEFT_INLINE V bwd(V x, V y, V dy) const {
    return dy * (y + 1);
  }
};
struct Log {
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return log(x);
  }
  template <int, class V>
  WEFT_INLINE V bwd(V x, V y, V dy) const {
    return dy / x;
  }
};
struct Log1p {
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return log1p(x);
  }
  template <int, class V>
  WEFT_INLINE V bwd(V x, V y, V dy) const {
    return dy / (1 + x);
  }
};
struct Sqrt {
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return sqrt(x);
  }
  template <int, class V>
  WEFT_INLINE V bwd(V x, V y, V dy) const {
    return 0.5 * dy / y;
  }
};
struct Rsqrt {
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return 1 / sqrt(x);
  }
  template <int, class V>
  WEFT_INLINE V bwd(V x, V y, V dy) const {
    return -0.5 * dy * y * y * y;
  }
};
// The gradients are 0 where the limit is: of the base for exponent 0, of the exponent for base 0.
struct Pow {
  template <class V>
  WEFT_INLINE V fwd(V a, V b) const {
    return pow(a, b);
  }
  template <int input, class V>
  WEFT_INLINE V bwd(V a, V b, V y, V dy) const {
    if constexpr (input == 0)
      return select(b == 0, 0, dy * b * pow(a, b - 1));
    else
      return select(both(a == 0, b >= 0), 0, dy * y * log(a));
  }
};
struct Sin {
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return sin(x);
  }
  template <int, class V>
  WEFT_INLINE V bwd(V x, V y, V dy) const {
    return dy * cos(x);
  }
};
struct Cos {
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return cos(x);
  }
  template <int, class V>
  WEFT_INLINE V bwd(V x, V y, V dy) const {
    return -dy * sin(x);
  }
};
struct Tan {
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return tan(x);
  }
  template <int, class V>
  WEFT_INLINE V bwd(V x, V y, V dy) const {
    return dy * (1 + y * y);
  }
};
struct Atan {
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return atan(x);
  }
  template <int, class V>
  WEFT_INLINE V bwd(V x, V y, V dy) const {
    return dy / (1 + x * x);
  }
};
// The gradient at (0, 0), where there is none, is 0.
struct Atan2 {
  template <class V>
  WEFT_INLINE V fwd(V a, V b) const {
    return atan2(a, b);
  }
  template <int input, class V>
  WEFT_INLINE V bwd(V a, V b, V y, V dy) const {
    const V square = a * a + b * b;
    const V scaled = dy / select(square == 0, 1, square);
    if constexpr (input == 0)
      return scaled * b;
    else
      return -scaled * a;
  }
};
// Gradient: 2 / sqrt(pi) · exp(-x²).
struct Erf {
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return erf(x);
  }
  template <int, class V>
  WEFT_INLINE V bwd(V x, V y, V dy) const {
    return 1.1283791670955126 * dy * exp(-x * x);
  }
};

}  // namespace weft::WEFT_FUNCTORS
WEFT_AFTER_FUNCTORS();

#endif  // per-target include guard
