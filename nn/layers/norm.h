// Normalisation layers, with PyTorch's names for parameters and buffers.
//
//   nn::BatchNorm2d bn1{this, "bn1", {.features = 64}};
//   Tensor y = bn1(x);                  // x [N, 64, H, W]; the running statistics move while training
#pragma once
#include <optional>

#include "nn/module.h"

namespace weft::nn {

struct LayerNormOptions {
  int64_t dim = 0;  // size of the last dimension
  double eps = 1e-5;
  bool bias = true;
  DType dtype = DType::f32;
  Shape normalized_shape{};  // sizes of several last dimensions, instead of `dim`
  bool elementwise_affine = true;
};

// (x - mean) / sqrt(var + eps) · weight + bias over the last dimensions (Ba et al. 2016, arXiv:1607.06450). weight ones,
// bias zeros at first.
struct LayerNorm : Module<LayerNorm> {
  explicit LayerNorm(LayerNormOptions options) : LayerNorm(nullptr, "", options) {}
  LayerNorm(ModuleBase* parent, std::string name, LayerNormOptions options);
  Tensor forward(const Tensor& x);

  Tensor weight;
  Tensor bias;

 private:
  Shape normalized_shape_;
  double eps_;
};

struct RMSNormOptions {
  int64_t dim = 0;              // size of the last dimension
  std::optional<double> eps{};  // none: the machine epsilon of the input's dtype
  bool elementwise_affine = true;
  DType dtype = DType::f32;
  Shape normalized_shape{};  // sizes of several last dimensions, instead of `dim`
};

// x / sqrt(mean(x²) + eps) · weight over the last dimensions (Zhang & Sennrich 2019, arXiv:1910.07467). weight ones at
// first.
struct RMSNorm : Module<RMSNorm> {
  explicit RMSNorm(RMSNormOptions options) : RMSNorm(nullptr, "", options) {}
  RMSNorm(ModuleBase* parent, std::string name, RMSNormOptions options);
  Tensor forward(const Tensor& x);

  Tensor weight;

 private:
  Shape normalized_shape_;
  std::optional<double> eps_;
};

struct BatchNormOptions {
  int64_t features = 0;  // channels
  double eps = 1e-5;
  std::optional<double> momentum = 0.1;  // none: running statistics are the plain average over all batches so far
  bool affine = true;
  bool track_running_stats = true;
  DType dtype = DType::f32;
};

// What BatchNorm1d, 2d and 3d are: batch_norm() of autograd/ops/norm.h. Parameters weight (ones) and bias (zeros); buffers
// running_mean (zeros), running_var (ones) and num_batches_tracked (i64). Without running statistics those of the batch
// are used in evaluation as well.
struct BatchNorm : Module<BatchNorm> {
  Tensor forward(const Tensor& x);

  Tensor weight;
  Tensor bias;
  Tensor running_mean;
  Tensor running_var;
  Tensor num_batches_tracked;

 protected:
  BatchNorm(ModuleBase* parent, std::string name, BatchNormOptions options, const char* type, int min_dims,
            int max_dims);

 private:
  BatchNormOptions options_;
  const char* type_;
  int min_dims_, max_dims_;
};

// x [N, C] or [N, C, L]
struct BatchNorm1d : BatchNorm {
  explicit BatchNorm1d(BatchNormOptions options) : BatchNorm1d(nullptr, "", options) {}
  BatchNorm1d(ModuleBase* parent, std::string name, BatchNormOptions options)
      : BatchNorm(parent, std::move(name), options, "BatchNorm1d", 2, 3) {}
};
// x [N, C, H, W]
struct BatchNorm2d : BatchNorm {
  explicit BatchNorm2d(BatchNormOptions options) : BatchNorm2d(nullptr, "", options) {}
  BatchNorm2d(ModuleBase* parent, std::string name, BatchNormOptions options)
      : BatchNorm(parent, std::move(name), options, "BatchNorm2d", 4, 4) {}
};
// x [N, C, D, H, W]
struct BatchNorm3d : BatchNorm {
  explicit BatchNorm3d(BatchNormOptions options) : BatchNorm3d(nullptr, "", options) {}
  BatchNorm3d(ModuleBase* parent, std::string name, BatchNormOptions options)
      : BatchNorm(parent, std::move(name), options, "BatchNorm3d", 5, 5) {}
};

struct GroupNormOptions {
  int64_t groups = 1;
  int64_t channels = 0;  // a multiple of groups
  double eps = 1e-5;
  bool affine = true;
  DType dtype = DType::f32;
};

// group_norm() of autograd/ops/norm.h over x [N, channels, …]. weight ones, bias zeros at first.
struct GroupNorm : Module<GroupNorm> {
  explicit GroupNorm(GroupNormOptions options) : GroupNorm(nullptr, "", options) {}
  GroupNorm(ModuleBase* parent, std::string name, GroupNormOptions options);
  Tensor forward(const Tensor& x);

  Tensor weight;
  Tensor bias;

 private:
  GroupNormOptions options_;
};

struct InstanceNormOptions {
  int64_t features = 0;  // channels
  double eps = 1e-5;
  double momentum = 0.1;
  bool affine = false;
  bool track_running_stats = false;
  DType dtype = DType::f32;
};

// What InstanceNorm1d and 2d are: instance_norm() of autograd/ops/norm.h. Names as in BatchNorm; in evaluation running
// statistics are used where there are any.
struct InstanceNorm : Module<InstanceNorm> {
  Tensor forward(const Tensor& x);

  Tensor weight;
  Tensor bias;
  Tensor running_mean;
  Tensor running_var;
  Tensor num_batches_tracked;

 protected:
  InstanceNorm(ModuleBase* parent, std::string name, InstanceNormOptions options, const char* type, int dims);

 private:
  InstanceNormOptions options_;
  const char* type_;
  int dims_;  // with the batch
};

// x [N, C, L] or [C, L]
struct InstanceNorm1d : InstanceNorm {
  explicit InstanceNorm1d(InstanceNormOptions options) : InstanceNorm1d(nullptr, "", options) {}
  InstanceNorm1d(ModuleBase* parent, std::string name, InstanceNormOptions options)
      : InstanceNorm(parent, std::move(name), options, "InstanceNorm1d", 3) {}
};
// x [N, C, H, W] or [C, H, W]
struct InstanceNorm2d : InstanceNorm {
  explicit InstanceNorm2d(InstanceNormOptions options) : InstanceNorm2d(nullptr, "", options) {}
  InstanceNorm2d(ModuleBase* parent, std::string name, InstanceNormOptions options)
      : InstanceNorm(parent, std::move(name), options, "InstanceNorm2d", 4) {}
};

}  // namespace weft::nn
