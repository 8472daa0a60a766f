// Softmax and its logarithm along one dimension.
#pragma once
#include "tensor/tensor.h"

namespace weft {

// exp(x) / sum(exp(x)) along `dim`, computed from x - max(x): entries of -inf have probability 0; a row of -inf alone
// is NaN. f16 and bf16 are computed in f32. Any shape; the result has x's dtype.
Tensor softmax(const Tensor& x, int64_t dim);
Tensor log_softmax(const Tensor& x, int64_t dim);

}  // namespace weft
