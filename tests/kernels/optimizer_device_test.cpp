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

template <class T>
void check_adam(const TestDevice& device, const AdamOptions& options, bool amsgrad) {
  SCOPED_TRACE(testing::Message() << "adam " << name(dtype_of<T>) << (amsgrad ? " amsgrad" : ""));
  Lists<T> p(device, kSizes, 1), g(device, kSizes, 2), m(device, kSizes, 3), v(device, kSizes, 4, true),
      v_max(device, kSizes, 5, true);
  std::vector<AdamSlice> expected(kSizes.size()), slices(kSizes.size());
  for (size_t i = 0; i < kSizes.size(); ++i) {
    const auto step = static_cast<int64_t>(i * i / 2 + 1);
    expected[i] = {p.host[i].data(),
                   g.host[i].data(),
                   m.host[i].data(),
                   v.host[i].data(),
                   amsgrad ? v_max.host[i].data() : nullptr,
                   kSizes[i],
                   step};
    slices[i] = {p.device[i]->data(),
                 g.device[i]->data(),
                 m.device[i]->data(),
                 v.device[i]->data(),
                 amsgrad ? v_max.device[i]->data() : nullptr,
                 kSizes[i],
                 step};
  }
  const auto count = static_cast<int64_t>(slices.size());
  cpu::optimizer_kernels.adam({}, f64, options, expected.data(), count);
  device.kernels().optimizer.adam(device.stream(), dtype_of<T>, options, slices.data(), count);
  device.synchronize();
  for (const Lists<T>* list : {&p, &m, &v, &v_max}) list->expect_equal(16 * kRounding<T>);
}

template <class T>
void check_sgd(const TestDevice& device, const SgdOptions& options) {
  SCOPED_TRACE(testing::Message() << "sgd " << name(dtype_of<T>) << " momentum " << options.momentum);
  Lists<T> p(device, kSizes, 1), g(device, kSizes, 2), b(device, kSizes, 3);
  std::vector<SgdSlice> expected(kSizes.size()), slices(kSizes.size());
  for (size_t i = 0; i < kSizes.size(); ++i) {
    expected[i] = {p.host[i].data(), g.host[i].data(), b.host[i].data(), kSizes[i], i % 2 == 0};
    slices[i] = {p.device[i]->data(), g.device[i]->data(), b.device[i]->data(), kSizes[i], i % 2 == 0};
  }
  const auto count = static_cast<int64_t>(slices.size());
  cpu::optimizer_kernels.sgd({}, f64, options, expected.data(), count);
  device.kernels().optimizer.sgd(device.stream(), dtype_of<T>, options, slices.data(), count);
  device.synchronize();
  p.expect_equal(16 * kRounding<T>);
  b.expect_equal(16 * kRounding<T>);
}

template <class T>
void check_type(const TestDevice& device) {
  check_adam<T>(device, {.lr = 0.01, .weight_decay = 0.1, .decoupled = true}, false);
  check_adam<T>(device, {.lr = 0.01, .weight_decay = 0.1, .maximize = true}, true);
  check_sgd<T>(device, {.lr = 0.1, .weight_decay = 0.01});
  check_sgd<T>(device, {.lr = 0.1, .momentum = 0.9, .dampening = 0.3, .maximize = true});
  check_sgd<T>(device, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true});
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
    const AdamSlice host{p.data(), g.data(), m.data(), v.data(), nullptr, static_cast<int64_t>(n), 9};
    const AdamSlice slice{dp.data(), dg.data(), dm.data(), dv.data(), nullptr, static_cast<int64_t>(n), 9};
    const AdamOptions options{.lr = 0.01, .weight_decay = 0.1, .decoupled = true};
    cpu::optimizer_kernels.adam({}, f32, options, &host, 1);
    device.kernels().optimizer.adam(device.stream(), f32, options, &slice, 1);
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
  std::vector<ConstSlice> read;
  std::vector<MutableSlice> write;
  double expected = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    read.push_back({x.device[i]->data(), sizes[i]});
    write.push_back({x.device[i]->data(), sizes[i]});
    for (double& value : x.host[i]) {
      expected += value * value;
      value *= 0.375;
    }
  }
  const auto count = static_cast<int64_t>(sizes.size());
  DeviceArray<double> result(device, 1), again(device, 1);
  const OptimizerKernels& kernels = device.kernels().optimizer;
  kernels.sum_of_squares(device.stream(), dtype_of<T>, read.data(), count, result.data());
  kernels.sum_of_squares(device.stream(), dtype_of<T>, read.data(), count, again.data());
  kernels.scale(device.stream(), dtype_of<T>, write.data(), count, 0.375);
  device.synchronize();
  expect_close(result.host(), {expected}, 1e-13);
  expect_same_bits(again.host(), result.host());
  x.expect_equal(2 * kRounding<T>);
}

TEST(OptimizerDevice, SumOfSquaresAndScale) {
  on_devices([](const TestDevice& device) {
    check_norm_and_scale<float>(device, kSizes);
    check_norm_and_scale<double>(device, kSizes);
    check_norm_and_scale<BFloat16>(device, kSizes);
    check_norm_and_scale<Half>(device, kSizes);
    check_norm_and_scale<float>(device, {});
    check_norm_and_scale<float>(device, std::vector<int64_t>(1500, 3));  // a table of several uploads
  });
}

}  // namespace
}  // namespace weft
