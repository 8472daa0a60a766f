// Pooling over sequences and images: a window moves over each channel, and each of its places gives one element.
//
//   Tensor halved = max_pool2d(x);                              // windows of 2 × 2, side by side
//   Tensor one = adaptive_avg_pool2d(x, {1, 1});                // [N, C, 1, 1]: the mean of each channel
//
// x is [N, C, H, W] or [C, H, W]; [N, C, L] or [C, L] where the name ends in 1d. f64, f32, f16 or bf16.
#pragma once
#include <array>
#include <utility>

#include "tensor/tensor.h"

namespace weft {

struct Pool2dOptions {
  std::array<int64_t, 2> kernel = {2, 2};
  std::array<int64_t, 2> stride = {0, 0};    // 0: the kernel's size
  std::array<int64_t, 2> padding = {0, 0};   // at most half the kernel
  std::array<int64_t, 2> dilation = {1, 1};  // max_pool2d only
  bool ceil_mode = false;                    // round the output size up
  bool count_include_pad = true;             // avg_pool2d only: padding counts in the mean
  int64_t divisor_override = 0;              // avg_pool2d only: divide by this instead, unless 0
};

struct Pool1dOptions {
  int64_t kernel = 2;
  int64_t stride = 0;  // 0: the kernel's size
  int64_t padding = 0;
  int64_t dilation = 1;  // max_pool1d only
  bool ceil_mode = false;
  bool count_include_pad = true;  // avg_pool1d only
};

// The largest element of each window; NaN wins, and padding never does. H' = (H + 2·padding - dilation·(kernel - 1) - 1) /
// stride + 1, rounded down, or up in ceil_mode unless the last window would begin in the padding.
Tensor max_pool2d(const Tensor& x, Pool2dOptions options = {});
Tensor max_pool1d(const Tensor& x, Pool1dOptions options = {});
// The same with the place of each, i64, counted within its H × W plane; the first of equals.
std::pair<Tensor, Tensor> max_pool2d_with_indices(const Tensor& x, Pool2dOptions options = {});
std::pair<Tensor, Tensor> max_pool1d_with_indices(const Tensor& x, Pool1dOptions options = {});
// The mean of each window.
Tensor avg_pool2d(const Tensor& x, Pool2dOptions options = {});
Tensor avg_pool1d(const Tensor& x, Pool1dOptions options = {});

// Pooling to a given size: window o of n covers the elements from floor(o · size / n) to ceil((o + 1) · size / n). -1
// keeps the input's size.
Tensor adaptive_avg_pool2d(const Tensor& x, std::array<int64_t, 2> output_size);
Tensor adaptive_avg_pool1d(const Tensor& x, int64_t output_size);
Tensor adaptive_max_pool2d(const Tensor& x, std::array<int64_t, 2> output_size);
Tensor adaptive_max_pool1d(const Tensor& x, int64_t output_size);
std::pair<Tensor, Tensor> adaptive_max_pool2d_with_indices(const Tensor& x, std::array<int64_t, 2> output_size);

}  // namespace weft
