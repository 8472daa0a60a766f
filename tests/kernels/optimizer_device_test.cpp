// Device optimizers against the CPU's in f64, over slices of odd sizes, none and thousands.
#include "kernels/optimizer/optimizer.h"

#include <memory>

#include "tests/kernels/device_test.h"

namespace weft {
namespace {

const std::vector<int64_t> kSizes = {1, 0, 3, 17, 1000, 20001, 0, 16};

// One list of arrays, on the device as T and on the host as double.
template <class T>
struct Lists {
  std::vector<std::vector<double>> host;
  std::vector<std::unique_ptr<DeviceArray<T>>> device;

  Lists(const TestDevice& on, const std::vector<int64_t>& sizes, unsigned seed, bool positive = false) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      std::vector<T> values = random_values<T>(static_cast<size_t>(sizes[i]), 1, seed * 100 + static_cast<unsigned>(i));
      for (T& v : values)
        if (positive) v = T(static_cast<float>(v) * static_cast<float>(v));
      host.push_back(converted<double>(values));
      device.push_back(std::make_unique<DeviceArray<T>>(on, values, i % 3 == 2 ? 1 : 0));  // some misaligned
    }
  }
  void expect_equal(double tolerance) const {
    for (size_t i = 0; i < host.size(); ++i) {
      SCOPED_TRACE(testing::Message() << "slice " << i);
      expect_close(device[i]->host(), host[i], tolerance);
    }
  }
};

// One step of a rule with `states` arrays, of which those in `positive` hold what squares average to.
template <class T>
void check_rule(const TestDevice& device, const char* what, const OptimizerRule& rule, size_t states,
                size_t positive = 3) {
  SCOPED_TRACE(testing::Message() << what << " " << name(dtype_of<T>));
  using C = StatisticType<T>;
  Lists<T> p(device, kSizes, 1), g(device, kSizes, 2);
  std::vector<std::unique_ptr<Lists<C>>> state;
  for (size_t k = 0; k < states; ++k)
    state.push_back(std::make_unique<Lists<C>>(device, kSizes, static_cast<unsigned>(k) + 3, k >= positive));
  std::vector<OptimizerSlice> expected(kSizes.size()), slices(kSizes.size());
  const double norms[2] = {9, 4};
  DeviceArray<double> device_norms(device, std::vector<double>{9, 4});
  for (size_t i = 0; i < kSizes.size(); ++i) {
    const auto step = static_cast<int64_t>(i * i / 2 + 1);
    expected[i] = {.param = p.host[i].data(),
                   .grad = g.host[i].data(),
                   .size = kSizes[i],
                   .step = step,
                   .product = 0.5,
                   .norms = {norms, norms + 1}};
    slices[i] = {.param = p.device[i]->data(),
                 .grad = g.device[i]->data(),
                 .size = kSizes[i],
                 .step = step,
                 .product = 0.5,
                 .norms = {device_norms.data(), device_norms.data() + 1}};
    for (size_t k = 0; k < states; ++k) {
      expected[i].state[k] = state[k]->host[i].data();
      slices[i].state[k] = state[k]->device[i]->data();
    }
  }
  const auto count = static_cast<int64_t>(slices.size());
  cpu::optimizer_kernels.step({}, f64, rule, expected.data(), count);
  device.kernels().optimizer.step(device.stream(), dtype_of<T>, rule, slices.data(), count);
  device.synchronize();
  p.expect_equal(16 * kRounding<T>);
  for (const auto& list : state) list->expect_equal(16 * kRounding<C>);
}

template <class T>
void check_type(const TestDevice& device) {
  check_rule<T>(device, "adamw", AdamOptions{.lr = 0.01, .weight_decay = 0.1, .decoupled = true}, 2, 1);
  check_rule<T>(device, "amsgrad", AdamOptions{.lr = 0.01, .weight_decay = 0.1, .maximize = true}, 3, 1);
  check_rule<T>(device, "sgd", SgdOptions{.lr = 0.1, .weight_decay = 0.01}, 0);
  check_rule<T>(device, "momentum", SgdOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.3, .maximize = true}, 1);
  check_rule<T>(device, "nesterov", SgdOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true}, 1);
  check_rule<T>(device, "adagrad", AdagradOptions{.lr = 0.1, .lr_decay = 0.1, .weight_decay = 0.01}, 1, 0);
  check_rule<T>(device, "rmsprop", RmspropOptions{.lr = 0.01, .weight_decay = 0.1}, 1, 0);
  check_rule<T>(device, "adadelta", AdadeltaOptions{.lr = 0.1, .eps = 1e-3, .maximize = true}, 2, 0);
  check_rule<T>(device, "adamax", AdamaxOptions{.lr = 0.01, .eps = 0.01, .weight_decay = 0.1}, 2, 1);
  check_rule<T>(device, "nadam", NadamOptions{.lr = 0.01, .weight_decay = 0.1, .decoupled = true}, 2, 1);
  check_rule<T>(device, "radam", RadamOptions{.lr = 0.01, .weight_decay = 0.1}, 2, 1);
  check_rule<T>(device, "lion", LionOptions{.lr = 0.01, .weight_decay = 0.1}, 1);
  check_rule<T>(device, "lamb direction", LambDirection{.weight_decay = 0.1}, 3, 1);
  check_rule<T>(device, "lamb apply", LambApply{.lr = 0.01}, 1);
  check_rule<T>(device, "lerp", Lerp{.weight = 0.25}, 0);
}

