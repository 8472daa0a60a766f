#include "nn/layers/norm.h"

#include "autograd/ops/ops.h"

namespace weft::nn {

LayerNorm::LayerNorm(ModuleBase* parent, std::string name, LayerNormOptions options)
    : Module(parent, std::move(name)), eps_(options.eps) {
  register_parameter("weight", weight, ones({options.dim}, options.dtype));
  register_parameter("bias", bias, options.bias ? zeros({options.dim}, options.dtype) : Tensor());
}

Tensor LayerNorm::forward(const Tensor& x) { return layer_norm(x, {weight.size(0)}, weight, bias, eps_); }

}  // namespace weft::nn
