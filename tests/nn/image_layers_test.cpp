// Convolution, pooling, activation and shape layers: parameter names, shapes, padding modes.
#include <gtest/gtest.h>

#include <cmath>

#include "nn/nn.h"

namespace weft::nn {
namespace {

using Values = std::vector<double>;

void expect_equal(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.shape(), want.shape());
  EXPECT_EQ(got.to_vector(), want.to_vector());
}

TEST(ConvLayers, ShapesNamesAndInitialValues) {
  manual_seed(1);
  Conv1d conv1d({.in = 4, .out = 6, .kernel = 3, .stride = 2, .padding = 1, .groups = 2});
  EXPECT_EQ(conv1d.weight.shape(), (Shape{6, 2, 3}));
  EXPECT_EQ(conv1d(ones({2, 4, 9})).shape(), (Shape{2, 6, 5}));
  EXPECT_LE(amax(abs(conv1d.weight)).item(), 1 / std::sqrt(6.0));
  ConvTranspose2d up({.in = 4, .out = 6, .kernel = {3, 2}, .stride = {2, 2}, .output_padding = {1, 0}, .groups = 2});
  EXPECT_EQ(up.weight.shape(), (Shape{4, 3, 3, 2}));
  EXPECT_EQ(up.bias.shape(), Shape{6});
  EXPECT_EQ(up(ones({1, 4, 3, 3})).shape(), (Shape{1, 6, 8, 6}));
  ConvTranspose1d row({.in = 4, .out = 6, .kernel = 3, .bias = false});
  EXPECT_EQ(row(ones({1, 4, 3})).shape(), (Shape{1, 6, 5}));
  std::vector<std::string> names;
  for (const auto& entry : up.named_parameters()) names.push_back(entry.first);
  EXPECT_EQ(names, (std::vector<std::string>{"weight", "bias"}));
  EXPECT_THROW(Conv1d({.in = 3, .out = 4, .groups = 2}), Error);
  EXPECT_THROW(ConvTranspose2d({.in = 4, .out = 3, .groups = 2}), Error);
}

TEST(ConvLayers, PaddingModes) {
  manual_seed(1);
  const Tensor x = randn({1, 2, 5, 6});
  Conv2d reflect({.in = 2, .out = 3, .kernel = {3, 3}, .padding = {1, 2}, .padding_mode = "reflect"});
  expect_equal(reflect(x), conv2d(pad(x, {2, 2, 1, 1}, "reflect"), reflect.weight, reflect.bias));
  Conv2d same({.in = 2, .out = 3, .kernel = {2, 3}, .same_padding = true, .padding_mode = "replicate"});
  expect_equal(same(x), conv2d(pad(x, {1, 1, 0, 1}, "replicate"), same.weight, same.bias));
  Conv1d row({.in = 2, .out = 3, .kernel = 4, .same_padding = true});
  EXPECT_EQ(row(randn({2, 7})).shape(), (Shape{3, 7}));
}

TEST(PoolLayers, CallTheirFunctions) {
  manual_seed(1);
  const Tensor x = randn({2, 4, 6, 6}), row = randn({2, 4, 9});
  expect_equal(MaxPool2d({.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}})(x),
               max_pool2d(x, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}));
  expect_equal(AvgPool2d({.kernel = {3, 2}})(x), avg_pool2d(x, {.kernel = {3, 2}}));
  expect_equal(MaxPool1d({.kernel = 3})(row), max_pool1d(row, {.kernel = 3}));
  expect_equal(AvgPool1d({.kernel = 3})(row), avg_pool1d(row, {.kernel = 3}));
  expect_equal(AdaptiveAvgPool1d({.output_size = 2})(row), adaptive_avg_pool1d(row, 2));
  expect_equal(AdaptiveAvgPool2d({})(x), adaptive_avg_pool2d(x, {1, 1}));
  expect_equal(AdaptiveMaxPool2d({.output_size = {2, -1}})(x), adaptive_max_pool2d(x, {2, 6}));
  expect_equal(Upsample({.scale_factor = {2}, .mode = "bilinear"})(x),
               interpolate(x, {.size = {12, 12}, .mode = "bilinear"}));
  const FoldOptions windows{.kernel = {2, 2}, .stride = {2, 2}};
  expect_equal(Fold({6, 6}, windows)(Unfold(windows)(x)), x);
}

