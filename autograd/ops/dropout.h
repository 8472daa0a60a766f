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
// Whole channels are zeroed or kept: x [N, C, L] or [C, L], and [N, C, H, W] or [C, H, W] (Tompson et al. 2015,
// arXiv:1411.4280). The mask has an element a channel.
Tensor dropout1d(const Tensor& x, double p, bool training = true);
Tensor dropout2d(const Tensor& x, double p, bool training = true);
// For networks of selu: what is dropped becomes selu's limit -1.7581 instead of 0, and the result is scaled and shifted
// so that mean 0 and variance 1 are kept (Klambauer et al. 2017, arXiv:1706.02515).
Tensor alpha_dropout(const Tensor& x, double p, bool training = true);

}  // namespace weft
