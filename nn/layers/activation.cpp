#include "nn/layers/activation.h"

#include "autograd/ops/ops.h"

namespace weft::nn {

Tensor ReLU::forward(const Tensor& x) { return relu(x); }
Tensor ReLU6::forward(const Tensor& x) { return clamp(x, 0, 6); }
Tensor SiLU::forward(const Tensor& x) { return silu(x); }
Tensor Tanh::forward(const Tensor& x) { return tanh(x); }
Tensor Sigmoid::forward(const Tensor& x) { return sigmoid(x); }
Tensor GELU::forward(const Tensor& x) { return options.tanh_approximation ? gelu_tanh(x) : gelu(x); }
Tensor LeakyReLU::forward(const Tensor& x) { return leaky_relu(x, options.negative_slope); }
Tensor ELU::forward(const Tensor& x) { return elu(x, options.alpha); }
Tensor Softplus::forward(const Tensor& x) { return softplus(x, options.beta, options.threshold); }
Tensor Hardtanh::forward(const Tensor& x) { return clamp(x, options.min_val, options.max_val); }
Tensor Softmax::forward(const Tensor& x) { return softmax(x, options.dim); }
Tensor LogSoftmax::forward(const Tensor& x) { return log_softmax(x, options.dim); }

PReLU::PReLU(ModuleBase* parent, std::string name, PReLUOptions options) : Module(parent, std::move(name)) {
  register_parameter("weight", weight, full({options.num_parameters}, options.init, options.dtype));
}

Tensor PReLU::forward(const Tensor& x) {
  if (weight.size(0) == 1) return where(x > 0, x, weight * x);
  WEFT_CHECK(x.dim() >= 2 && x.size(1) == weight.size(0), "PReLU", "expected {} channels, got {}", weight.size(0),
             describe(x));
  Shape by_channel{weight.size(0)};
  for (int d = 2; d < x.dim(); ++d) by_channel.push_back(1);
  return where(x > 0, x, weight.reshape(by_channel) * x);
}

}  // namespace weft::nn
