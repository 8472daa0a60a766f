#include "nn/layers/pool.h"

#include "autograd/ops/ops.h"

namespace weft::nn {

Tensor MaxPool1d::forward(const Tensor& x) { return max_pool1d(x, options_); }
Tensor MaxPool2d::forward(const Tensor& x) { return max_pool2d(x, options_); }
Tensor AvgPool1d::forward(const Tensor& x) { return avg_pool1d(x, options_); }
Tensor AvgPool2d::forward(const Tensor& x) { return avg_pool2d(x, options_); }
Tensor AdaptiveAvgPool1d::forward(const Tensor& x) { return adaptive_avg_pool1d(x, options_.output_size); }
Tensor AdaptiveAvgPool2d::forward(const Tensor& x) { return adaptive_avg_pool2d(x, options_.output_size); }
Tensor AdaptiveMaxPool2d::forward(const Tensor& x) { return adaptive_max_pool2d(x, options_.output_size); }
Tensor Upsample::forward(const Tensor& x) { return interpolate(x, options_); }
Tensor Unfold::forward(const Tensor& x) { return im2col(x, options_); }
Tensor Fold::forward(const Tensor& columns) { return col2im(columns, output_size_, options_); }

}  // namespace weft::nn
