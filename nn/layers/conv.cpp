#include "nn/layers/conv.h"

#include <cmath>

#include "autograd/ops/ops.h"
#include "nn/init.h"

namespace weft::nn {

Conv2d::Conv2d(ModuleBase* parent, std::string name, Conv2dOptions options)
    : Module(parent, std::move(name)), options_(options) {
  WEFT_CHECK(options.groups > 0 && options.in % options.groups == 0 && options.out % options.groups == 0, "Conv2d",
             "channels in {} and out {} must be multiples of groups {}", options.in, options.out, options.groups);
  register_parameter(
      "weight", weight,
      empty({options.out, options.in / options.groups, options.kernel[0], options.kernel[1]}, options.dtype));
  init::kaiming_uniform_(weight, std::sqrt(5.0));
  register_parameter("bias", bias, options.bias ? zeros({options.out}, options.dtype) : Tensor());
  const int64_t inputs = init::fan_in(weight);
  const double bound = inputs > 0 ? 1 / std::sqrt(static_cast<double>(inputs)) : 0;
  if (options.bias) init::uniform_(bias, -bound, bound);
}

Tensor Conv2d::forward(const Tensor& x) {
  return conv2d(x, weight, bias,
                {.stride = options_.stride,
                 .padding = options_.padding,
                 .dilation = options_.dilation,
                 .groups = options_.groups});
}

}  // namespace weft::nn
