// Convolution over images, NCHW, and over sequences, NCL; transposed convolution.
//
//   Tensor y = conv2d(x, weight, bias, {.stride = {2, 2}, .padding = {1, 1}});
//
// Without its first dimension x is a single image or sequence, and so is the result. f64, f32, f16 or bf16.
#pragma once
#include <array>

#include "tensor/tensor.h"

namespace weft {

struct Conv2dOptions {
  std::array<int64_t, 2> stride = {1, 1};
  std::array<int64_t, 2> padding = {0, 0};  // zeros, at both ends
  std::array<int64_t, 2> dilation = {1, 1};
  int64_t groups = 1;
  // Pads so that the output has the input's size, one zero more at the end where the number is odd; stride 1, and
  // `padding` does not count.
  bool same_padding = false;
};

// Cross-correlation, as everywhere in deep learning. x [N, C, H, W], weight [O, C / groups, kh, kw], bias [O] or undefined
// → [N, O, H', W'] with H' = (H + 2·padding - dilation·(kh - 1) - 1) / stride + 1, rounded down. A kernel larger than the
// padded input is an error.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, Conv2dOptions options = {});

struct Conv1dOptions {
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t dilation = 1;
  int64_t groups = 1;
  bool same_padding = false;  // as in Conv2dOptions
};

// x [N, C, L], weight [O, C / groups, k], bias [O] or undefined → [N, O, L'].
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, Conv1dOptions options = {});

struct ConvTranspose2dOptions {
  std::array<int64_t, 2> stride = {1, 1};
  std::array<int64_t, 2> padding = {0, 0};         // taken off both ends of the output
  std::array<int64_t, 2> output_padding = {0, 0};  // added at the end; below the stride or the dilation
  std::array<int64_t, 2> dilation = {1, 1};
  int64_t groups = 1;
};

// The gradient of conv2d by its input, as an op of its own ("deconvolution"). x [N, C, H, W], weight [C, O / groups, kh,
// kw], bias [O] or undefined → [N, O, H', W'] with H' = (H - 1)·stride - 2·padding + dilation·(kh - 1) + output_padding +
// 1.
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        ConvTranspose2dOptions options = {});

struct ConvTranspose1dOptions {
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t output_padding = 0;
  int64_t dilation = 1;
  int64_t groups = 1;
};

// x [N, C, L], weight [C, O / groups, k], bias [O] or undefined → [N, O, L'].
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        ConvTranspose1dOptions options = {});

}  // namespace weft
