// Optimizer steps over a whole list of parameters in one launch, and what gradient clipping needs.
//
//   std::vector<AdamSlice> slices = …;   // a slice is a parameter or a piece of one
//   weft::cpu::optimizer_kernels.adam(stream, f32, {.lr = 1e-3, .decoupled = true}, slices.data(), slices.size());
//
// All slices of a launch are of one dtype and do not overlap: f32 or f64, on devices also bf16 and f16, which are computed
// in f32 and rounded when stored. Work is cut into tiles over all of them, so thousands of small parameters cost no more
// than a large one. The lists themselves are read before a function returns.
#pragma once
#include <cstdint>

#include "kernels/base/dtype.h"
#include "kernels/base/stream.h"

namespace weft {

struct AdamSlice {
  void* param = nullptr;
  const void* grad = nullptr;
  void* exp_avg = nullptr;
  void* exp_avg_sq = nullptr;
  void* max_exp_avg_sq = nullptr;  // the AMSGrad variant when set
  int64_t size = 0;
  int64_t step = 1;  // the step being taken, counted from 1 for each parameter, also after a resume
};

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;  // true: AdamW
  bool maximize = false;
};

struct SgdSlice {
  void* param = nullptr;
  const void* grad = nullptr;
  void* momentum_buffer = nullptr;  // needed when momentum != 0
  int64_t size = 0;
  bool first = false;  // the buffer starts as the gradient
};

struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool maximize = false;
};

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
  // Adam (Kingma and Ba 2015, arXiv:1412.6980), AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101), AMSGrad (Reddi et
  // al. 2018, arXiv:1904.09237), in torch's form: m += (1 - beta1)(g - m), v = beta2 v + (1 - beta2) g²,
  // p -= lr / (1 - beta1^step) · m / (sqrt(v) / sqrt(1 - beta2^step) + eps); decoupled decay first shrinks p by
  // 1 - lr · weight_decay, otherwise weight_decay · p is added to g. Where m is 0 nothing is added (0 / 0 gives no NaN).
  void (*adam)(Stream stream, DType dtype, const AdamOptions& options, const AdamSlice* slices, int64_t count);
  // g += weight_decay · p; b = first ? g : momentum · b + (1 - dampening) g; p -= lr · (nesterov ? g + momentum · b : b).
  void (*sgd)(Stream stream, DType dtype, const SgdOptions& options, const SgdSlice* slices, int64_t count);
  // *result = sum of x² over all slices, accumulated in f64 over fixed tiles: no overflow for f32 gradients, and the same
  // bits for any number of threads. result lives on the stream's device.
  void (*sum_of_squares)(Stream stream, DType dtype, const ConstSlice* slices, int64_t count, double* result);
  // x *= factor in place.
  void (*scale)(Stream stream, DType dtype, const MutableSlice* slices, int64_t count, double factor);
};

namespace cpu {
extern const OptimizerKernels optimizer_kernels;
}

}  // namespace weft
