// Gradient clipping.
#pragma once
#include <vector>

#include "tensor/tensor.h"

namespace weft::optim {

struct ClipOptions {
  double norm_type = 2;  // infinity: the largest magnitude
  bool error_if_nonfinite = false;
};

// Scales all gradients by min(1, max_norm / (norm + 1e-6)), norm being the norm_type-norm of all of them together, taken
// in f64 by one launch and read from the device once; returns that norm. Parameters without a gradient do not count. A norm that is not finite is an error, with the
// gradients untouched, or (as in torch) scales all the same.
double clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, ClipOptions options = {});
// The norm alone.
double grad_norm(const std::vector<Tensor>& parameters, double norm_type = 2);
// Limits every element to ±clip_value (>= 0).
void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value);

namespace detail {
// The sum, or the largest, of what several launches found: f64 tensors [1], read once a device. NaN stays NaN.
double combine_parts(std::vector<Tensor> parts, bool largest);
}  // namespace detail

}  // namespace weft::optim
