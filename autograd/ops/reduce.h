// Reductions: PyTorch's names, dimensions and results.
//
//   Tensor total = sum(x);                          // everything, a 0-d tensor
//   Tensor rows = mean(x, {-1}, /*keepdim=*/true);
//   auto [values, indices] = max(x, 1);
//
// `dims` lists the dimensions that go (negative ones count from the end; none: all); with keepdim they stay with size 1.
// Half-precision inputs accumulate in f32 and are rounded once. Over no elements a reduction gives its neutral element
// (mean, var, std: NaN); one that has none (max, min, argmax …) throws. NaN wins in max and min. Differentiable any
// number of times where the result is floating point, except argmax, argmin, all and any.
#pragma once
#include "tensor/tensor.h"

namespace weft {

struct ValuesAndIndices {
  Tensor values;
  Tensor indices;  // i64
};

// Integers and bool add and multiply in i64 and stay there. An f32 sum is off by at most 38 · 2^-24 · sum(|x|) whatever its
// length, and by the rounding of the result: on the CPU short blocks add up in f32 (32 terms a lane, four lanes' sums,
// the lanes of a vector) and blocks in f64; devices add in f64.
Tensor sum(const Tensor& x, const Shape& dims = {}, bool keepdim = false);
Tensor prod(const Tensor& x, const Shape& dims = {}, bool keepdim = false);
// Floating point only.
Tensor mean(const Tensor& x, const Shape& dims = {}, bool keepdim = false);
// Sum of squared distances from the mean over max(0, n - correction). Floating point only.
Tensor var(const Tensor& x, const Shape& dims = {}, double correction = 1, bool keepdim = false);
Tensor std(const Tensor& x, const Shape& dims = {}, double correction = 1, bool keepdim = false);  // gradient at 0: 0

// Equal extremes share the gradient evenly.
Tensor amax(const Tensor& x, const Shape& dims = {}, bool keepdim = false);
Tensor amin(const Tensor& x, const Shape& dims = {}, bool keepdim = false);
Tensor max(const Tensor& x);
Tensor min(const Tensor& x);
// With the index of the first occurrence, to which the whole gradient goes.
ValuesAndIndices max(const Tensor& x, int64_t dim, bool keepdim = false);
ValuesAndIndices min(const Tensor& x, int64_t dim, bool keepdim = false);
// i64 indices of the first extreme; without a dimension, into the flattened tensor.
Tensor argmax(const Tensor& x);
Tensor argmin(const Tensor& x);
Tensor argmax(const Tensor& x, int64_t dim, bool keepdim = false);
Tensor argmin(const Tensor& x, int64_t dim, bool keepdim = false);

// log(sum(exp(x))) without overflow; integers become f32. A row of nothing but -inf gives -inf and a gradient of 0.
Tensor logsumexp(const Tensor& x, const Shape& dims = {}, bool keepdim = false);
// Vector norm (sum |x|^p)^(1/p); p = 0 counts non-zeros, p = ±inf takes the largest and smallest |x|. The gradient where
// the norm is 0 is 0. Floating point only.
Tensor norm(const Tensor& x, double p = 2, const Shape& dims = {}, bool keepdim = false);

// bool; NaN counts as true.
Tensor all(const Tensor& x, const Shape& dims = {}, bool keepdim = false);
Tensor any(const Tensor& x, const Shape& dims = {}, bool keepdim = false);

// Running sums and products along one dimension; integers and bool in i64.
Tensor cumsum(const Tensor& x, int64_t dim);
Tensor cumprod(const Tensor& x, int64_t dim);

}  // namespace weft
