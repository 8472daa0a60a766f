// Lengths and angles of vectors.
//
//   Tensor scores = matmul(normalize(queries, 2, 1), normalize(keys, 2, 1).t());
//
// f16 and bf16 are computed in f32 and rounded once.
#pragma once
#include "tensor/tensor.h"

namespace weft {

// The cosine of the angle between the vectors along `dim` of a and b, which broadcast; `dim` disappears from the result.
// sum(a · b) / (max(|a|, eps) · max(|b|, eps)).
Tensor cosine_similarity(const Tensor& a, const Tensor& b, int64_t dim = 1, double eps = 1e-8);
// x / max(|x|, eps), with the p-norm along `dim`.
Tensor normalize(const Tensor& x, double p = 2, int64_t dim = 1, double eps = 1e-12);

}  // namespace weft
