#include "nn/layers/shape.h"

#include "autograd/ops/ops.h"

namespace weft::nn {

Tensor Flatten::forward(const Tensor& x) { return x.flatten(options_.start_dim, options_.end_dim); }

Tensor Unflatten::forward(const Tensor& x) {
  const int64_t dim = options_.dim < 0 ? options_.dim + x.dim() : options_.dim;
  WEFT_CHECK(dim >= 0 && dim < x.dim(), "Unflatten", "dimension {} is out of range for {}", options_.dim, describe(x));
  // A -1 in the new sizes is resolved within this dimension, so that others may be 0.
  Shape shape, sizes = options_.unflattened_size;
  int64_t known = 1;
  int open = -1;
  for (int d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == -1 && open < 0)
      open = d;
    else
      known *= sizes[d];
  }
  if (open >= 0 && known > 0) sizes[open] = x.size(dim) / known;
  WEFT_CHECK(sizes.numel() == x.size(dim), "Unflatten", "dimension {} of {} does not split into {}", options_.dim,
             describe(x), options_.unflattened_size);
  for (int d = 0; d < dim; ++d) shape.push_back(x.size(d));
  for (int d = 0; d < sizes.size(); ++d) shape.push_back(sizes[d]);
  for (int d = static_cast<int>(dim) + 1; d < x.dim(); ++d) shape.push_back(x.size(d));
  return x.reshape(shape);
}

}  // namespace weft::nn
