// Activation functions of neural networks.
//
// fwd gives y; bwd<i> the gradient of input i from the inputs, y and dy.
#if defined(WEFT_FUNCTORS_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_FUNCTORS_ACTIVATION_INL_H_
#undef WEFT_FUNCTORS_ACTIVATION_INL_H_
#else
#define WEFT_FUNCTORS_ACTIVATION_INL_H_
#endif

#include "kernels/pointwise/vocabulary-inl.h"

WEFT_BEFORE_FUNCTORS();
namespace weft::WEFT_FUNCTORS {

// NaN stays NaN; the gradient at 0 is 0.
struct Relu {
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return select(x <= 0, 0, x);
  }
  template <int, class V>
  WEFT_INLINE V bwd(V x, V y, V dy) const {
    return select(x <= 0, 0, dy);
  }
};
struct LeakyRelu {
  double slope;
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return select(x > 0, x, slope * x);
  }
  template <int, class V>
  WEFT_INLINE V bwd(V x, V y, V dy) const {
    return select(x > 0, dy, slope * dy);
  }
};
// Clevert et al. 2015, arXiv:1511.07289.
struct Elu {
  double alpha;
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return select(x > 0, x, alpha * expm1(x));
  }
  template <int, class V>
  WEFT_INLINE V bwd(V x, V y, V dy) const {
    return select(x > 0, dy, dy * alpha * exp(x));
  }
};
struct Sigmoid {
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return 1 / (1 + exp(-x));
  }
  template <int, class V>
  WEFT_INLINE V bwd(V x, V y, V dy) const {
    return dy * y * (1 - y);
  }
};
struct Tanh {
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return tanh(x);
  }
  template <int, class V>
  WEFT_INLINE V bwd(V x, V y, V dy) const {
    return dy * (1 - y * y);
  }
};
// x · Φ(x), Φ the normal distribution (Hendrycks & Gimpel 2016, arXiv:1606.08415).
struct Gelu {
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return 0.5 * x * (1 + erf(0.7071067811865476 * x));
  }
  template <int, class V>
  WEFT_INLINE V bwd(V x, V y, V dy) const {
    return dy * (0.5 * (1 + erf(0.7071067811865476 * x)) + x * (0.3989422804014327 * exp(-0.5 * x * x)));
  }
};
// The usual approximation, 0.5 x (1 + tanh u) with u = sqrt(2/pi) (x + 0.044715 x³). As 0.5 (1 + tanh u) is
// sigmoid(2u), one exponential is enough and nothing cancels for large negative x.
struct GeluTanh {
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return x / (1 + exp(-1.5957691216057308 * x * (1 + 0.044715 * x * x)));
  }
  template <int, class V>
  WEFT_INLINE V bwd(V x, V y, V dy) const {
    const V square = x * x;
    const V s = 1 / (1 + exp(-1.5957691216057308 * x * (1 + 0.044715 * square)));
    return dy * s * (1 + x * (1 - s) * (1.5957691216057308 * (1 + 0.134145 * square)));
  }
};
// x · sigmoid(x).
struct Silu {
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return x / (1 + exp(-x));
  }
  template <int, class V>
  WEFT_INLINE V bwd(V x, V y, V dy) const {
    const V s = 1 / (1 + exp(-x));
    return dy * s * (1 + x * (1 - s));
  }
};
// log(1 + exp(beta x)) / beta; the identity where beta x > threshold.
struct Softplus {
  double beta, threshold;
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return select(beta * x > threshold, x, log1p(exp(beta * x)) * (1 / beta));
  }
  template <int, class V>
  WEFT_INLINE V bwd(V x, V y, V dy) const {
    return select(beta * x > threshold, dy, dy / (1 + exp(-beta * x)));
  }
};
// log(sigmoid(x)) from exp(-|x|), which cannot overflow.
struct LogSigmoid {
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return select(x >= 0, 0, x) - log1p(exp(-abs(x)));
  }
  template <int, class V>
  WEFT_INLINE V bwd(V x, V y, V dy) const {
    return dy / (1 + exp(x));
  }
};
// x · tanh(log(1 + e)) with e = exp(x), Misra 2019, arXiv:1908.08681. The tanh is n / (n + 2) with n = e (e + 2); it
// rounds to 1 from x = 20 on, where n would begin to overflow.
struct Mish {
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    const V e = exp(select(x > 20, 20, x));
    const V n = e * (e + 2);
    return x * (n / (n + 2));
  }
  template <int, class V>
  WEFT_INLINE V bwd(V x, V y, V dy) const {
    const V e = exp(select(x > 20, 20, x));
    const V n = e * (e + 2);
    const V t = n / (n + 2);
    return dy * (t + x * (1 - t) * (2 * e * (e + 1)) / (n + 2));
  }
};
// Klambauer et al. 2017, arXiv:1706.02515: scale · x above 0, scale · alpha · (exp(x) - 1) below.
struct Selu {
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return select(x > 0, 1.0507009873554805 * x, 1.7580993408473766 * expm1(x));
  }
  template <int, class V>
  WEFT_INLINE V bwd(V x, V y, V dy) const {
    return select(x > 0, 1.0507009873554805 * dy, 1.7580993408473766 * dy * exp(x));
  }
};
// As clamp, but the gradient at the bounds themselves is 0.
struct Hardtanh {
  double low, high;
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return select(x < low, low, select(x > high, high, x));
  }
  template <int, class V>
  WEFT_INLINE V bwd(V x, V y, V dy) const {
    return select(either(x <= low, x >= high), 0, dy);
  }
};
// x / 6 + 1/2 between 0 and 1.
struct Hardsigmoid {
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return select(x <= -3, 0, select(x >= 3, 1, (x + 3) * (1.0 / 6)));
  }
  template <int, class V>
  WEFT_INLINE V bwd(V x, V y, V dy) const {
    return select(either(x <= -3, x >= 3), 0, dy * (1.0 / 6));
  }
};
// Howard et al. 2019, arXiv:1905.02244.
struct Hardswish {
  template <class V>
  WEFT_INLINE V fwd(V x) const {
    return select(x <= -3, 0, select(x >= 3, x, x * (x + 3) * (1.0 / 6)));
  }
  template <int, class V>
  WEFT_INLINE V bwd(V x, V y, V dy) const {
    return select(x <= -3, 0, select(x >= 3, dy, dy * (x * (1.0 / 3) + 0.5)));
  }
};
// a above 0, b · a below (He et al. 2015, arXiv:1502.01852).
struct Prelu {
  template <class V>
  WEFT_INLINE V fwd(V a, V b) const {
    return select(a > 0, a, b * a);
  }
  template <int input, class V>
  WEFT_INLINE V bwd(V a, V b, V y, V dy) const {
    if constexpr (input == 0)
      return select(a > 0, dy, b * dy);
    else
      return select(a > 0, 0, a * dy);
  }
};

}  // namespace weft::WEFT_FUNCTORS
WEFT_AFTER_FUNCTORS();

#endif  // per-target include guard
