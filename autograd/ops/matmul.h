// Matrix products.
//
//   Tensor y = matmul(a, b);                  // [.., m, k] × [.., k, n]; batches broadcast
//   Tensor y = linear(x, weight, bias);       // x · weightᵀ + bias, weight [out, in]
#pragma once
#include "tensor/tensor.h"

namespace weft {

// torch.matmul's rules: 1-d operands are vectors (their dimension disappears from the result), leading dimensions are
// batches and broadcast. f16 and bf16 are computed in f32. Integers are refused.
Tensor matmul(const Tensor& a, const Tensor& b);
// [b, m, k] × [b, k, n] without broadcasting.
Tensor bmm(const Tensor& a, const Tensor& b);
// x [.., in] · weightᵀ + bias [out] (may be undefined) → [.., out]. weight [out, in].
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});
// GPT-2's Conv1D: x [.., in] · weight + bias, weight [in, out].
Tensor linear_transposed(const Tensor& x, const Tensor& weight, const Tensor& bias = {});
// beta · input + alpha · (a × b), input broadcast to [m, n].
Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1);
Tensor outer(const Tensor& a, const Tensor& b);
Tensor dot(const Tensor& a, const Tensor& b);

}  // namespace weft
