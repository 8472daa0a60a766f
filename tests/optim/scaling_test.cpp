// Clipping, averages of parameters and loss scaling.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "autograd/ops/ops.h"
#include "optim/optim.h"
#include "tensor/tree_file.h"
#include "tests/support/child_process.h"
#include "tests/support/test_devices.h"

namespace weft::optim {
namespace {

using Values = std::vector<double>;
constexpr double kInf = std::numeric_limits<double>::infinity();

std::vector<Device> cpu_and_devices() {
  std::vector<Device> devices = test_devices();
  devices.insert(devices.begin(), Device::cpu());
  return devices;
}

TEST(Cases, C29_clipping_large_and_infinite_norms) {
  std::vector<Tensor> many;
  for (int i = 0; i < 100; ++i) {
    many.push_back(zeros({1}, {.requires_grad = true}));
    many.back().set_grad(full({1}, 1e20));
  }
  EXPECT_NEAR(clip_grad_norm_(many, 1) / 1e21, 1, 1e-6);
  for (const Tensor& p : many) EXPECT_FLOAT_EQ(static_cast<float>(p.grad().item()), 0.1f);

  Tensor p = zeros({2}, {.requires_grad = true});
  p.set_grad(tensor({3, kInf}));
  EXPECT_THROW(clip_grad_norm_({p}, 1, {.error_if_nonfinite = true}), Error);
  EXPECT_EQ(p.grad().to_vector(), (Values{3, kInf})) << "untouched";
  EXPECT_EQ(clip_grad_norm_({p}, 1), kInf);
  EXPECT_EQ(p.grad().to_vector()[0], 0);
  EXPECT_TRUE(std::isnan(p.grad().to_vector()[1]));
}

TEST(Clip, NormsAndValues) {
  Tensor a = zeros({2}, {.requires_grad = true}), b = zeros({1}, {.dtype = f64, .requires_grad = true});
  const Tensor none = zeros({1}, {.requires_grad = true});
  const auto fill = [&] {
    a.set_grad(tensor({3, 0}));
    b.set_grad(tensor({-4}, {.dtype = f64}));
  };
  fill();
  EXPECT_EQ(grad_norm({a, b, none}), 5);
  EXPECT_EQ(grad_norm({a, b, none}, 1), 7);
  EXPECT_EQ(grad_norm({a, b, none}, kInf), 4);
  EXPECT_EQ(clip_grad_norm_({a, b, none}, 10), 5);
  EXPECT_EQ(a.grad().to_vector(), (Values{3, 0})) << "below the limit nothing changes";
  EXPECT_EQ(clip_grad_norm_({a, b, none}, 1), 5);
  EXPECT_NEAR(grad_norm({a, b}), 1, 1e-6);
  fill();
  clip_grad_value_({a, b, none}, 2);
  EXPECT_EQ(a.grad().to_vector(), (Values{2, 0}));
  EXPECT_EQ(b.grad().item(), -2);
  EXPECT_FALSE(none.grad().defined());
  EXPECT_EQ(clip_grad_norm_({none}, 1), 0);
  EXPECT_THROW(clip_grad_norm_({a}, -1), Error);
  EXPECT_THROW(clip_grad_value_({a}, -1), Error);
}

TEST(Clip, AnyNormOfAnyDtypeAndLayout) {
  for (const Device device : cpu_and_devices()) {
    for (const DType dtype : {f64, f32, bf16, f16}) {
      Generator generator(2);
      std::vector<Tensor> params;
      Values all;
      for (const Shape& shape : {Shape{3, 4}, Shape{0}, Shape{700}, Shape{}}) {
        const Tensor gradient = randn(shape, {}, &generator).to(dtype);
        for (const double x : gradient.to_vector()) all.push_back(std::abs(x));
        params.push_back(zeros(shape, {.dtype = dtype, .device = device, .requires_grad = true}));
        params.back().set_grad(gradient.to(device));
      }
      params[0].set_grad(params[0].grad().t().contiguous().t());
      double one = 0, two = 0, three = 0, largest = 0;
      for (const double x : all) {
        one += x;
        two += x * x;
        three += x * x * x;
        largest = std::max(largest, x);
      }
      EXPECT_NEAR(grad_norm(params, 0), static_cast<double>(all.size()), 0);
      EXPECT_NEAR(grad_norm(params, 1), one, 1e-9 * one);
      EXPECT_NEAR(grad_norm(params, 2), std::sqrt(two), 1e-9 * two);
      EXPECT_NEAR(grad_norm(params, 3), std::cbrt(three), 1e-9 * three);
      EXPECT_EQ(grad_norm(params, kInf), largest);
      clip_grad_norm_(params, 1);
      EXPECT_NEAR(grad_norm(params), 1, dtype == bf16 ? 1e-2 : 2e-3);
      params[2].set_grad(full({700}, kInf).to(dtype).to(device));
      EXPECT_EQ(grad_norm(params), kInf);
      params[3].set_grad(full({}, std::nan("")).to(dtype).to(device));
      EXPECT_TRUE(std::isnan(grad_norm(params, kInf)));
    }
  }
}

TEST(AveragedModel, ExponentialAndEqual) {
  for (const Device device : cpu_and_devices()) {
    const Tensor p = zeros({2}, {.device = device, .requires_grad = true});
    const Tensor half = zeros({2}, {.dtype = bf16, .device = device}),
                 steps = zeros({}, {.dtype = i64, .device = device});
    const NamedParameters named = {{"p", p}, {"half", half}, {"steps", steps}};
    AveragedModel ema(named, {.decay = 0.75}), swa(named);
    for (const double value : {1.0, 2.0, 6.0}) {
      NoGrad guard;
      for (const auto& [name, tensor] : named) tensor.fill_(value);
      ema.update();
      swa.update();
    }
    EXPECT_EQ(ema.averages()[0].second.to_vector(), (Values{2.4375, 2.4375}))
        << "0.75 (0.75 · 1 + 0.25 · 2) + 0.25 · 6";
    EXPECT_EQ(swa.averages()[0].second.to_vector(), (Values{3, 3}));
    EXPECT_EQ(swa.averages()[1].second.dtype(), f32);
    EXPECT_EQ(swa.averages()[1].second.to_vector(), (Values{3, 3}));
    EXPECT_EQ(swa.averages()[2].second.item<int64_t>(), 6) << "copied";
    swa.swap();
    EXPECT_EQ(p.to_vector(), (Values{3, 3}));
    EXPECT_EQ(swa.averages()[0].second.to_vector(), (Values{6, 6}));
    swa.swap();
    EXPECT_EQ(p.to_vector(), (Values{6, 6}));

    AveragedModel other(named, {.decay = 0.75});
    other.load_state_dict(ema.state_dict());
    EXPECT_EQ(other.n_averaged(), 3);
    ema.update();
    other.update();
    EXPECT_EQ(other.averages()[0].second.to_vector(), ema.averages()[0].second.to_vector());
    other.copy_to();
    EXPECT_EQ(p.to_vector(), other.averages()[0].second.to_vector());
    Tree bad = ema.state_dict();
    bad["averages"]["p"] = ones({3});
    EXPECT_THROW(other.load_state_dict(bad), Error);
    EXPECT_THROW(other.load_state_dict(Tree::map()), Error);
    EXPECT_THROW(AveragedModel(named, {.decay = 1.5}), Error);
  }
}

TEST(GradScaler, SkipsOverflowsAndGrows) {
  for (const Device device : cpu_and_devices()) {
    const Tensor a = zeros({2}, {.device = device, .requires_grad = true});
    const Tensor b = zeros({3}, {.dtype = f64, .device = device, .requires_grad = true});
    SGD first(std::vector<Tensor>{a}, {.lr = 1}), second(std::vector<Tensor>{b}, {.lr = 1});
    GradScaler scaler({.init_scale = 8, .growth_interval = 2});
    const auto backward = [&](double of_b) { scaler.scale(sum(a) + sum(b * of_b).to(f32)).backward(); };
    backward(2);
    EXPECT_EQ(a.grad().to_vector()[0], 8);
    scaler.unscale_(first);
    EXPECT_EQ(a.grad().to_vector()[0], 1);
    EXPECT_FALSE(scaler.found_inf(first));
    EXPECT_THROW(scaler.found_inf(second), Error);
    EXPECT_THROW(scaler.unscale_(first), Error);
    EXPECT_TRUE(scaler.step(first));
    EXPECT_TRUE(scaler.step(second));
    EXPECT_THROW(scaler.step(second), Error);
    EXPECT_THROW(scaler.unscale_(second), Error);
    scaler.update();
    EXPECT_THROW(scaler.update(), Error) << "nothing was looked at";
    EXPECT_EQ(b.to_vector()[0], -2);

    // One optimizer overflows: the other steps, the scale falls.
    first.zero_grad();
    second.zero_grad();
    backward(kInf);
    EXPECT_TRUE(scaler.step(first));
    EXPECT_FALSE(scaler.step(second));
    EXPECT_EQ(b.to_vector()[0], -2);
    scaler.update();
    EXPECT_EQ(scaler.get_scale(), 4);
    EXPECT_EQ(scaler.get_growth_tracker(), 0);

    test::TemporaryFolder folder;
    save_tree(scaler.state_dict(), folder.path() / "scaler.safetensors");
    GradScaler resumed;
    resumed.load_state_dict(load_tree(folder.path() / "scaler.safetensors"));
    EXPECT_EQ(resumed.get_scale(), 4);
    EXPECT_EQ(resumed.get_growth_interval(), 2);
    resumed.update(16.0);
    EXPECT_EQ(resumed.get_scale(), 16);
    EXPECT_THROW(resumed.load_state_dict(Tree::map()), Error);
    EXPECT_THROW(resumed.set_growth_factor(1), Error);

    GradScaler off({.enabled = false});
    EXPECT_EQ(off.get_scale(), 1);
    EXPECT_TRUE(off.step(first));
    off.update();
    EXPECT_EQ(off.state_dict().size(), 0);
  }
}

TEST(GradScaler, F16GradientsAreAnError) {
  const Tensor p = zeros({2}, {.dtype = f16, .requires_grad = true});
  SGD sgd(std::vector<Tensor>{p});
  p.set_grad(ones({2}, f16));
  GradScaler scaler;
  EXPECT_THROW(scaler.unscale_(sgd), Error);
  EXPECT_EQ(scaler.scale(ones({}, f16)).item(), 65536) << "in f32";
}

}  // namespace
}  // namespace weft::optim
