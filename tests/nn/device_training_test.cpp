// Whole models train on every device there is, and their losses are the CPU's.
//
//   WEFT_TEST_DEVICES=cuda build/tests/nn_device_training_test
#include <gtest/gtest.h>

#include "data/loader.h"
#include "kernels/base/device.h"
#include "nn/layers/conv.h"
#include "nn/models/gpt2.h"
#include "nn/nn.h"
#include "optim/optim.h"
#include "tests/support/test_devices.h"

namespace weft {
namespace {

void expect_same_losses(const std::vector<double>& got, const std::vector<double>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t step = 0; step < got.size(); ++step) EXPECT_NEAR(got[step], want[step], tolerance) << "at step " << step;
  EXPECT_LT(want.back(), 0.8 * want.front()) << "it learns";
}

struct Mlp : nn::Module<Mlp> {
  nn::Linear fc1{this, "fc1", {.in = 10, .out = 32}};
  nn::Linear fc2{this, "fc2", {.in = 32, .out = 4}};
  Tensor forward(const Tensor& x) { return fc2(gelu(fc1(x))); }
};

std::vector<double> train_mlp(Device device) {
  manual_seed(3);
  const Tensor x = randn({64, 10}).to(device), y = argmax(x.slice(1, 0, 4), 1);
  Mlp net;
  optim::SGD optimizer(net.named_parameters(), {.lr = 0.3, .momentum = 0.9});
  net.to(device);
  std::vector<double> losses;
  for (int step = 0; step < 40; ++step) {
    const Tensor loss = cross_entropy(net(x), y);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item());
  }
  return losses;
}

struct Cnn : nn::Module<Cnn> {
  nn::Conv2d conv1{this, "conv1", {.in = 1, .out = 4, .kernel = {3, 3}, .padding = {1, 1}}};
  nn::Conv2d conv2{this, "conv2", {.in = 4, .out = 8, .kernel = {3, 3}, .padding = {1, 1}}};
  nn::Linear head{this, "head", {.in = 32, .out = 4}};
  Tensor forward(const Tensor& x) {
    const Tensor y = max_pool2d(relu(conv1(x)));
    return head(avg_pool2d(relu(conv2(y))).flatten(1));
  }
};

std::vector<double> train_cnn(Device device) {
  manual_seed(4);
  // Which quarter of the image is bright.
  const Tensor y = arange(32, device) - 4 * floor_divide(arange(32, device), 4);
  Tensor images = randn({32, 1, 8, 8});
  for (int64_t i = 0; i < 32; ++i)
    images[i].slice(1, i / 2 % 2 * 4, i / 2 % 2 * 4 + 4).slice(2, i % 2 * 4, i % 2 * 4 + 4).add_(ones({1, 4, 4}));
  const Tensor x = images.to(device);
  Cnn net;
  net.to(device);
  optim::Adam optimizer(net.named_parameters(), {.lr = 1e-2});
  std::vector<double> losses;
  for (int step = 0; step < 25; ++step) {
    const Tensor loss = cross_entropy(net(x), y);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item());
  }
  return losses;
}

std::vector<double> train_gpt(Device device) {
  manual_seed(5);
  random_stream().step = 0;
  nn::models::GPT2 gpt({.vocab_size = 31, .n_positions = 32, .n_embd = 32, .n_layer = 2, .n_head = 2, .dropout = 0.05});
  optim::AdamW optimizer(gpt.named_parameters(), {.lr = 3e-3, .weight_decay = 0.1});
  gpt.to(device);
  // Text with a rule: each character follows from the two before it.
  Tensor text = empty({8, 33}, i64);
  for (int64_t row = 0; row < 8; ++row)
    for (int64_t i = 0; i < 33; ++i)
      text.view<int64_t>()(row, i) =
          i < 2 ? row + i : (text.view<int64_t>()(row, i - 1) + 3 * text.view<int64_t>()(row, i - 2) + 1) % 31;
  const Tensor x = text.slice(1, 0, 32).to(device), y = text.slice(1, 1, {}).to(device);
  std::vector<double> losses;
  for (int step = 0; step < 50; ++step) {
    random_stream().step = static_cast<uint32_t>(step);
    random_stream().op = 0;
    const Tensor loss = cross_entropy(gpt(x).flatten(0, 1), y.flatten());
    optimizer.zero_grad();
    loss.backward();
    optim::clip_grad_norm_(gpt.parameters(), 1.0);
    optimizer.step();
    losses.push_back(loss.item());
  }
  return losses;
}

