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

}  // namespace weft::WEFT_FUNCTORS
WEFT_AFTER_FUNCTORS();

#endif  // per-target include guard
