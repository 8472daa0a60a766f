// Dropout as a layer: active while training.
#pragma once
#include "nn/module.h"

namespace weft::nn {

struct DropoutOptions {
  double p = 0.5;  // probability of a zero
};

// See dropout() in autograd/ops/dropout.h.
struct Dropout : Module<Dropout> {
  explicit Dropout(DropoutOptions options) : Dropout(nullptr, "", options) {}
  Dropout(ModuleBase* parent, std::string name, DropoutOptions options);
  Tensor forward(const Tensor& x);

  double p;
};

}  // namespace weft::nn