class DeviceTraining : public ::testing::TestWithParam<Device> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DeviceTraining);
INSTANTIATE_TEST_SUITE_P(Device, DeviceTraining, ::testing::ValuesIn(test_devices()),
                         [](const auto& info) { return std::string(name(info.param.type)); });

TEST_P(DeviceTraining, Mlp) { expect_same_losses(train_mlp(GetParam()), train_mlp(Device::cpu()), 1e-4); }
TEST_P(DeviceTraining, Cnn) { expect_same_losses(train_cnn(GetParam()), train_cnn(Device::cpu()), 1e-4); }
TEST_P(DeviceTraining, Gpt) { expect_same_losses(train_gpt(GetParam()), train_gpt(Device::cpu()), 1e-4); }

TEST_P(DeviceTraining, MovingAModuleKeepsItsParameters) {
  nn::models::GPT2 gpt({.vocab_size = 7, .n_positions = 4, .n_embd = 8, .n_layer = 1, .n_head = 2});
  const std::vector<Tensor> before = gpt.parameters();
  const std::vector<double> values = before[0].to_vector();
  before[0].set_grad(ones_like(before[0]));
  gpt.to(GetParam());
  const std::vector<Tensor> after = gpt.parameters();
  ASSERT_EQ(after.size(), before.size());
  for (size_t i = 0; i < after.size(); ++i) {
    EXPECT_TRUE(after[i].is(before[i]));
    EXPECT_EQ(after[i].device(), GetParam());
    EXPECT_TRUE(after[i].requires_grad());
  }
  EXPECT_EQ(after[0].grad().device(), GetParam());
  EXPECT_EQ(after[0].to_vector(), values);
  EXPECT_TRUE(gpt.lm_head.weight.is(gpt.transformer.wte.weight)) << "tied";
  gpt.to(Device::cpu());
  EXPECT_EQ(before[0].device(), Device::cpu());
  EXPECT_EQ(before[0].to_vector(), values);
}

TEST_P(DeviceTraining, StateIsSavedFromAndLoadedToTheDevice) {
  manual_seed(6);
  Mlp net, other;
  net.to(GetParam());
  optim::AdamW optimizer(net.named_parameters()), resumed(other.named_parameters());
  const auto step = [](Mlp& m, optim::AdamW& o, Device device) {
    o.zero_grad();
    mean(square(m(ones({3, 10}, TensorOptions{.device = device})))).backward();
    o.step();
  };
  step(net, optimizer, GetParam());
  other.load_state_dict(net.state_dict());
  resumed.load_state_dict(optimizer.state_dict());
  step(net, optimizer, GetParam());
  step(other, resumed, Device::cpu());
  for (size_t i = 0; i < net.parameters().size(); ++i) {
    const std::vector<double> a = net.parameters()[i].to_vector(), b = other.parameters()[i].to_vector();
    for (size_t k = 0; k < a.size(); ++k) ASSERT_NEAR(a[k], b[k], 1e-6);
  }
}

TEST_P(DeviceTraining, LoaderHandsOutBatchesThere) {
  data::DataLoader loader(data::TensorDataset({{"input", arange(10).to(f32)}, {"target", arange(10)}}),
                          {.batch_size = 4, .device = GetParam()});
  int64_t seen = 0;
  for (const auto& [x, y] : loader) {
    EXPECT_EQ(x.device(), GetParam());
    EXPECT_EQ(y.device(), GetParam());
    seen += x.numel();
  }
  EXPECT_EQ(seen, 10);
}

TEST_P(DeviceTraining, OperandsOnDifferentDevicesAreAnError) {
  const Tensor here = ones({3, 3}), there = here.to(GetParam());
  const Tensor places = zeros({3}, i64);
  EXPECT_THROW(here + there, Error);
  EXPECT_THROW(matmul(here, there), Error);
  EXPECT_THROW(cat({here, there}), Error);
  EXPECT_THROW(index_select(there, 0, places), Error);
  EXPECT_THROW(embedding(there, places), Error);
  EXPECT_THROW(cross_entropy(there, places), Error);
}

}  // namespace
}  // namespace weft
