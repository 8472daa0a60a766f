// Views: other shapes and strides over the same memory. Tensor has the methods (tensor/tensor.h); these are the free
// functions, and what copies: contiguous, clone and casts.
#pragma once
#include "tensor/tensor.h"

namespace weft {

// `shape` with one size -1 filled in. A view where the strides allow it, else a copy.
Tensor reshape(const Tensor& x, const Shape& shape);
Tensor flatten(const Tensor& x, int64_t start = 0, int64_t end = -1);
Tensor permute(const Tensor& x, const Shape& dims);
Tensor transpose(const Tensor& x, int64_t a, int64_t b);
Tensor unsqueeze(const Tensor& x, int64_t dim);
Tensor squeeze(const Tensor& x);
Tensor squeeze(const Tensor& x, int64_t dim);
// Broadcasts sizes of 1; -1 keeps a size; new dimensions come first.
Tensor expand(const Tensor& x, const Shape& shape);
// Elements start, start + step, … before stop of `dim`; negative positions count from the end, as in Python.
Tensor slice(const Tensor& x, int64_t dim, std::optional<int64_t> start, std::optional<int64_t> stop, int64_t step = 1);
Tensor narrow(const Tensor& x, int64_t dim, int64_t start, int64_t length);
// One index of `dim`, which disappears.
Tensor select(const Tensor& x, int64_t dim, int64_t index);
// The diagonal of two dimensions, as the last one.
Tensor diagonal(const Tensor& x, int64_t offset = 0, int64_t dim1 = 0, int64_t dim2 = 1);
// Any strided view; backward adds where elements overlap. Throws when it would leave the storage.
Tensor as_strided(const Tensor& x, const Shape& shape, const Strides& strides, int64_t offset);

}  // namespace weft
