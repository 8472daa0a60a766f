// Optimizer steps over a whole list of parameters in one launch, and what clipping and loss scaling need.
//
//   std::vector<OptimizerSlice> slices = …;   // a slice is a parameter or a piece of one
//   const OptimizerRule rule = AdamOptions{.lr = 1e-3, .decoupled = true};
//   weft::cpu::optimizer_kernels.step(stream, f32, rule, slices.data(), slices.size());
//
// All slices of a launch are of one dtype and do not overlap: f64, f32, bf16 or f16. State is f64 for f64 parameters and
// f32 for all others: in bf16 an average with a decay of 0.999 would never move. bf16 and f16 parameters are computed in
// f32 and rounded when stored. Work is cut into tiles over all slices, so thousands of small parameters cost no more
// than a large one. The lists themselves are read before a function returns.
#pragma once
#include <cstdint>
#include <variant>

#include "kernels/base/dtype.h"
#include "kernels/base/stream.h"

namespace weft {

struct OptimizerSlice {
  void* param = nullptr;
  const void* grad = nullptr;
  void* state[3] = {};  // what a rule keeps, in the order it names
  int64_t size = 0;
  int64_t step = 1;             // the step being taken, counted from 1 for each parameter, also after a resume
  double product = 1;           // NAdam: of the momenta of all steps, this one's included
  const double* norms[2] = {};  // LambApply: the squares of the norms of p and u, on the stream's device
};

// --- the rules -----------------------------------------------------------------------------------------------------
// p is the parameter, g its gradient (with `maximize`: its negative), t the step; weight_decay · p is added to g except
// where the decay is decoupled: then p shrinks by 1 - lr · weight_decay. Divisions by zero that stem from a zero
// gradient give a zero step, not NaN.

// state {momentum_buffer b, needed when momentum != 0}. b = momentum · b + (1 - dampening) g, at the first step g;
// p -= lr · (nesterov ? g + momentum · b : b).
struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool maximize = false;
};

// Adam (Kingma and Ba 2015, arXiv:1412.6980), AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101), AMSGrad (Reddi et
// al. 2018, arXiv:1904.09237). state {m, v, largest v or null}. m += (1 - beta1)(g - m), v = beta2 v + (1 - beta2) g²,
// p -= lr / (1 - beta1^t) · m / (sqrt(v) / sqrt(1 - beta2^t) + eps).
struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;  // true: AdamW
  bool maximize = false;
};

// Duchi et al. 2011. state {sum}. sum += g², p -= lr / (1 + (t - 1) lr_decay) · g / (sqrt(sum) + eps).
struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;
  double eps = 1e-10;
  double weight_decay = 0;
  bool maximize = false;
};

// Tieleman and Hinton 2012; centered: Graves 2013, arXiv:1308.0850. state {v, gradient average a or null,
// momentum_buffer b or null}. v = alpha v + (1 - alpha) g², a += (1 - alpha)(g - a), d = g / (sqrt(v - a²) + eps),
// b = momentum · b + d, p -= lr · b.
struct RmspropOptions {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool maximize = false;
};

// Zeiler 2012, arXiv:1212.5701. state {v, u}. v = rho v + (1 - rho) g², d = g · sqrt(u + eps) / sqrt(v + eps),
// u = rho u + (1 - rho) d², p -= lr · d.
struct AdadeltaOptions {
  double lr = 1;
  double rho = 0.9;
  double eps = 1e-6;
  double weight_decay = 0;
  bool maximize = false;
};

// The infinity-norm form of Adam (same paper, section 7.1). state {m, u}. u = max(beta2 u, |g| + eps),
// p -= lr / (1 - beta1^t) · m / u.
struct AdamaxOptions {
  double lr = 2e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool maximize = false;
};

// Dozat 2016. state {m, v}. With mu_t = beta1 (1 - 0.96^(t · momentum_decay) / 2) and product = mu_1 … mu_t:
// p -= lr · ((1 - mu_t) / (1 - product) g + mu_{t+1} / (1 - product · mu_{t+1}) m) / (sqrt(v / (1 - beta2^t)) + eps).
struct NadamOptions {
  double lr = 2e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum_decay = 4e-3;
  bool decoupled = false;
  bool maximize = false;
};
// mu of one step.
double nadam_momentum(const NadamOptions& options, int64_t step);

// Liu et al. 2020, arXiv:1908.03265. state {m, v}. Where the variance is tractable (rho_t > 5):
// p -= lr · r_t · sqrt(1 - beta2^t) / (1 - beta1^t) · m / (sqrt(v) + eps), else p -= lr / (1 - beta1^t) · m.
struct RadamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;
  bool maximize = false;
};

// Chen et al. 2023, arXiv:2302.06675. state {m}. p -= lr · sign(beta1 m + (1 - beta1) g), m = beta2 m + (1 - beta2) g.
// The decay is decoupled.
struct LionOptions {
  double lr = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;
  bool maximize = false;
};

// You et al. 2020, arXiv:1904.00962, in two launches with the norms between them. LambDirection: state {m, v, u};
// u = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay · p, and p stays. LambApply: state {u};
// p -= lr · |p| / |u| · u, a ratio of 1 where a norm is 0.
struct LambDirection {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-6;
  double weight_decay = 0;
  bool bias_correction = true;
  bool maximize = false;
};
struct LambApply {
  double lr = 1e-3;
};

// No optimizer: p += weight · (g - p), for averages of parameters.
struct Lerp {
  double weight = 0.5;
};

using OptimizerRule =
    std::variant<SgdOptions, AdamOptions, AdagradOptions, RmspropOptions, AdadeltaOptions, AdamaxOptions, NadamOptions,
                 RadamOptions, LionOptions, LambDirection, LambApply, Lerp>;

// --- the kernels ---------------------------------------------------------------------------------------------------

// Elements read, or also written where the kernel says so.
struct ConstSlice {
  const void* data = nullptr;
  int64_t size = 0;
};
struct MutableSlice {
  void* data = nullptr;
  int64_t size = 0;
};

struct OptimizerKernels {
  // One step of a rule for every slice.
  void (*step)(Stream stream, DType dtype, const OptimizerRule& rule, const OptimizerSlice* slices, int64_t count);
  // *result = sum of |x|^p over all slices; p = 0 counts what is not 0, infinity gives the largest |x|. Accumulated in
  // f64 over fixed tiles: no overflow for f32 gradients, and the same bits for any number of threads. A NaN gives NaN.
  // result lives on the stream's device.
  void (*power_sum)(Stream stream, DType dtype, double p, const ConstSlice* slices, int64_t count, double* result);
  // results[i] = sum of x² over slice i, likewise.
  void (*squares)(Stream stream, DType dtype, const ConstSlice* slices, int64_t count, double* results);
  // x *= factor in place.
  void (*scale)(Stream stream, DType dtype, const MutableSlice* slices, int64_t count, double factor);
  // The same, and *found_inf becomes 1 where an x is infinite or NaN before or after; else it stays. It lives on the
  // stream's device.
  void (*unscale)(Stream stream, DType dtype, const MutableSlice* slices, int64_t count, double factor,
                  float* found_inf);
};

namespace cpu {
extern const OptimizerKernels optimizer_kernels;
}

}  // namespace weft
