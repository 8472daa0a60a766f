// Fully connected layers.
#pragma once
#include "nn/module.h"

namespace weft::nn {

struct LinearOptions {
  int64_t in = 0;
  int64_t out = 0;
  bool bias = true;
  DType dtype = DType::f32;
  Tensor weight = {};  // an existing one to share (weight tying) instead of a new one
};

// y = x · weightᵀ + bias; x [.., in] → [.., out]. weight [out, in], bias [out], both uniform in ±1/sqrt(in) at first.
struct Linear : Module<Linear> {
  explicit Linear(LinearOptions options) : Linear(nullptr, "", options) {}
  Linear(ModuleBase* parent, std::string name, LinearOptions options);
  Tensor forward(const Tensor& x);

  Tensor weight;
  Tensor bias;  // undefined when switched off
};

// GPT-2's form of it: the weight is stored [in, out], normal(0, 0.02) at first, the bias zero.
struct Conv1D : Module<Conv1D> {
  explicit Conv1D(LinearOptions options) : Conv1D(nullptr, "", options) {}
  Conv1D(ModuleBase* parent, std::string name, LinearOptions options);
  Tensor forward(const Tensor& x);

  Tensor weight;
  Tensor bias;
};

}  // namespace weft::nn
