// Pooling, resizing and window layers: no parameters; what they compute is in autograd/ops/pool.h, resample.h and fold.h.
//
//   nn::MaxPool2d pool{this, "pool", {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}};
#pragma once
#include "autograd/ops/fold.h"
#include "autograd/ops/pool.h"
#include "autograd/ops/resample.h"
#include "nn/module.h"

namespace weft::nn {

// x [N, C, L] or [C, L]
struct MaxPool1d : Module<MaxPool1d> {
  explicit MaxPool1d(Pool1dOptions options) : options_(options) {}
  MaxPool1d(ModuleBase* parent, std::string name, Pool1dOptions options)
      : Module(parent, std::move(name)), options_(options) {}
  Tensor forward(const Tensor& x);

 private:
  Pool1dOptions options_;
};

// x [N, C, H, W] or [C, H, W]
struct MaxPool2d : Module<MaxPool2d> {
  explicit MaxPool2d(Pool2dOptions options) : options_(options) {}
  MaxPool2d(ModuleBase* parent, std::string name, Pool2dOptions options)
      : Module(parent, std::move(name)), options_(options) {}
  Tensor forward(const Tensor& x);

 private:
  Pool2dOptions options_;
};

struct AvgPool1d : Module<AvgPool1d> {
  explicit AvgPool1d(Pool1dOptions options) : options_(options) {}
  AvgPool1d(ModuleBase* parent, std::string name, Pool1dOptions options)
      : Module(parent, std::move(name)), options_(options) {}
  Tensor forward(const Tensor& x);

 private:
  Pool1dOptions options_;
};

struct AvgPool2d : Module<AvgPool2d> {
  explicit AvgPool2d(Pool2dOptions options) : options_(options) {}
  AvgPool2d(ModuleBase* parent, std::string name, Pool2dOptions options)
      : Module(parent, std::move(name)), options_(options) {}
  Tensor forward(const Tensor& x);

 private:
  Pool2dOptions options_;
};

struct AdaptivePool1dOptions {
  int64_t output_size = 1;  // -1: that of the input
};
struct AdaptivePool2dOptions {
  std::array<int64_t, 2> output_size = {1, 1};  // -1: that of the input
};

struct AdaptiveAvgPool1d : Module<AdaptiveAvgPool1d> {
  explicit AdaptiveAvgPool1d(AdaptivePool1dOptions options) : options_(options) {}
  AdaptiveAvgPool1d(ModuleBase* parent, std::string name, AdaptivePool1dOptions options)
      : Module(parent, std::move(name)), options_(options) {}
  Tensor forward(const Tensor& x);

 private:
  AdaptivePool1dOptions options_;
};

struct AdaptiveAvgPool2d : Module<AdaptiveAvgPool2d> {
  explicit AdaptiveAvgPool2d(AdaptivePool2dOptions options) : options_(options) {}
  AdaptiveAvgPool2d(ModuleBase* parent, std::string name, AdaptivePool2dOptions options)
      : Module(parent, std::move(name)), options_(options) {}
  Tensor forward(const Tensor& x);

 private:
  AdaptivePool2dOptions options_;
};

struct AdaptiveMaxPool2d : Module<AdaptiveMaxPool2d> {
  explicit AdaptiveMaxPool2d(AdaptivePool2dOptions options) : options_(options) {}
  AdaptiveMaxPool2d(ModuleBase* parent, std::string name, AdaptivePool2dOptions options)
      : Module(parent, std::move(name)), options_(options) {}
  Tensor forward(const Tensor& x);

 private:
  AdaptivePool2dOptions options_;
};

// interpolate() with fixed options.
struct Upsample : Module<Upsample> {
  explicit Upsample(InterpolateOptions options) : options_(std::move(options)) {}
  Upsample(ModuleBase* parent, std::string name, InterpolateOptions options)
      : Module(parent, std::move(name)), options_(std::move(options)) {}
  Tensor forward(const Tensor& x);

 private:
  InterpolateOptions options_;
};

// im2col(): the windows of an image as columns.
struct Unfold : Module<Unfold> {
  explicit Unfold(FoldOptions options) : options_(options) {}
  Unfold(ModuleBase* parent, std::string name, FoldOptions options)
      : Module(parent, std::move(name)), options_(options) {}
  Tensor forward(const Tensor& x);

 private:
  FoldOptions options_;
};

// col2im(): the sum of windows given as columns.
struct Fold : Module<Fold> {
  Fold(std::array<int64_t, 2> output_size, FoldOptions options) : output_size_(output_size), options_(options) {}
  Fold(ModuleBase* parent, std::string name, std::array<int64_t, 2> output_size, FoldOptions options)
      : Module(parent, std::move(name)), output_size_(output_size), options_(options) {}
  Tensor forward(const Tensor& columns);

 private:
  std::array<int64_t, 2> output_size_;
  FoldOptions options_;
};

}  // namespace weft::nn
