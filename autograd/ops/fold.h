// Windows of an image as columns of a matrix, and back: torch.nn.functional's unfold and fold.
//
//   Tensor columns = im2col(x, {.kernel = {3, 3}, .padding = {1, 1}});     // [N, C · 9, H · W]
//   Tensor y = matmul(weight.reshape({out, -1}), columns);                 // a convolution
#pragma once
#include <array>

#include "tensor/tensor.h"

namespace weft {

struct FoldOptions {
  std::array<int64_t, 2> kernel = {1, 1};
  std::array<int64_t, 2> stride = {1, 1};
  std::array<int64_t, 2> padding = {0, 0};  // zeros, at both ends
  std::array<int64_t, 2> dilation = {1, 1};
};

// x [N, C, H, W] or [C, H, W] → [N, C · kh · kw, L]: column l is window number l, row by row, with the channel as the
// slowest index within a column.
Tensor im2col(const Tensor& x, FoldOptions options);
// columns [N, C · kh · kw, L] or [C · kh · kw, L] → [N, C, H, W] for output_size {H, W}: every element is the sum of what
// the windows hold of it; the adjoint of im2col.
Tensor col2im(const Tensor& columns, std::array<int64_t, 2> output_size, FoldOptions options);

}  // namespace weft
