// Layers that only change the shape, or nothing.
//
//   nn::Flatten flatten{this, "flatten"};   // [N, C, H, W] → [N, C · H · W]
#pragma once
#include "nn/module.h"

namespace weft::nn {

// x itself; what stands where a layer was taken out.
struct Identity : Module<Identity> {
  Identity() = default;
  Identity(ModuleBase* parent, std::string name) : Module(parent, std::move(name)) {}
  Tensor forward(const Tensor& x) { return x; }
};

struct FlattenOptions {
  int64_t start_dim = 1;
  int64_t end_dim = -1;
};
// Dimensions start_dim to end_dim become one.
struct Flatten : Module<Flatten> {
  explicit Flatten(FlattenOptions options = {}) : options_(options) {}
  Flatten(ModuleBase* parent, std::string name, FlattenOptions options = {})
      : Module(parent, std::move(name)), options_(options) {}
  Tensor forward(const Tensor& x);

 private:
  FlattenOptions options_;
};

struct UnflattenOptions {
  int64_t dim = 1;
  Shape unflattened_size{};  // one size may be -1
};
// Dimension dim becomes several.
struct Unflatten : Module<Unflatten> {
  explicit Unflatten(UnflattenOptions options) : options_(std::move(options)) {}
  Unflatten(ModuleBase* parent, std::string name, UnflattenOptions options)
      : Module(parent, std::move(name)), options_(std::move(options)) {}
  Tensor forward(const Tensor& x);

 private:
  UnflattenOptions options_;
};

}  // namespace weft::nn