TEST(OptimizerDevice, StepsAsOnTheCpu) {
  on_devices([](const TestDevice& device) {
    check_type<float>(device);
    check_type<double>(device);
    check_type<BFloat16>(device);
    check_type<Half>(device);
  });
}

// The same fused multiply-adds as the CPU's vector kernels; its baseline has none.
TEST(OptimizerDevice, AdamInF32IsTheCpusWithinAUnit) {
  on_devices([](const TestDevice& device) {
    const size_t n = 3001;
    std::vector<float> p = random_values<float>(n, 1, 1), m = random_values<float>(n, 0.1, 3);
    const std::vector<float> g = random_values<float>(n, 1, 2);
    std::vector<float> v(n, 0.25f);
    DeviceArray<float> dp(device, p), dg(device, g), dm(device, m), dv(device, v);
    const OptimizerSlice host{p.data(), g.data(), {m.data(), v.data()}, static_cast<int64_t>(n), 9};
    const OptimizerSlice slice{dp.data(), dg.data(), {dm.data(), dv.data()}, static_cast<int64_t>(n), 9};
    const AdamOptions options{.lr = 0.01, .weight_decay = 0.1, .decoupled = true};
    cpu::optimizer_kernels.step({}, f32, options, &host, 1);
    device.kernels().optimizer.step(device.stream(), f32, options, &slice, 1);
    device.synchronize();
    expect_close(dp.host(), converted<double>(p), 0x1p-23);
    expect_close(dm.host(), converted<double>(m), 0x1p-23);
    expect_close(dv.host(), converted<double>(v), 0x1p-23);
  });
}

template <class T>
void check_norm_and_scale(const TestDevice& device, const std::vector<int64_t>& sizes) {
  SCOPED_TRACE(testing::Message() << name(dtype_of<T>) << ", " << sizes.size() << " slices");
  Lists<T> x(device, sizes, 6);
  std::vector<ConstSlice> read, host;
  std::vector<MutableSlice> write;
  std::vector<double> expected(sizes.size() + 1);
  for (size_t i = 0; i < sizes.size(); ++i) {
    read.push_back({x.device[i]->data(), sizes[i]});
    host.push_back({x.host[i].data(), sizes[i]});
    write.push_back({x.device[i]->data(), sizes[i]});
  }
  const auto count = static_cast<int64_t>(sizes.size());
  const OptimizerKernels& kernels = device.kernels().optimizer;
  for (const double p : {2.0, 1.0, 0.0, 3.0, std::numeric_limits<double>::infinity()}) {
    SCOPED_TRACE(testing::Message() << "p " << p);
    double on_host = 0;
    cpu::optimizer_kernels.power_sum({}, f64, p, host.data(), count, &on_host);
    DeviceArray<double> result(device, 1), again(device, 1);
    kernels.power_sum(device.stream(), dtype_of<T>, p, read.data(), count, result.data());
    kernels.power_sum(device.stream(), dtype_of<T>, p, read.data(), count, again.data());
    device.synchronize();
    expect_close(result.host(), {on_host}, 1e-13);
    expect_same_bits(again.host(), result.host());
  }
  DeviceArray<double> each(device, sizes.size());
  std::vector<double> on_host(sizes.size());
  cpu::optimizer_kernels.squares({}, f64, host.data(), count, on_host.data());
  kernels.squares(device.stream(), dtype_of<T>, read.data(), count, each.data());
  kernels.scale(device.stream(), dtype_of<T>, write.data(), count, 0.375);
  DeviceArray<float> found(device, std::vector<float>{0});
  kernels.unscale(device.stream(), dtype_of<T>, write.data(), count, 2, found.data());
  device.synchronize();
  expect_close(each.host(), on_host, 1e-13);
  for (auto& list : x.host)
    for (double& value : list) value *= 0.75;
  x.expect_equal(4 * kRounding<T>);
  EXPECT_EQ(found.host()[0], 0);
}

TEST(OptimizerDevice, NormsAndScaling) {
  on_devices([](const TestDevice& device) {
    check_norm_and_scale<float>(device, kSizes);
    check_norm_and_scale<double>(device, kSizes);
    check_norm_and_scale<BFloat16>(device, kSizes);
    check_norm_and_scale<Half>(device, kSizes);
    check_norm_and_scale<float>(device, {});
    check_norm_and_scale<float>(device, std::vector<int64_t>(1500, 3));  // a table of several uploads
  });
}

TEST(OptimizerDevice, WhatIsNotFiniteIsFound) {
  on_devices([](const TestDevice& device) {
    for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> values(5000, 1);
      values[4321] = bad;
      DeviceArray<float> x(device, values), found(device, std::vector<float>{0});
      DeviceArray<double> norm(device, 2);
      const ConstSlice read{x.data(), 5000};
      const MutableSlice write{x.data(), 5000};
      const OptimizerKernels& kernels = device.kernels().optimizer;
      kernels.power_sum(device.stream(), f32, 2, &read, 1, norm.data());
      kernels.power_sum(device.stream(), f32, std::numeric_limits<double>::infinity(), &read, 1, norm.data() + 1);
      kernels.unscale(device.stream(), f32, &write, 1, 0.5, found.data());
      device.synchronize();
      EXPECT_EQ(found.host()[0], 1);
      for (const double value : norm.host()) EXPECT_FALSE(std::isfinite(value));
      EXPECT_EQ(std::isnan(norm.host()[1]), std::isnan(bad));
    }
  });
}

}  // namespace
}  // namespace weft
