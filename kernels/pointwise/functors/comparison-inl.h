// Comparisons, logic and selection. Results are 1 and 0.
//
// fwd gives y; bwd<i> the gradient of input i from the inputs, y and dy.
#if defined(WEFT_FUNCTORS_COMPARISON_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_FUNCTORS_COMPARISON_INL_H_
#undef WEFT_FUNCTORS_COMPARISON_INL_H_
#else
#define WEFT_FUNCTORS_COMPARISON_INL_H_
#endif

#include "kernels/pointwise/vocabulary-inl.h"

WEFT_BEFORE_FUNCTORS();
namespace weft::WEFT_FUNCTORS {

struct Equal {
  template <class V>
  WEFT_INLINE V fwd(V a, V b) const {
    return select(a == b, V(1), V(0));
  }
};
struct NotEqual {
  template <class V>
  WEFT_INLINE V fwd(V a, V b) const {
    return select(a != b, V(1), V(0));
  }
};
struct Less {
  template <class V>
  WEFT_INLINE V fwd(V a, V b) const {
    return select(a < b, V(1), V(0));
  }
};
struct LessEqual {
  template <class V>
  WEFT_INLINE V fwd(V a, V b) const {
    return select(a <= b, V(1), V(0));
  }
};
struct Greater {
  template <class V>
  WEFT_INLINE V fwd(V a, V b) const {
    return select(a > b, V(1), V(0));
  }
};
struct GreaterEqual {
  template <class V>
  WEFT_INLINE V fwd(V a, V b) const {
    return select(a >= b, V(1), V(0));
  }
};
struct LogicalAnd {
  template <class V>
  WEFT_INLINE V fwd(V a, V b) const {
    return select(both(a != 0, b != 0), V(1), V(0));
  }
};
struct LogicalOr {
  template <class V>
  WEFT_INLINE V fwd(V a, V b) const {
    return select(either(a != 0, b != 0), V(1), V(0));
  }
};
struct LogicalXor {
  template <class V>
  WEFT_INLINE V fwd(V a, V b) const {
    return select(either(both(a != 0, b == 0), both(a == 0, b != 0)), V(1), V(0));
  }
};
struct LogicalNot {
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return select(x == 0, V(1), V(0));
  }
};
struct IsNan {
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return select(x != x, V(1), V(0));
  }
};
// inf - inf and NaN - NaN are NaN.
struct IsInf {
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return select(both(x == x, x - x != 0), V(1), V(0));
  }
};
struct IsFinite {
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return select(x - x == 0, V(1), V(0));
  }
};
// b where the condition a is not zero, else c.
struct Where {
  template <class V>
  WEFT_INLINE V fwd(V a, V b, V c) const {
    return select(a != 0, b, c);
  }
  template <int input, class V>
  WEFT_INLINE V bwd(V a, V b, V c, V y, V dy) const {
    if constexpr (input == 0)
      return 0 * dy;  // a condition has no gradient
    else if constexpr (input == 1)
      return select(a != 0, dy, 0);
    else
      return select(a != 0, 0, dy);
  }
};

}  // namespace weft::WEFT_FUNCTORS
WEFT_AFTER_FUNCTORS();

#endif  // per-target include guard
