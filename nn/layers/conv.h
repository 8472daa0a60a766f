// Convolution layers, NCL and NCHW, and their transposes, with PyTorch's names and initial values.
//
//   nn::Conv2d conv{this, "conv", {.in = 3, .out = 64, .kernel = {7, 7}, .stride = {2, 2}, .padding = {3, 3}}};
//
// weight and bias are uniform in ±1/sqrt(fan_in) at first. What they compute: autograd/ops/conv.h.
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
  bool same_padding = false;           // as much as keeps the size; stride 1
  std::string padding_mode = "zeros";  // or a mode of pad(): "reflect", "replicate" …
};

// x [N, in, H, W] → [N, out, H', W']. weight [out, in / groups, kernel..], bias [out].
struct Conv2d : Module<Conv2d> {
  explicit Conv2d(Conv2dOptions options) : Conv2d(nullptr, "", std::move(options)) {}
  Conv2d(ModuleBase* parent, std::string name, Conv2dOptions options);
  Tensor forward(const Tensor& x);

  Tensor weight;
  Tensor bias;

 private:
  Conv2dOptions options_;
};

struct Conv1dOptions {
  int64_t in = 0;   // channels
  int64_t out = 0;  // channels
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  DType dtype = DType::f32;
  bool same_padding = false;
  std::string padding_mode = "zeros";
};

// x [N, in, L] → [N, out, L']. weight [out, in / groups, kernel], bias [out]. Not GPT-2's Conv1D (linear.h).
struct Conv1d : Module<Conv1d> {
  explicit Conv1d(Conv1dOptions options) : Conv1d(nullptr, "", std::move(options)) {}
  Conv1d(ModuleBase* parent, std::string name, Conv1dOptions options);
  Tensor forward(const Tensor& x);

  Tensor weight;
  Tensor bias;

 private:
  Conv1dOptions options_;
};

struct ConvTranspose2dOptions {
  int64_t in = 0;   // channels
  int64_t out = 0;  // channels
  std::array<int64_t, 2> kernel = {1, 1};
  std::array<int64_t, 2> stride = {1, 1};
  std::array<int64_t, 2> padding = {0, 0};
  std::array<int64_t, 2> output_padding = {0, 0};
  std::array<int64_t, 2> dilation = {1, 1};
  int64_t groups = 1;
  bool bias = true;
  DType dtype = DType::f32;
};

// x [N, in, H, W] → [N, out, H', W']. weight [in, out / groups, kernel..], bias [out].
struct ConvTranspose2d : Module<ConvTranspose2d> {
  explicit ConvTranspose2d(ConvTranspose2dOptions options) : ConvTranspose2d(nullptr, "", options) {}
  ConvTranspose2d(ModuleBase* parent, std::string name, ConvTranspose2dOptions options);
  Tensor forward(const Tensor& x);

  Tensor weight;
  Tensor bias;

 private:
  ConvTranspose2dOptions options_;
};

struct ConvTranspose1dOptions {
  int64_t in = 0;   // channels
  int64_t out = 0;  // channels
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t output_padding = 0;
  int64_t dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  DType dtype = DType::f32;
};

// x [N, in, L] → [N, out, L']. weight [in, out / groups, kernel], bias [out].
struct ConvTranspose1d : Module<ConvTranspose1d> {
  explicit ConvTranspose1d(ConvTranspose1dOptions options) : ConvTranspose1d(nullptr, "", options) {}
  ConvTranspose1d(ModuleBase* parent, std::string name, ConvTranspose1dOptions options);
  Tensor forward(const Tensor& x);

  Tensor weight;
  Tensor bias;

 private:
  ConvTranspose1dOptions options_;
};

}  // namespace weft::nn
