#include "nn/models/resnet.h"

#include <fmt/format.h>

#include <algorithm>

#include "autograd/ops/ops.h"
#include "nn/init.h"

namespace weft::nn::models {
namespace {

const ResNetConfig& checked(const ResNetConfig& config) {
  WEFT_CHECK(!config.depths.empty() && config.depths.size() == config.hidden_sizes.size(), "ResNet",
             "expected as many depths as hidden sizes, got {} and {}", config.depths.size(),
             config.hidden_sizes.size());
  WEFT_CHECK(config.num_channels > 0 && config.embedding_size > 0 && config.num_labels > 0, "ResNet",
             "sizes must be positive: channels {}, embedding {}, labels {}", config.num_channels, config.embedding_size,
             config.num_labels);
  for (size_t i = 0; i < config.depths.size(); ++i)
    WEFT_CHECK(
        config.depths[i] > 0 && config.hidden_sizes[i] > 0 && (!config.bottleneck || config.hidden_sizes[i] % 4 == 0),
        "ResNet", "stage {}: depth {} and size {} must be positive, the size of bottlenecks a multiple of 4", i,
        config.depths[i], config.hidden_sizes[i]);
  return config;
}

Conv2dOptions convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return {.in = in,
          .out = out,
          .kernel = {kernel, kernel},
          .stride = {stride, stride},
          .padding = {kernel / 2, kernel / 2},
          .bias = false};
}

std::vector<std::string> split_at_dots(const std::string& name) {
  std::vector<std::string> parts(1);
  for (const char c : name)
    if (c == '.')
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

bool is_number(const std::string& text) {
  return !text.empty() && text.size() < 6 && text.find_first_not_of("0123456789") == std::string::npos;
}
bool is_unit(const std::string& text) { return text == "convolution" || text == "normalization"; }

// The name of a ResNetForImageClassification's parameter in this class; another name as it is.
std::string translated(const std::string& name) {
  const std::vector<std::string> part = split_at_dots(name);
  const auto starts_with = [&](const std::vector<std::string>& words) {
    return part.size() > words.size() && std::equal(words.begin(), words.end(), part.begin());
  };
  if (starts_with({"classifier", "1"}) && part.size() == 3) return "fc." + part[2];
  // resnet.embedder.embedder.UNIT.x
  if (starts_with({"resnet", "embedder", "embedder"}) && part.size() == 5 && is_unit(part[3]))
    return (part[3] == "convolution" ? "conv1." : "bn1.") + part[4];
  // resnet.encoder.stages.STAGE.layers.BLOCK, then shortcut.UNIT.x or layer.NUMBER.UNIT.x
  if (!starts_with({"resnet", "encoder", "stages"}) || part.size() < 9 || !is_number(part[3]) || part[4] != "layers" ||
      !is_number(part[5]))
    return name;
  const std::string block = fmt::format("layer{}.{}", std::stoi(part[3]) + 1, part[5]);
  if (part[6] == "shortcut" && part.size() == 9 && is_unit(part[7]))
    return fmt::format("{}.downsample.{}.{}", block, part[7] == "convolution" ? 0 : 1, part[8]);
  if (part[6] == "layer" && part.size() == 10 && is_number(part[7]) && is_unit(part[8]))
    return fmt::format("{}.{}{}.{}", block, part[8] == "convolution" ? "conv" : "bn", std::stoi(part[7]) + 1, part[9]);
  return name;
}

std::vector<int64_t> integers(const Tree& list) {
  std::vector<int64_t> values;
  for (const Tree& value : list.as_list()) values.push_back(value.as_int());
  return values;
}

ResNetConfig from_architecture(const std::string& name) {
  ResNetConfig result;
  if (name == "resnet18") return result;
  if (name == "resnet34") {
    result.depths = {3, 4, 6, 3};
    return result;
  }
  result.bottleneck = true;
  result.hidden_sizes = {256, 512, 1024, 2048};
  if (name == "resnet50")
    result.depths = {3, 4, 6, 3};
  else if (name == "resnet101")
    result.depths = {3, 4, 23, 3};
  else if (name == "resnet152")
    result.depths = {3, 8, 36, 3};
  else
    fail(ErrorCode::unsupported, "ResNet", "expected an architecture resnet18, 34, 50, 101 or 152, got '{}'", name);
  return result;
}

}  // namespace

ResNetConfig ResNetConfig::from_json(const Tree& config) {
  if (config.contains("architecture")) {
    ResNetConfig result = from_architecture(config["architecture"].as_string());
    result.num_labels = config_int(config, "num_classes", 1000);
    return result;
  }
  if (const std::string type = config_text(config, "model_type", "resnet"); type != "resnet")
    fail(ErrorCode::unsupported, "ResNet", "expected model_type resnet, got '{}'", type);
  if (const std::string activation = config_text(config, "hidden_act", "relu"); activation != "relu")
    fail(ErrorCode::unsupported, "ResNet", "expected hidden_act relu, got '{}'", activation);
  ResNetConfig result;
  result.num_channels = config_int(config, "num_channels", 3);
  result.embedding_size = config_int(config, "embedding_size", 64);
  result.hidden_sizes = {256, 512, 1024, 2048};  // the defaults of the format are those of ResNet-50
  result.depths = {3, 4, 6, 3};
  if (config.contains("hidden_sizes")) result.hidden_sizes = integers(config["hidden_sizes"]);
  if (config.contains("depths")) result.depths = integers(config["depths"]);
  result.bottleneck = config_text(config, "layer_type", "bottleneck") == "bottleneck";
  result.downsample_in_first_stage = config_flag(config, "downsample_in_first_stage", false);
  result.downsample_in_bottleneck = config_flag(config, "downsample_in_bottleneck", false);
  result.num_labels = config.contains("id2label") && config["id2label"].is_map() ? config["id2label"].size()
                                                                                 : config_int(config, "num_labels", 2);
  return result;
}

ResNetBlock::ResNetBlock(ModuleBase* parent, std::string name, int64_t in, int64_t out, int64_t stride,
                         const ResNetConfig& config)
    : Module(parent, std::move(name)),
      conv1(this, "conv1",
            config.bottleneck ? convolution(in, out / 4, 1, config.downsample_in_bottleneck ? stride : 1)
                              : convolution(in, out, 3, stride)),
      bn1(this, "bn1", {.features = config.bottleneck ? out / 4 : out}),
      conv2(this, "conv2",
            config.bottleneck ? convolution(out / 4, out / 4, 3, config.downsample_in_bottleneck ? 1 : stride)
                              : convolution(out, out, 3, 1)),
      bn2(this, "bn2", {.features = config.bottleneck ? out / 4 : out}) {
  if (config.bottleneck) {
    conv3 = std::make_unique<Conv2d>(this, "conv3", convolution(out / 4, out, 1, 1));
    bn3 = std::make_unique<BatchNorm2d>(this, "bn3", BatchNormOptions{.features = out});
  }
  if (stride != 1 || in != out) {
    downsample = std::make_unique<Sequential>(this, "downsample");
    downsample->emplace_back<Conv2d>(convolution(in, out, 1, stride));
    downsample->emplace_back<BatchNorm2d>(BatchNormOptions{.features = out});
  }
}

Tensor ResNetBlock::forward(const Tensor& x) {
  Tensor y = bn2(conv2(relu(bn1(conv1(x)))));
  if (conv3) y = (*bn3)((*conv3)(relu(y)));
  return relu(y + (downsample ? (*downsample)(x) : x));
}

ResNet::ResNet(const ResNetConfig& options)
    : config(checked(options)),
      conv1(this, "conv1",
            convolution(config.num_channels, config.embedding_size, config.small_images ? 3 : 7,
                        config.small_images ? 1 : 2)),
      bn1(this, "bn1", {.features = config.embedding_size}) {
  int64_t in = config.embedding_size;
  for (size_t stage = 0; stage < config.depths.size(); ++stage) {
    stages.push_back(std::make_unique<ModuleList<ResNetBlock>>(this, fmt::format("layer{}", stage + 1)));
    const int64_t stride = stage > 0 || config.downsample_in_first_stage ? 2 : 1;
    for (int64_t i = 0; i < config.depths[stage]; ++i) {
      stages.back()->emplace_back(in, config.hidden_sizes[stage], i == 0 ? stride : 1, config);
      in = config.hidden_sizes[stage];
    }
  }
  fc = std::make_unique<Linear>(this, "fc", LinearOptions{.in = in, .out = config.num_labels});
  for (const auto& [name, module] : named_modules())
    if (const auto* layer = dynamic_cast<const Conv2d*>(module))
      init::kaiming_normal_(layer->weight, {.mode = init::Fan::out, .nonlinearity = init::Nonlinearity::relu});
}

Tensor ResNet::features(const Tensor& x) {
  WEFT_CHECK(x.dim() == 4 && x.size(1) == config.num_channels, "ResNet", "expected images [batch, {}, H, W], got {}",
             config.num_channels, describe(x));
  Tensor y = relu(bn1(conv1(x)));
  if (!config.small_images) y = max_pool2d(y, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
  for (const auto& stage : stages)
    for (ResNetBlock& block : *stage) y = block(y);
  return mean(y, {2, 3});
}

Tensor ResNet::forward(const Tensor& x) { return (*fc)(features(x)); }

std::unique_ptr<ResNet> ResNet::from_pretrained(const std::filesystem::path& folder, PretrainedOptions options) {
  const StateDict weights = renamed(read_weights(folder), translated);
  auto net = std::make_unique<ResNet>(ResNetConfig::from_json(read_config(folder)));
  load_pretrained(*net, weights, options, "ResNet", folder);
  return net;
}

}  // namespace weft::nn::models
