// Dropout layers: active while training. What they compute: autograd/ops/dropout.h.
#pragma once
#include "nn/module.h"

namespace weft::nn {

struct DropoutOptions {
  double p = 0.5;  // probability of a zero
};

struct Dropout : Module<Dropout> {
  explicit Dropout(DropoutOptions options) : Dropout(nullptr, "", options) {}
  Dropout(ModuleBase* parent, std::string name, DropoutOptions options);
  Tensor forward(const Tensor& x);

  double p;
};

// Whole channels of x [N, C, L].
struct Dropout1d : Module<Dropout1d> {
  explicit Dropout1d(DropoutOptions options) : Dropout1d(nullptr, "", options) {}
  Dropout1d(ModuleBase* parent, std::string name, DropoutOptions options);
  Tensor forward(const Tensor& x);

  double p;
};

// Whole channels of x [N, C, H, W].
struct Dropout2d : Module<Dropout2d> {
  explicit Dropout2d(DropoutOptions options) : Dropout2d(nullptr, "", options) {}
  Dropout2d(ModuleBase* parent, std::string name, DropoutOptions options);
  Tensor forward(const Tensor& x);

  double p;
};

struct AlphaDropout : Module<AlphaDropout> {
  explicit AlphaDropout(DropoutOptions options) : AlphaDropout(nullptr, "", options) {}
  AlphaDropout(ModuleBase* parent, std::string name, DropoutOptions options);
  Tensor forward(const Tensor& x);

  double p;
};

}  // namespace weft::nn
