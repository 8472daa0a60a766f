// Two-dimensional convolution and pooling over NCHW arrays; a 1-d caller passes height 1.
//
//   Conv2dShape shape;  shape.batch = 64;  shape.in_channels = 1;  shape.in_height = shape.in_width = 28;
//   shape.out_channels = 32;  shape.kernel_height = shape.kernel_width = 3;
//   conv_kernels.conv2d_forward(stream, f32, shape, x, weight, bias, y);  // y: [64, 32, 26, 26]
//
// Arrays are dense: input [N, C, H, W], weight [O, C / groups, kH, kW], bias [O], output [N, O, oH, oW]. dtype is f32 or
// f64; f32 runs on oneDNN, one thread a tile of images or, of one large image, of channels. Callers check shapes; a size
// of zero is fine. Every result is overwritten, none is added to, and none depends on the number of threads: work is cut
// by the shape alone, and the gradient of the weight adds its tiles in a fixed order.
#pragma once
#include <cstdint>

#include "kernels/base/dtype.h"
#include "kernels/base/stream.h"

namespace weft {

struct Conv2dShape {
  int64_t batch = 1, in_channels = 1, in_height = 1, in_width = 1;
  int64_t out_channels = 1, kernel_height = 1, kernel_width = 1;
  int64_t stride_height = 1, stride_width = 1;
  int64_t padding_height = 0, padding_width = 0;    // zeros on either side
  int64_t dilation_height = 1, dilation_width = 1;  // steps between the taps of the kernel
  int64_t groups = 1;                               // divides in_channels and out_channels

  // floor((size + 2·padding − dilation·(kernel − 1) − 1) / stride) + 1
  int64_t out_height() const {
    return (in_height + 2 * padding_height - dilation_height * (kernel_height - 1) - 1) / stride_height + 1;
  }
  int64_t out_width() const {
    return (in_width + 2 * padding_width - dilation_width * (kernel_width - 1) - 1) / stride_width + 1;
  }
};

struct Pool2dShape {
  int64_t planes = 1;  // batch × channels
  int64_t in_height = 1, in_width = 1;
  int64_t kernel_height = 1, kernel_width = 1;
  int64_t stride_height = 1, stride_width = 1;
  int64_t padding_height = 0, padding_width = 0;    // at most half the kernel
  int64_t dilation_height = 1, dilation_width = 1;  // average pooling has none
  bool ceil_mode = false;                           // keep a last window that only partly fits
  bool count_include_pad = true;                    // average: padding counts in the divisor
  int64_t divisor_override = 0;                     // average: divide by this instead, unless 0
  // Adaptive: window o of n is the elements from floor(o · size / n) to ceil((o + 1) · size / n), and of the above only
  // the input's size counts.
  bool adaptive = false;
  int64_t adaptive_height = 1, adaptive_width = 1;  // of the output

  int64_t out_height() const {
    return adaptive ? adaptive_height
                    : out_size(in_height, kernel_height, stride_height, padding_height, dilation_height);
  }
  int64_t out_width() const {
    return adaptive ? adaptive_width : out_size(in_width, kernel_width, stride_width, padding_width, dilation_width);
  }

 private:
  int64_t out_size(int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) const {
    const int64_t room = size + 2 * padding - dilation * (kernel - 1) - 1;
    const int64_t count = (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
    // A window must begin inside the input or its left padding.
    return ceil_mode && (count - 1) * stride >= size + padding ? count - 1 : count;
  }
};

struct ConvKernels {
  // output = input ⋆ weight (+ bias, which may be null).
  void (*conv2d_forward)(Stream stream, DType dtype, const Conv2dShape& shape, const void* input, const void* weight,
                         const void* bias, void* output);
  // The gradient of the input; taken as a function of grad_output, this is also the transposed convolution.
  void (*conv2d_backward_input)(Stream stream, DType dtype, const Conv2dShape& shape, const void* grad_output,
                                const void* weight, void* grad_input);
  // The gradients of the weight and, unless grad_bias is null, of the bias.
  void (*conv2d_backward_weight)(Stream stream, DType dtype, const Conv2dShape& shape, const void* input,
                                 const void* grad_output, void* grad_weight, void* grad_bias);

  // Pooling on devices also takes bf16 and f16, with sums in f32.
  // indices[i] is where in its H×W plane output[i] was found: row · W + column, the first of equals. A NaN wins.
  // Padding never does.
  void (*max_pool2d_forward)(Stream stream, DType dtype, const Pool2dShape& shape, const void* input, void* output,
                             int64_t* indices);
  void (*max_pool2d_backward)(Stream stream, DType dtype, const Pool2dShape& shape, const void* grad_output,
                              const int64_t* indices, void* grad_input);
  void (*avg_pool2d_forward)(Stream stream, DType dtype, const Pool2dShape& shape, const void* input, void* output);
  void (*avg_pool2d_backward)(Stream stream, DType dtype, const Pool2dShape& shape, const void* grad_output,
                              void* grad_input);
};

namespace cpu {
extern const ConvKernels conv_kernels;
}

}  // namespace weft
