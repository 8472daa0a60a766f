// The numbers of an Adam step, rounded once to the type of the arithmetic, the same on every device.
#pragma once
#include <cmath>

#include "kernels/optimizer/optimizer.h"

namespace weft {

template <class T>
struct AdamFactors {
  T sign;     // -1 to maximize
  T keep;     // 1 - lr · weight_decay, or 1
  T coupled;  // weight_decay added to the gradient, or 0
  T one_less_beta1;
  T beta2;
  T one_less_beta2;
  T step_size;     // lr / (1 - beta1^step)
  T inverse_root;  // 1 / sqrt(1 - beta2^step)
  T eps;

  AdamFactors(const AdamOptions& o, int64_t step)
      : sign(o.maximize ? T(-1) : T(1)),
        keep(static_cast<T>(o.decoupled ? 1 - o.lr * o.weight_decay : 1)),
        coupled(static_cast<T>(o.decoupled ? 0 : o.weight_decay)),
        one_less_beta1(static_cast<T>(1 - o.beta1)),
        beta2(static_cast<T>(o.beta2)),
        one_less_beta2(static_cast<T>(1 - o.beta2)),
        step_size(static_cast<T>(o.lr / (1 - std::pow(o.beta1, static_cast<double>(step))))),
        inverse_root(static_cast<T>(1 / std::sqrt(1 - std::pow(o.beta2, static_cast<double>(step))))),
        eps(static_cast<T>(o.eps)) {}
};

}  // namespace weft
