// Convolution and pooling over images, NCHW.
#pragma once
#include <array>

#include "tensor/tensor.h"

namespace weft {

struct Conv2dOptions {
  std::array<int64_t, 2> stride = {1, 1};
  std::array<int64_t, 2> padding = {0, 0};  // zeros, at both ends
  std::array<int64_t, 2> dilation = {1, 1};
  int64_t groups = 1;
};

// Cross-correlation, as everywhere in deep learning. x [N, C, H, W] or [C, H, W], weight [O, C / groups, kh, kw], bias [O]
// or undefined → [N, O, H', W'] with H' = (H + 2·padding - dilation·(kh - 1) - 1) / stride + 1, rounded down. A kernel
// larger than the padded input is an error.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, Conv2dOptions options = {});

struct Pool2dOptions {
  std::array<int64_t, 2> kernel = {2, 2};
  std::array<int64_t, 2> stride = {0, 0};  // 0: the kernel's size
  std::array<int64_t, 2> padding = {0, 0};
  std::array<int64_t, 2> dilation = {1, 1};  // max_pool2d only
  bool ceil_mode = false;                    // round the output size up
  bool count_include_pad = true;             // avg_pool2d only: padding counts in the mean
};

// The largest element of each window; NaN wins. x [N, C, H, W] or [C, H, W].
Tensor max_pool2d(const Tensor& x, Pool2dOptions options = {});
// The same with the place of each, i64, counted within its H × W plane.
std::pair<Tensor, Tensor> max_pool2d_with_indices(const Tensor& x, Pool2dOptions options = {});
Tensor avg_pool2d(const Tensor& x, Pool2dOptions options = {});

}  // namespace weft
