// ResNet (He et al. 2015, arXiv:1512.03385; the strides of a bottleneck block as in version 1.5): parameter names are
// torchvision's, which timm's folders on the Hugging Face hub have as well.
//
//   nn::models::ResNet net({.num_labels = 10, .small_images = true});     // ResNet-18 for 32 × 32
//   auto loaded = nn::models::ResNet::from_pretrained("resnet-50");       // microsoft/resnet-50, or timm/resnet50.…
//   Tensor logits = (*loaded)(images);                                   // [batch, 3, H, W] → [batch, num_labels]
#pragma once
#include <memory>
#include <vector>

#include "nn/layers/conv.h"
#include "nn/layers/linear.h"
#include "nn/layers/norm.h"
#include "nn/models/pretrained.h"
#include "nn/sequential.h"

namespace weft::nn::models {

struct ResNetConfig {
  int64_t num_channels = 3;
  int64_t embedding_size = 64;                              // channels behind the stem
  std::vector<int64_t> hidden_sizes = {64, 128, 256, 512};  // channels behind each stage
  std::vector<int64_t> depths = {2, 2, 2, 2};               // blocks of each stage
  bool bottleneck = false;  // blocks of 1 × 1, 3 × 3 and 1 × 1, a quarter as wide inside, else two 3 × 3
  int64_t num_labels = 1000;
  bool small_images = false;               // stem: 3 × 3 without stride or pooling, else 7 × 7 and a max pool
  bool downsample_in_first_stage = false;  // stride 2 in the first stage as well
  bool downsample_in_bottleneck = false;   // the stride is the first convolution's, else the 3 × 3's

  // From config.json of a ResNet of transformers (model_type resnet) or of timm (architecture resnet18 … resnet152).
  static ResNetConfig from_json(const Tree& config);
};

// relu(f(x) + shortcut(x)); f is conv1-bn1-relu-conv2-bn2, and -relu-conv3-bn3 in a bottleneck. The shortcut is x, or
// downsample (a 1 × 1 convolution and a norm) where the shape changes.
struct ResNetBlock : Module<ResNetBlock> {
  ResNetBlock(ModuleBase* parent, std::string name, int64_t in, int64_t out, int64_t stride,
              const ResNetConfig& config);
  Tensor forward(const Tensor& x);

  Conv2d conv1;
  BatchNorm2d bn1;
  Conv2d conv2;
  BatchNorm2d bn2;
  std::unique_ptr<Conv2d> conv3;  // in a bottleneck
  std::unique_ptr<BatchNorm2d> bn3;
  std::unique_ptr<Sequential> downsample;
};

struct ResNet : Module<ResNet> {
  explicit ResNet(const ResNetConfig& config);
  // A folder of a ResNetForImageClassification of transformers, whose names are translated, or one with torchvision's
  // names.
  static std::unique_ptr<ResNet> from_pretrained(const std::filesystem::path& folder, PretrainedOptions options = {});
  // x [batch, num_channels, H, W] → logits [batch, num_labels].
  Tensor forward(const Tensor& x);
  // The last stage's output, averaged over the image: [batch, hidden_sizes.back()].
  Tensor features(const Tensor& x);

  const ResNetConfig config;
  Conv2d conv1;
  BatchNorm2d bn1;
  std::vector<std::unique_ptr<ModuleList<ResNetBlock>>> stages;  // "layer1", "layer2", …
  std::unique_ptr<Linear> fc;
};

}  // namespace weft::nn::models
