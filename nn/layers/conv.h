// Convolution and pooling layers, NCHW.
#pragma once
#include <array>

#include "nn/module.h"

namespace weft::nn {

struct Conv2dOptions {
  int64_t in = 0;   // channels
  int64_t out = 0;  // channels
  std::array<int64_t, 2> kernel = {1, 1};
  std::array<int64_t, 2> stride = {1, 1};
  std::array<int64_t, 2> padding = {0, 0};
  std::array<int64_t, 2> dilation = {1, 1};
  int64_t groups = 1;
  bool bias = true;
  DType dtype = DType::f32;
};

// x [N, in, H, W] → [N, out, H', W']. weight [out, in / groups, kernel..], bias [out], uniform in ±1/sqrt(fan_in).
struct Conv2d : Module<Conv2d> {
  explicit Conv2d(Conv2dOptions options) : Conv2d(nullptr, "", options) {}
  Conv2d(ModuleBase* parent, std::string name, Conv2dOptions options);
  Tensor forward(const Tensor& x);

  Tensor weight;
  Tensor bias;

 private:
  Conv2dOptions options_;
};

}  // namespace weft::nn
