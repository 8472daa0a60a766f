#include "nn/layers/conv.h"

#include <cmath>

#include "autograd/ops/ops.h"
#include "nn/init.h"

namespace weft::nn {
namespace {

void check_channels(const char* type, int64_t in, int64_t out, int64_t groups) {
  WEFT_CHECK(in >= 0 && out >= 0 && groups > 0 && in % groups == 0 && out % groups == 0, type,
             "{} input and {} output channels do not split into {} groups", in, out, groups);
}

// [channels, in / groups, kernel..] of a convolution; a transposed one has its input's channels first.
Tensor initial_weight(const Shape& shape, DType dtype) {
  const Tensor weight = empty(shape, dtype);
  init::kaiming_uniform_(weight, std::sqrt(5.0));
  return weight;
}
Tensor initial_bias(bool wanted, int64_t size, const Tensor& weight) {
  if (!wanted) return {};
  const Tensor bias = zeros({size}, weight.dtype());
  const int64_t inputs = init::fan_in(weight);
  const double bound = inputs > 0 ? 1 / std::sqrt(static_cast<double>(inputs)) : 0;
  init::uniform_(bias, -bound, bound);
  return bias;
}

// (before, after) of one dimension, as pad() takes them.
void push_padding(std::vector<int64_t>& amounts, bool same, int64_t padding, int64_t dilation, int64_t kernel) {
  const int64_t total = same ? dilation * (kernel - 1) : 2 * padding;
  amounts.push_back(total / 2);
  amounts.push_back(total - total / 2);
}

}  // namespace

Conv2d::Conv2d(ModuleBase* parent, std::string name, Conv2dOptions options)
    : Module(parent, std::move(name)), options_(std::move(options)) {
  const Conv2dOptions& o = options_;
  check_channels("Conv2d", o.in, o.out, o.groups);
  register_parameter("weight", weight, initial_weight({o.out, o.in / o.groups, o.kernel[0], o.kernel[1]}, o.dtype));
  register_parameter("bias", bias, initial_bias(o.bias, o.out, weight));
}

Tensor Conv2d::forward(const Tensor& x) {
  const Conv2dOptions& o = options_;
  if (o.padding_mode == "zeros")
    return conv2d(x, weight, bias,
                  {.stride = o.stride,
                   .padding = o.padding,
                   .dilation = o.dilation,
                   .groups = o.groups,
                   .same_padding = o.same_padding});
  std::vector<int64_t> amounts;  // the last dimension first
  for (const size_t i : {1u, 0u}) push_padding(amounts, o.same_padding, o.padding[i], o.dilation[i], o.kernel[i]);
  return conv2d(pad(x, amounts, o.padding_mode), weight, bias,
                {.stride = o.stride, .dilation = o.dilation, .groups = o.groups});
}

Conv1d::Conv1d(ModuleBase* parent, std::string name, Conv1dOptions options)
    : Module(parent, std::move(name)), options_(std::move(options)) {
  const Conv1dOptions& o = options_;
  check_channels("Conv1d", o.in, o.out, o.groups);
  register_parameter("weight", weight, initial_weight({o.out, o.in / o.groups, o.kernel}, o.dtype));
  register_parameter("bias", bias, initial_bias(o.bias, o.out, weight));
}

Tensor Conv1d::forward(const Tensor& x) {
  const Conv1dOptions& o = options_;
  if (o.padding_mode == "zeros")
    return conv1d(x, weight, bias,
                  {.stride = o.stride,
                   .padding = o.padding,
                   .dilation = o.dilation,
                   .groups = o.groups,
                   .same_padding = o.same_padding});
  std::vector<int64_t> amounts;
  push_padding(amounts, o.same_padding, o.padding, o.dilation, o.kernel);
  return conv1d(pad(x, amounts, o.padding_mode), weight, bias,
                {.stride = o.stride, .dilation = o.dilation, .groups = o.groups});
}

ConvTranspose2d::ConvTranspose2d(ModuleBase* parent, std::string name, ConvTranspose2dOptions options)
    : Module(parent, std::move(name)), options_(options) {
  const ConvTranspose2dOptions& o = options_;
  check_channels("ConvTranspose2d", o.in, o.out, o.groups);
  register_parameter("weight", weight, initial_weight({o.in, o.out / o.groups, o.kernel[0], o.kernel[1]}, o.dtype));
  register_parameter("bias", bias, initial_bias(o.bias, o.out, weight));
}

Tensor ConvTranspose2d::forward(const Tensor& x) {
  return conv_transpose2d(x, weight, bias,
                          {.stride = options_.stride,
                           .padding = options_.padding,
                           .output_padding = options_.output_padding,
                           .dilation = options_.dilation,
                           .groups = options_.groups});
}

ConvTranspose1d::ConvTranspose1d(ModuleBase* parent, std::string name, ConvTranspose1dOptions options)
    : Module(parent, std::move(name)), options_(options) {
  const ConvTranspose1dOptions& o = options_;
  check_channels("ConvTranspose1d", o.in, o.out, o.groups);
  register_parameter("weight", weight, initial_weight({o.in, o.out / o.groups, o.kernel}, o.dtype));
  register_parameter("bias", bias, initial_bias(o.bias, o.out, weight));
}

Tensor ConvTranspose1d::forward(const Tensor& x) {
  return conv_transpose1d(x, weight, bias,
                          {.stride = options_.stride,
                           .padding = options_.padding,
                           .output_padding = options_.output_padding,
                           .dilation = options_.dilation,
                           .groups = options_.groups});
}

}  // namespace weft::nn