TEST(ActivationLayers, Values) {
  const Tensor x = tensor({-2.0, -0.5, 0.0, 1.0, 8.0});
  expect_equal(ReLU()(x), relu(x));
  expect_equal(ReLU6()(x), tensor({0.0, 0.0, 0.0, 1.0, 6.0}));
  expect_equal(SiLU()(x), silu(x));
  expect_equal(Tanh()(x), tanh(x));
  expect_equal(Sigmoid()(x), sigmoid(x));
  expect_equal(GELU()(x), gelu(x));
  expect_equal(GELU({.tanh_approximation = true})(x), gelu_tanh(x));
  expect_equal(LeakyReLU({.negative_slope = 0.2})(x), leaky_relu(x, 0.2));
  expect_equal(ELU({.alpha = 0.5})(x), elu(x, 0.5));
  expect_equal(Softplus()(x), softplus(x));
  expect_equal(Hardtanh()(x), tensor({-1.0, -0.5, 0.0, 1.0, 1.0}));
  expect_equal(Softmax()(x), softmax(x, 0));
  expect_equal(LogSoftmax({.dim = 0})(x), log_softmax(x, 0));
  PReLU slope;
  expect_equal(slope(x), tensor({-0.5, -0.125, 0.0, 1.0, 8.0}));
  PReLU by_channel({.num_parameters = 2});
  EXPECT_EQ(by_channel(ones({1, 2, 3})).shape(), (Shape{1, 2, 3}));
  EXPECT_THROW(by_channel(x), Error);
  struct Net : Module<Net> {
    ReLU act{this, "act"};
    LeakyReLU leaky{this, "leaky", {.negative_slope = 0.1}};
    Tensor forward(const Tensor& t) { return leaky(act(t)); }
  } net;
  EXPECT_EQ(net.named_children().size(), 2u);
}

TEST(ShapeLayers, FlattenAndBack) {
  const Tensor x = randn({2, 3, 4, 5});
  EXPECT_EQ(Flatten()(x).shape(), (Shape{2, 60}));
  EXPECT_EQ(Flatten({.start_dim = 0, .end_dim = 1})(x).shape(), (Shape{6, 4, 5}));
  EXPECT_EQ(Unflatten({.dim = -1, .unflattened_size = {5, -1}})(x).shape(), (Shape{2, 3, 4, 5, 1}));
  EXPECT_EQ(Unflatten({.dim = 1, .unflattened_size = {4, -1}})(zeros({0, 12})).shape(), (Shape{0, 4, 3}));
  EXPECT_THROW(Unflatten({.dim = 1, .unflattened_size = {2, 2}})(x), Error);
  EXPECT_TRUE(Identity()(x).is(x));
}

TEST(DropoutLayers, ActOnlyWhileTraining) {
  manual_seed(1);
  const Tensor x = ones({8, 16, 4});
  const Tensor image = x.unsqueeze(-1);
  Dropout1d channels({.p = 0.5});
  Dropout2d images({.p = 0.5});
  AlphaDropout alpha({.p = 0.5});
  EXPECT_NE(channels(x).to_vector(), x.to_vector());
  EXPECT_NE(images(image).to_vector(), image.to_vector());
  EXPECT_NE(alpha(x).to_vector(), x.to_vector());
  for (ModuleBase* layer :
       {static_cast<ModuleBase*>(&channels), static_cast<ModuleBase*>(&images), static_cast<ModuleBase*>(&alpha)})
    layer->eval();
  expect_equal(channels(x), x);
  expect_equal(images(image), image);
  expect_equal(alpha(x), x);
  EXPECT_THROW(Dropout2d({.p = 2}), Error);
}

}  // namespace
}  // namespace weft::nn
