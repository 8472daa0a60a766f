#include "nn/layers/linear.h"

#include <cmath>

#include "autograd/ops/ops.h"
#include "nn/init.h"

namespace weft::nn {

Linear::Linear(ModuleBase* parent, std::string name, LinearOptions options) : Module(parent, std::move(name)) {
  WEFT_CHECK(options.in >= 0 && options.out >= 0, "Linear", "sizes must not be negative: in {}, out {}", options.in,
             options.out);
  const bool tied = options.weight.defined();
  WEFT_CHECK(!tied || options.weight.shape() == Shape({options.out, options.in}), "Linear",
             "the shared weight is {}, expected shape [{}, {}]", describe(options.weight), options.out, options.in);
  register_parameter("weight", weight, tied ? options.weight : empty({options.out, options.in}, options.dtype));
  if (!tied) init::kaiming_uniform_(weight, std::sqrt(5.0));
  register_parameter("bias", bias, options.bias ? zeros({options.out}, options.dtype) : Tensor());
  const double bound = options.in > 0 ? 1 / std::sqrt(static_cast<double>(options.in)) : 0;
  if (options.bias) init::uniform_(bias, -bound, bound);
}

Tensor Linear::forward(const Tensor& x) { return linear(x, weight, bias); }

Conv1D::Conv1D(ModuleBase* parent, std::string name, LinearOptions options) : Module(parent, std::move(name)) {
  register_parameter("weight", weight, empty({options.in, options.out}, options.dtype));
  init::normal_(weight, 0, 0.02);
  register_parameter("bias", bias, options.bias ? zeros({options.out}, options.dtype) : Tensor());
}

Tensor Conv1D::forward(const Tensor& x) { return linear_transposed(x, weight, bias); }

}  // namespace weft::nn
