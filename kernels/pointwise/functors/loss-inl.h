// Losses of matching elements: how far a prediction x is from its target t. autograd/ops/loss.h weights and reduces them.
//
// fwd gives y; bwd<i> the gradient of input i from the inputs, y and dy.
#if defined(WEFT_FUNCTORS_LOSS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_FUNCTORS_LOSS_INL_H_
#undef WEFT_FUNCTORS_LOSS_INL_H_
#else
#define WEFT_FUNCTORS_LOSS_INL_H_
#endif

#include "kernels/pointwise/vocabulary-inl.h"

WEFT_BEFORE_FUNCTORS();
namespace weft::WEFT_FUNCTORS {

// (x - t)²
struct SquaredError {
  template <class V>
  WEFT_INLINE V fwd(V x, V t) const {
    return (x - t) * (x - t);
  }
  template <int input, class V>
  WEFT_INLINE V bwd(V x, V t, V y, V dy) const {
    if constexpr (input == 0)
      return dy * (2 * (x - t));
    else
      return dy * (2 * (t - x));
  }
};
// |x - t|; the gradient where they are equal is 0.
struct AbsoluteError {
  template <class V>
  WEFT_INLINE V fwd(V x, V t) const {
    return abs(x - t);
  }
  template <int input, class V>
  WEFT_INLINE V bwd(V x, V t, V y, V dy) const {
    if constexpr (input == 0)
      return select(x > t, dy, select(x < t, -dy, 0));
    else
      return select(x > t, -dy, select(x < t, dy, 0));
  }
};
// With d = |x - t|: d² / (2 beta) below beta, else d - beta / 2. beta > 0.
struct SmoothAbsoluteError {
  double beta;
  template <class V>
  WEFT_INLINE V fwd(V x, V t) const {
    const V d = abs(x - t);
    return select(d < beta, d * d * (0.5 / beta), d - 0.5 * beta);
  }
  template <int input, class V>
  WEFT_INLINE V bwd(V x, V t, V y, V dy) const {
    const V d = input == 0 ? x - t : t - x;
    return select(abs(d) < beta, dy * d * (1 / beta), select(d > 0, dy, -dy));
  }
};
// With d = |x - t|: d² / 2 up to delta, else delta (d - delta / 2) (Huber 1964).
struct HuberError {
  double delta;
  template <class V>
  WEFT_INLINE V fwd(V x, V t) const {
    const V d = abs(x - t);
    return select(d <= delta, 0.5 * d * d, delta * (d - 0.5 * delta));
  }
  template <int input, class V>
  WEFT_INLINE V bwd(V x, V t, V y, V dy) const {
    const V d = input == 0 ? x - t : t - x;
    return select(abs(d) <= delta, dy * d, select(d > 0, delta * dy, -delta * dy));
  }
};
// -(t log x + (1 - t) log(1 - x)) with logarithms of at least -100; the divisor of the gradient by x, x (1 - x), is at
// least 1e-12.
struct BinaryCrossEntropy {
  template <class V>
  static WEFT_INLINE V at_least(V x, double low) {
    return select(x < low, low, x);
  }
  template <class V>
  WEFT_INLINE V fwd(V x, V t) const {
    return -(t * at_least(V(log(x)), -100) + (1 - t) * at_least(V(log1p(-x)), -100));
  }
  template <int input, class V>
  WEFT_INLINE V bwd(V x, V t, V y, V dy) const {
    if constexpr (input == 0)
      return dy * (x - t) / at_least(V(x * (1 - x)), 1e-12);
    else
      return dy * (at_least(V(log1p(-x)), -100) - at_least(V(log(x)), -100));
  }
};
// The same of x = sigmoid(logit), with p as a weight of the positives: (1 - t) x + (1 + (p - 1) t) · log(1 + exp(-x)),
// where the last factor is made of exp(-|x|), which cannot overflow.
struct BinaryCrossEntropyWithLogits {
  template <class V>
  static WEFT_INLINE V log_one_plus_exp_minus(V x) {
    return log1p(exp(-abs(x))) + select(x >= 0, 0, -x);
  }
  template <class V>
  WEFT_INLINE V fwd(V x, V t, V p) const {
    return (1 - t) * x + (1 + (p - 1) * t) * log_one_plus_exp_minus(x);
  }
  template <int input, class V>
  WEFT_INLINE V bwd(V x, V t, V p, V y, V dy) const {
    if constexpr (input == 0)
      return dy * ((1 - t) - (1 + (p - 1) * t) / (1 + exp(x)));
    else if constexpr (input == 1)
      return dy * ((p - 1) * log_one_plus_exp_minus(x) - x);
    else
      return dy * (t * log_one_plus_exp_minus(x));
  }
};
// t (log t - x), the part of one element in the divergence of exp(x) from t (Kullback & Leibler 1951); t log t is 0 at 0.
struct KlDivergence {
  template <class V>
  WEFT_INLINE V fwd(V x, V t) const {
    return select(t == 0, 0, t * log(t)) - t * x;
  }
  template <int input, class V>
  WEFT_INLINE V bwd(V x, V t, V y, V dy) const {
    if constexpr (input == 0)
      return -dy * t;
    else
      return dy * (select(t == 0, 0, log(select(t == 0, 1, t)) + 1) - x);
  }
};
// The same with t as a logarithm.
struct KlDivergenceOfLogs {
  template <class V>
  WEFT_INLINE V fwd(V x, V t) const {
    return exp(t) * (t - x);
  }
  template <int input, class V>
  WEFT_INLINE V bwd(V x, V t, V y, V dy) const {
    if constexpr (input == 0)
      return -dy * exp(t);
    else
      return dy * (exp(t) * (t - x + 1));
  }
};

}  // namespace weft::WEFT_FUNCTORS
WEFT_AFTER_FUNCTORS();

#endif  // per-target include guard
