// Convolution by cuDNN's graph interface (cudnn_graph.h). The bias, its gradient and the pools are kernels of our own.
#include "kernels/conv/conv.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "kernels/conv/pool_device.h"
#include "kernels/cuda/cudnn_graph.h"
#include "kernels/device_table.h"
#include "kernels/gemm/precision.h"

namespace weft::cuda {
namespace {

bool has_zero(const Conv2dShape& s) {
  return std::min({s.batch, s.in_channels, s.in_height, s.in_width, s.out_channels, s.kernel_height, s.kernel_width,
                   s.out_height(), s.out_width()}) <= 0;
}

int64_t common_alignment(std::initializer_list<const void*> arrays) {
  uintptr_t bits = 16;
  for (const void* array : arrays) bits |= reinterpret_cast<uintptr_t>(array);
  return static_cast<int64_t>(bits & -bits);
}

// Plans belong to a handle and thus to a thread.
void run(Stream stream, ConvolutionPass pass, DType dtype, const Conv2dShape& s, const void* input, const void* weight,
         const void* output) {
  const cudnnHandle_t handle = cudnn_handle(stream);
  const int64_t alignment = common_alignment({input, weight, output});
  const bool tf32 = dtype == DType::f32 && allow_tf32();
  using Sizes = std::array<int64_t, 14>;
  using Key = std::tuple<int, ConvolutionPass, DType, Sizes, int64_t, bool>;
  thread_local std::map<Key, ConvolutionPlan> plans;
  const Key key{stream.device.index,
                pass,
                dtype,
                {s.batch, s.in_channels, s.in_height, s.in_width, s.out_channels, s.kernel_height, s.kernel_width,
                 s.stride_height, s.stride_width, s.padding_height, s.padding_width, s.dilation_height,
                 s.dilation_width, s.groups},
                alignment,
                tf32};
  auto found = plans.find(key);
  if (found == plans.end()) {
    const RelaxedCapture relaxed;  // building may load code
    found = plans.try_emplace(key, handle, pass, s, dtype, alignment, tf32).first;
  }
  found->second.run(handle, stream, input, weight, output);
}

void fill_zero(Stream stream, DType dtype, void* data, int64_t elements) {
  if (elements <= 0) return;
  use_device(stream.device);
  WEFT_CUDA_CHECK(cudaMemsetAsync(data, 0, static_cast<size_t>(elements * size_of(dtype)), native(stream)));
}

// output[n, o, …] += bias[o], in place.
void add_bias(Stream stream, DType dtype, const Conv2dShape& s, const void* bias, void* output) {
  const int64_t pixels = s.out_height() * s.out_width();
  PointwiseArguments add;
  add.count = 3;
  add.layout.push(s.batch, {s.out_channels * pixels, 0, s.out_channels * pixels});
  add.layout.push(s.out_channels, {pixels, 1, pixels});
  add.layout.push(pixels, {1, 0, 1});
  add.layout.collapse();
  add.data = {output, bias, output};
  add.dtype = {dtype, dtype, dtype};
  add.compute = dtype == DType::f64 ? DType::f64 : DType::f32;
  pointwise_kernels.run(stream, PointwiseOp::add, PointwisePass::forward, add);
}

void conv2d_forward(Stream stream, DType dtype, const Conv2dShape& shape, const void* input, const void* weight,
                    const void* bias, void* output) {
  const int64_t elements = shape.batch * shape.out_channels * shape.out_height() * shape.out_width();
  if (elements <= 0) return;
  if (has_zero(shape))
    fill_zero(stream, dtype, output, elements);
  else
    run(stream, ConvolutionPass::forward, dtype, shape, input, weight, output);
  if (bias) add_bias(stream, dtype, shape, bias, output);
}

void conv2d_backward_input(Stream stream, DType dtype, const Conv2dShape& shape, const void* grad_output,
                           const void* weight, void* grad_input) {
  if (has_zero(shape))
    fill_zero(stream, dtype, grad_input, shape.batch * shape.in_channels * shape.in_height * shape.in_width);
  else
    run(stream, ConvolutionPass::backward_input, dtype, shape, grad_input, weight, grad_output);
}

void conv2d_backward_weight(Stream stream, DType dtype, const Conv2dShape& shape, const void* input,
                            const void* grad_output, void* grad_weight, void* grad_bias) {
  if (has_zero(shape))
    fill_zero(stream, dtype, grad_weight,
              shape.out_channels * (shape.in_channels / shape.groups) * shape.kernel_height * shape.kernel_width);
  else
    run(stream, ConvolutionPass::backward_weight, dtype, shape, input, grad_weight, grad_output);
  if (!grad_bias) return;
  const int64_t pixels = shape.out_height() * shape.out_width();
  ReduceLayout layout;
  layout.reduce(shape.batch, shape.out_channels * pixels);
  layout.keep(shape.out_channels, pixels);
  layout.reduce(pixels, 1);
  reduce_kernels.reduce(stream, Reduction::sum, dtype, grad_output, layout, grad_bias);
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

}  // namespace weft::cuda
