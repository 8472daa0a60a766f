// Dropout (Srivastava et al. 2014), keyed so that the mask of a sample does not depend on how many ranks there are.
#pragma once
#include "tensor/tensor.h"

namespace weft {

// Zeroes each element with probability p and scales the others by 1 / (1 - p); x itself when not training or p == 0.
// Element i of the mask is drawn from Philox keyed by random_stream() (seed, step, op) and the global element number:
// dim 0 counts samples from random_stream().sample_offset on. Each call takes the next op number.
Tensor dropout(const Tensor& x, double p, bool training = true);
// x · mask / (1 - p) with a given mask of the same shape.
Tensor dropout_with_mask(const Tensor& x, const Tensor& mask, double p);

}  // namespace weft
