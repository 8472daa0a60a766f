// The rules of the optimizers as functors over the vocabulary of the pointwise functors: one text for the vectors of the
// CPU and the threads of devices, with fused multiply-adds in the same places, so that f32 results have the same bits.
//
//   const Adam<float> rule(options);                    // numbers that all slices share, rounded once to the arithmetic
//   const auto each = rule.each(options, slice);        // numbers of a slice: those that follow its step
//   rule(each, present, p, g, state);                   // V& p, V g, V* state
//
// `states` is how many arrays a rule has at most. Which are there it is told by Present; others read as 0.
#if defined(WEFT_KERNELS_OPTIMIZER_RULES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_OPTIMIZER_RULES_INL_H_
#undef WEFT_KERNELS_OPTIMIZER_RULES_INL_H_
#else
#define WEFT_KERNELS_OPTIMIZER_RULES_INL_H_
#endif

#include <cmath>

#include "kernels/optimizer/optimizer.h"
#include "kernels/pointwise/vocabulary-inl.h"

WEFT_BEFORE_FUNCTORS();
namespace weft::WEFT_FUNCTORS {

#ifdef WEFT_DEVICE
WEFT_INLINE Plain<float> multiply_add(Plain<float> a, Plain<float> b, Plain<float> c) { return fmaf(a.v, b.v, c.v); }
WEFT_INLINE Plain<double> multiply_add(Plain<double> a, Plain<double> b, Plain<double> c) { return a.v * b.v + c.v; }
#else
HWY_INLINE Lanes<float> multiply_add(Lanes<float> a, Lanes<float> b, Lanes<float> c) {
  return hn::MulAdd(a.v, b.v, c.v);
}
HWY_INLINE Lanes<double> multiply_add(Lanes<double> a, Lanes<double> b, Lanes<double> c) {
  return hn::MulAdd(a.v, b.v, c.v);
}
#endif

// Which of a slice's arrays are there, the same for all its elements.
struct Present {
  bool state[3];
};

// For rules whose slices have no numbers of their own.
struct alignas(8) NoNumbers {};

// 1 - beta^step.
inline double bias(double beta, int64_t step) { return 1 - std::pow(beta, static_cast<double>(step)); }

// The gradient to use: its sign, and decay added or not.
template <class T>
struct Gradient {
  T sign, coupled, keep;
  Gradient(bool maximize, double weight_decay, bool decoupled, double lr)
      : sign(maximize ? T(-1) : T(1)),
        coupled(static_cast<T>(decoupled ? 0 : weight_decay)),
        keep(static_cast<T>(decoupled ? 1 - lr * weight_decay : 1)) {}
  template <class V>
  WEFT_INLINE V operator()(V p, V g) const {
    return multiply_add(g, V(sign), V(coupled) * p);
  }
};

template <class T>
struct Sgd {
  static constexpr int states = 1;
  struct alignas(8) Each {
    T old, fresh;  // of the buffer, and of the gradient that joins it
  };
  Gradient<T> gradient;
  T minus_lr, momentum;
  bool nesterov;
  explicit Sgd(const SgdOptions& o)
      : gradient(o.maximize, o.weight_decay, false, o.lr),
        minus_lr(static_cast<T>(-o.lr)),
        momentum(static_cast<T>(o.momentum)),
        nesterov(o.nesterov) {}
  static Each each(const SgdOptions& o, const OptimizerSlice& s) {
    if (s.step == 1) return {T(0), T(1)};
    return {static_cast<T>(o.momentum), static_cast<T>(1 - o.dampening)};
  }
  template <class V>
  WEFT_INLINE void operator()(Each e, Present has, V& p, V g, V* state) const {
    V step = gradient(p, g);
    if (has.state[0]) {
      state[0] = multiply_add(V(e.old), state[0], V(e.fresh) * step);
      step = nesterov ? multiply_add(V(momentum), state[0], step) : state[0];
    }
    p = multiply_add(V(minus_lr), step, p);
  }
};

// What the rules of Adam's family share: m and v, and Adam's denominator.
template <class T>
struct Moments {
  T one_less_beta1, beta2, one_less_beta2, eps;
  Moments(double beta1, double beta2_, double eps_)
      : one_less_beta1(static_cast<T>(1 - beta1)),
        beta2(static_cast<T>(beta2_)),
        one_less_beta2(static_cast<T>(1 - beta2_)),
        eps(static_cast<T>(eps_)) {}
  template <class V>
  WEFT_INLINE void average(V g, V& m, V& v) const {
    m = multiply_add(V(one_less_beta1), g - m, m);
    v = multiply_add(V(one_less_beta2) * g, g, V(beta2) * v);
  }
  template <class V>
  WEFT_INLINE V denominator(V v, T inverse_root) const {
    return multiply_add(sqrt(v), V(inverse_root), V(eps));
  }
};

template <class T>
struct Adam {
  static constexpr int states = 3;
  struct alignas(8) Each {
    T step_size, inverse_root;
  };
  Gradient<T> gradient;
  Moments<T> moments;
  explicit Adam(const AdamOptions& o)
      : gradient(o.maximize, o.weight_decay, o.decoupled, o.lr), moments(o.beta1, o.beta2, o.eps) {}
  static Each each(const AdamOptions& o, const OptimizerSlice& s) {
    return {static_cast<T>(o.lr / bias(o.beta1, s.step)), static_cast<T>(1 / std::sqrt(bias(o.beta2, s.step)))};
  }
  template <class V>
  WEFT_INLINE void operator()(Each e, Present has, V& p, V g, V* state) const {
    moments.average(gradient(p, g), state[0], state[1]);
    V second = state[1];
    if (has.state[2]) {
      second = select(state[2] > second, state[2], second);
      state[2] = second;
    }
    const V update = V(e.step_size) * (state[0] / moments.denominator(second, e.inverse_root));
    p = p * V(gradient.keep) - select(state[0] == 0, V(0), update);
  }
};

template <class T>
struct Adagrad {
  static constexpr int states = 1;
  struct alignas(8) Each {
    T minus_lr;
  };
  Gradient<T> gradient;
  T eps;
  explicit Adagrad(const AdagradOptions& o)
      : gradient(o.maximize, o.weight_decay, false, o.lr), eps(static_cast<T>(o.eps)) {}
  static Each each(const AdagradOptions& o, const OptimizerSlice& s) {
    return {static_cast<T>(-o.lr / (1 + static_cast<double>(s.step - 1) * o.lr_decay))};
  }
  template <class V>
  WEFT_INLINE void operator()(Each e, Present, V& p, V g, V* state) const {
    const V d = gradient(p, g);
    state[0] = multiply_add(d, d, state[0]);
    const V update = V(e.minus_lr) * (d / (sqrt(state[0]) + V(eps)));
    p = p + select(d == 0, V(0), update);
  }
};

template <class T>
struct Rmsprop {
  static constexpr int states = 3;
  using Each = NoNumbers;
  Gradient<T> gradient;
  T minus_lr, alpha, one_less_alpha, eps, momentum;
  explicit Rmsprop(const RmspropOptions& o)
      : gradient(o.maximize, o.weight_decay, false, o.lr),
        minus_lr(static_cast<T>(-o.lr)),
        alpha(static_cast<T>(o.alpha)),
        one_less_alpha(static_cast<T>(1 - o.alpha)),
        eps(static_cast<T>(o.eps)),
        momentum(static_cast<T>(o.momentum)) {}
  static Each each(const RmspropOptions&, const OptimizerSlice&) { return {}; }
  template <class V>
  WEFT_INLINE void operator()(Each, Present has, V& p, V g, V* state) const {
    const V d = gradient(p, g);
    state[0] = multiply_add(V(one_less_alpha) * d, d, V(alpha) * state[0]);
    V variance = state[0];
    if (has.state[1]) {
      state[1] = multiply_add(V(one_less_alpha), d - state[1], state[1]);
      variance = variance - state[1] * state[1];
      // Rounding may take the difference of equal numbers below 0. NaN stays.
      variance = select(variance < 0, V(0), variance);
    }
    V step = select(d == 0, V(0), d / (sqrt(variance) + V(eps)));
    if (has.state[2]) {
      state[2] = multiply_add(V(momentum), state[2], step);
      step = state[2];
    }
    p = multiply_add(V(minus_lr), step, p);
  }
};

template <class T>
struct Adadelta {
  static constexpr int states = 2;
  using Each = NoNumbers;
  Gradient<T> gradient;
  T minus_lr, rho, one_less_rho, eps;
  explicit Adadelta(const AdadeltaOptions& o)
      : gradient(o.maximize, o.weight_decay, false, o.lr),
        minus_lr(static_cast<T>(-o.lr)),
        rho(static_cast<T>(o.rho)),
        one_less_rho(static_cast<T>(1 - o.rho)),
        eps(static_cast<T>(o.eps)) {}
  static Each each(const AdadeltaOptions&, const OptimizerSlice&) { return {}; }
  template <class V>
  WEFT_INLINE void operator()(Each, Present, V& p, V g, V* state) const {
    const V d = gradient(p, g);
    state[0] = multiply_add(V(one_less_rho) * d, d, V(rho) * state[0]);
    const V ratio = sqrt(state[1] + V(eps)) / sqrt(state[0] + V(eps));
    const V delta = select(d == 0, V(0), ratio * d);
    state[1] = multiply_add(V(one_less_rho) * delta, delta, V(rho) * state[1]);
    p = multiply_add(V(minus_lr), delta, p);
  }
};

template <class T>
struct Adamax {
  static constexpr int states = 2;
  struct alignas(8) Each {
    T step_size;
  };
  Gradient<T> gradient;
  T one_less_beta1, beta2, eps;
  explicit Adamax(const AdamaxOptions& o)
      : gradient(o.maximize, o.weight_decay, false, o.lr),
        one_less_beta1(static_cast<T>(1 - o.beta1)),
        beta2(static_cast<T>(o.beta2)),
        eps(static_cast<T>(o.eps)) {}
  static Each each(const AdamaxOptions& o, const OptimizerSlice& s) {
    return {static_cast<T>(o.lr / bias(o.beta1, s.step))};
  }
  template <class V>
  WEFT_INLINE void operator()(Each e, Present, V& p, V g, V* state) const {
    const V d = gradient(p, g);
    state[0] = multiply_add(V(one_less_beta1), d - state[0], state[0]);
    const V old = V(beta2) * state[1], fresh = abs(d) + V(eps);
    state[1] = select(old > fresh, old, fresh);
    p = p - select(state[0] == 0, V(0), V(e.step_size) * (state[0] / state[1]));
  }
};

template <class T>
struct Nadam {
  static constexpr int states = 2;
  struct alignas(8) Each {
    T of_gradient, of_average, inverse_root;
  };
  Gradient<T> gradient;
  Moments<T> moments;
  explicit Nadam(const NadamOptions& o)
      : gradient(o.maximize, o.weight_decay, o.decoupled, o.lr), moments(o.beta1, o.beta2, o.eps) {}
  static Each each(const NadamOptions& o, const OptimizerSlice& s) {
    const double mu = nadam_momentum(o, s.step), next = nadam_momentum(o, s.step + 1);
    return {static_cast<T>(o.lr * (1 - mu) / (1 - s.product)), static_cast<T>(o.lr * next / (1 - s.product * next)),
            static_cast<T>(1 / std::sqrt(bias(o.beta2, s.step)))};
  }
  template <class V>
  WEFT_INLINE void operator()(Each e, Present, V& p, V g, V* state) const {
    const V d = gradient(p, g);
    moments.average(d, state[0], state[1]);
    const V step = multiply_add(V(e.of_gradient), d, V(e.of_average) * state[0]);
    const V update = step / moments.denominator(state[1], e.inverse_root);
    p = p * V(gradient.keep) - select(step == 0, V(0), update);
  }
};

template <class T>
struct Radam {
  static constexpr int states = 2;
  struct alignas(8) Each {
    T step_size, adaptive, inverse_root;  // adaptive: 1 where v is used, else 0
  };
  Gradient<T> gradient;
  Moments<T> moments;
  explicit Radam(const RadamOptions& o)
      : gradient(o.maximize, o.weight_decay, o.decoupled, o.lr), moments(o.beta1, o.beta2, o.eps) {}
  static Each each(const RadamOptions& o, const OptimizerSlice& s) {
    const double step_size = o.lr / bias(o.beta1, s.step);
    const double rho_inf = 2 / (1 - o.beta2) - 1;
    const auto t = static_cast<double>(s.step);
    const double rho = rho_inf - 2 * t * std::pow(o.beta2, t) / bias(o.beta2, s.step);
    if (rho <= 5) return {static_cast<T>(step_size), T(0), T(1)};
    const double rectified = std::sqrt((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho));
    // sqrt(1 - beta2^t) / (sqrt(v) + eps): eps stands beside the plain root here.
    return {static_cast<T>(step_size * rectified * std::sqrt(bias(o.beta2, s.step))), T(1), T(1)};
  }
  template <class V>
  WEFT_INLINE void operator()(Each e, Present, V& p, V g, V* state) const {
    moments.average(gradient(p, g), state[0], state[1]);
    const V mean = V(e.step_size) * state[0];
    const V adapted = mean / moments.denominator(state[1], e.inverse_root);
    p = p * V(gradient.keep) - select(state[0] == 0, V(0), select(V(e.adaptive) == 1, adapted, mean));
  }
};

template <class T>
struct Lion {
  static constexpr int states = 1;
  using Each = NoNumbers;
  Gradient<T> gradient;
  T lr, one_less_beta1, one_less_beta2;
  explicit Lion(const LionOptions& o)
      : gradient(o.maximize, o.weight_decay, true, o.lr),
        lr(static_cast<T>(o.lr)),
        one_less_beta1(static_cast<T>(1 - o.beta1)),
        one_less_beta2(static_cast<T>(1 - o.beta2)) {}
  static Each each(const LionOptions&, const OptimizerSlice&) { return {}; }
  template <class V>
  WEFT_INLINE void operator()(Each, Present, V& p, V g, V* state) const {
    const V d = gradient(p, g), away = d - state[0];
    const V direction = multiply_add(V(one_less_beta1), away, state[0]);
    // NaN compares with nothing: it is handed on as it is.
    const V step = select(direction > 0, V(lr), select(direction < 0, V(-lr), direction));
    p = p * V(gradient.keep) - step;
    state[0] = multiply_add(V(one_less_beta2), away, state[0]);
  }
};

template <class T>
struct LambFirst {
  static constexpr int states = 3;
  struct alignas(8) Each {
    T inverse_bias, inverse_root;
  };
  Moments<T> moments;
  T sign, weight_decay;
  explicit LambFirst(const LambDirection& o)
      : moments(o.beta1, o.beta2, o.eps),
        sign(o.maximize ? T(-1) : T(1)),
        weight_decay(static_cast<T>(o.weight_decay)) {}
  static Each each(const LambDirection& o, const OptimizerSlice& s) {
    if (!o.bias_correction) return {T(1), T(1)};
    return {static_cast<T>(1 / bias(o.beta1, s.step)), static_cast<T>(1 / std::sqrt(bias(o.beta2, s.step)))};
  }
  template <class V>
  WEFT_INLINE void operator()(Each e, Present, V& p, V g, V* state) const {
    moments.average(V(sign) * g, state[0], state[1]);
    const V mean = V(e.inverse_bias) * state[0];
    const V direction = select(mean == 0, V(0), mean / moments.denominator(state[1], e.inverse_root));
    state[2] = multiply_add(V(weight_decay), p, direction);
  }
};

template <class T>
struct LambSecond {
  static constexpr int states = 1;
  struct alignas(8) Each {
    const double* of_param;
    const double* of_update;
  };
  T lr;
  explicit LambSecond(const LambApply& o) : lr(static_cast<T>(o.lr)) {}
  static Each each(const LambApply&, const OptimizerSlice& s) { return {s.norms[0], s.norms[1]}; }
  template <class V>
  WEFT_INLINE void operator()(Each e, Present, V& p, V, V* state) const {
    const double of_param = *e.of_param, of_update = *e.of_update;
    const auto ratio = static_cast<T>(of_param == 0 || of_update == 0 ? 1 : std::sqrt(of_param / of_update));
    p = p - V(lr * ratio) * state[0];
  }
};

template <class T>
struct LerpRule {
  static constexpr int states = 0;
  using Each = NoNumbers;
  T weight;
  explicit LerpRule(const Lerp& o) : weight(static_cast<T>(o.weight)) {}
  static Each each(const Lerp&, const OptimizerSlice&) { return {}; }
  template <class V>
  WEFT_INLINE void operator()(Each, Present, V& p, V g, V*) const {
    p = multiply_add(V(weight), g - p, p);
  }
};

// The functor of a rule's options.
template <class Options, class T>
struct FunctorOf;
#define WEFT_RULE(options, functor) \
  template <class T>                \
  struct FunctorOf<options, T> {    \
    using type = functor<T>;        \
  };
WEFT_RULE(SgdOptions, Sgd)
WEFT_RULE(AdamOptions, Adam)
WEFT_RULE(AdagradOptions, Adagrad)
WEFT_RULE(RmspropOptions, Rmsprop)
WEFT_RULE(AdadeltaOptions, Adadelta)
WEFT_RULE(AdamaxOptions, Adamax)
WEFT_RULE(NadamOptions, Nadam)
WEFT_RULE(RadamOptions, Radam)
WEFT_RULE(LionOptions, Lion)
WEFT_RULE(LambDirection, LambFirst)
WEFT_RULE(LambApply, LambSecond)
WEFT_RULE(Lerp, LerpRule)
#undef WEFT_RULE

}  // namespace weft::WEFT_FUNCTORS
WEFT_AFTER_FUNCTORS();

#endif  // per-target include guard
