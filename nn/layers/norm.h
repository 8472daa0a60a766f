// Normalisation layers.
#pragma once
#include "nn/module.h"

namespace weft::nn {

struct LayerNormOptions {
  int64_t dim = 0;  // size of the last dimension
  double eps = 1e-5;
  bool bias = true;
  DType dtype = DType::f32;
};

// (x - mean) / sqrt(var + eps) · weight + bias over the last dimension (Ba et al. 2016, arXiv:1607.06450). weight ones,
// bias zeros at first.
struct LayerNorm : Module<LayerNorm> {
  explicit LayerNorm(LayerNormOptions options) : LayerNorm(nullptr, "", options) {}
  LayerNorm(ModuleBase* parent, std::string name, LayerNormOptions options);
  Tensor forward(const Tensor& x);

  Tensor weight;
  Tensor bias;

 private:
  double eps_;
};

}  // namespace weft::nn
