// What the ops that read and write by index share: checks of indices, and the layouts their kernels walk.
#pragma once
#include "kernels/table.h"
#include "tensor/tensor.h"

namespace weft::detail {

inline const IndexKernels& index_kernels(const Tensor& x, const char* op) {
  return kernel_table(x.device().type, op).index;
}

// Indices into x as contiguous i64, each checked to be in [0, size) unless on the meta device.
Tensor checked_index(const char* op, const Tensor& x, const Tensor& index, int64_t size);
// One dimension of positions in [-size, size), the negative ones counted from the end; checked as above.
Tensor wrapped_index(const char* op, const Tensor& x, const Tensor& index, int64_t size);

// dtypes that sums over repeated positions are made in.
inline DType sum_dtype(DType dtype) {
  if (dtype == DType::f64) return DType::f64;
  return is_floating(dtype) ? DType::f32 : DType::i64;
}

// The index fits x in all dimensions but `dim`.
void check_gather_shapes(const char* op, const Tensor& x, int dim, const Tensor& index);
// Walks the index with both tensors; `indexed` (0 or 2) is the operand whose dimension `dim` the index replaces.
Layout<3> gather_layout(const Tensor& first, const Tensor& index, const Tensor& last, int dim, int indexed);

inline int64_t step_along(const Tensor& x, int dim) { return x.dim() ? x.stride(dim) : 0; }
inline int64_t size_along(const Tensor& x, int dim) { return x.dim() ? x.size(dim) : 1; }

}  // namespace weft::detail
