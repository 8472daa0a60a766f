// Convolution on the emulator: what cuDNN does on a GPU, the CPU's library does here; bf16 and f16 by way of f32. The
// pools are kernels of our own (kernels/conv/pool.cu).
#include "kernels/conv/conv.h"

#include "kernels/conv/pool_device.h"
#include "kernels/device_table.h"
#include "kernels/simt/float_copy.h"
#include "kernels/simt/submit.h"

namespace weft::simt {
namespace {

ArrayShape input_shape(const Conv2dShape& s) {
  return ArrayShape::dense(s.batch * s.in_channels * s.in_height * s.in_width);
}
ArrayShape weight_shape(const Conv2dShape& s) {
  return ArrayShape::dense(s.out_channels * (s.in_channels / s.groups) * s.kernel_height * s.kernel_width);
}
ArrayShape output_shape(const Conv2dShape& s) {
  return ArrayShape::dense(s.batch * s.out_channels * s.out_height() * s.out_width());
}
ArrayShape bias_shape(const Conv2dShape& s, const void* bias) { return ArrayShape::dense(bias ? s.out_channels : 0); }

void conv2d_forward(Stream stream, DType dtype, const Conv2dShape& shape, const void* input, const void* weight,
                    const void* bias, void* output) {
  submit(stream, [=] {
    if (!is_half(dtype)) return cpu::conv_kernels.conv2d_forward({}, dtype, shape, input, weight, bias, output);
    const FloatCopy x(dtype, input, input_shape(shape)), w(dtype, weight, weight_shape(shape));
    const FloatCopy b(dtype, bias, bias_shape(shape, bias)), y(output_shape(shape));
    cpu::conv_kernels.conv2d_forward({}, f32, shape, x.data(), w.data(), bias ? b.data() : nullptr, y.data());
    y.store(dtype, output);
  });
}

void conv2d_backward_input(Stream stream, DType dtype, const Conv2dShape& shape, const void* grad_output,
                           const void* weight, void* grad_input) {
  submit(stream, [=] {
    if (!is_half(dtype))
      return cpu::conv_kernels.conv2d_backward_input({}, dtype, shape, grad_output, weight, grad_input);
    const FloatCopy g(dtype, grad_output, output_shape(shape)), w(dtype, weight, weight_shape(shape));
    const FloatCopy result(input_shape(shape));
    cpu::conv_kernels.conv2d_backward_input({}, f32, shape, g.data(), w.data(), result.data());
    result.store(dtype, grad_input);
  });
}

void conv2d_backward_weight(Stream stream, DType dtype, const Conv2dShape& shape, const void* input,
                            const void* grad_output, void* grad_weight, void* grad_bias) {
  submit(stream, [=] {
    if (!is_half(dtype))
      return cpu::conv_kernels.conv2d_backward_weight({}, dtype, shape, input, grad_output, grad_weight, grad_bias);
    const FloatCopy x(dtype, input, input_shape(shape)), g(dtype, grad_output, output_shape(shape));
    const FloatCopy w(weight_shape(shape)), b(bias_shape(shape, grad_bias));
    cpu::conv_kernels.conv2d_backward_weight({}, f32, shape, x.data(), g.data(), w.data(),
                                             grad_bias ? b.data() : nullptr);
    w.store(dtype, grad_weight);
    if (grad_bias) b.store(dtype, grad_bias);
  });
}

}  // namespace

extern const ConvKernels conv_kernels = {
    .conv2d_forward = conv2d_forward,
    .conv2d_backward_input = conv2d_backward_input,
    .conv2d_backward_weight = conv2d_backward_weight,
    .max_pool2d_forward = max_pool2d_forward,
    .max_pool2d_backward = max_pool2d_backward,
    .avg_pool2d_forward = avg_pool2d_forward,
    .avg_pool2d_backward = avg_pool2d_backward,
};

}  // namespace weft::simt
