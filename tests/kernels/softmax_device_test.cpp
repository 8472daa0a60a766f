// The device's softmax against the CPU's in f64.
#include "kernels/softmax/softmax.h"

#include "tests/kernels/device_test.h"

namespace weft {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class T>
void check(const TestDevice& device, int64_t outer, int64_t size, int64_t inner, bool log, double scale,
           size_t shift = 0) {
  SCOPED_TRACE(testing::Message() << name(dtype_of<T>) << " " << outer << " x " << size << " x " << inner << " log "
                                  << log << " shift " << shift);
  const auto count = static_cast<size_t>(outer * size * inner);
  const std::vector<T> x = random_values<T>(count, scale, 5), dy = random_values<T>(count, 1, 6);
  const SoftmaxKernels& softmax = device.kernels().softmax;
  DeviceArray<T> device_x(device, x, shift), device_dy(device, dy, shift), y(device, count, shift),
      dx(device, count, shift);
  softmax.forward(device.stream(), dtype_of<T>, device_x.data(), y.data(), outer, size, inner, log);
  const std::vector<T> result = y.host();

  std::vector<double> expected = converted<double>(x), expected_dx(count);
  cpu::softmax_kernels.forward({}, f64, expected.data(), expected.data(), outer, size, inner, log);
  const double tolerance = 40 * kRounding<T>;
  expect_close(result, expected, tolerance);

  // The backward pass starts from the result as it is stored.
  softmax.backward(device.stream(), dtype_of<T>, y.data(), device_dy.data(), dx.data(), outer, size, inner, log);
  const std::vector<double> rounded = converted<double>(result), grad = converted<double>(dy);
  cpu::softmax_kernels.backward({}, f64, rounded.data(), grad.data(), expected_dx.data(), outer, size, inner, log);
  expect_close(dx.host(), expected_dx, tolerance * (log ? 4 * std::sqrt(static_cast<double>(size)) : 4));

  // In place, with the same bits.
  softmax.forward(device.stream(), dtype_of<T>, device_x.data(), device_x.data(), outer, size, inner, log);
  expect_same_bits(device_x.host(), result);
  softmax.backward(device.stream(), dtype_of<T>, y.data(), device_dy.data(), device_dy.data(), outer, size, inner, log);
  expect_same_bits(device_dy.host(), dx.host());
}

template <class T>
void check_all(const TestDevice& device) {
  for (const bool log : {false, true}) {
    for (const int64_t size : {1, 3, 16, 31, 64, 100, 257, 1000, 1024, 1032}) {
      check<T>(device, 7, size, 1, log, 3);
      check<T>(device, 2, size, 1, log, 3, 1);
    }
    for (const int64_t inner : {2, 5, 32, 67}) {
      check<T>(device, 3, 1, inner, log, 3);
      check<T>(device, 3, 9, inner, log, 3);
      check<T>(device, 1, 100, inner, log, 3);
    }
    check<T>(device, 2, 4096, 1, log, 20);
    check<T>(device, 2, 33001, 1, log, 5);
    check<T>(device, 1, 70000, 1, log, 5, 3);
    check<T>(device, 0, 4, 1, log, 1);
    check<T>(device, 4, 0, 1, log, 1);
    check<T>(device, 4, 4, 0, log, 1);
  }
}

TEST(SoftmaxDevice, F32AgreesWithCpu) { on_devices(check_all<float>); }
TEST(SoftmaxDevice, F64AgreesWithCpu) { on_devices(check_all<double>); }
TEST(SoftmaxDevice, F16AgreesWithCpu) { on_devices(check_all<Half>); }
TEST(SoftmaxDevice, BF16AgreesWithCpu) { on_devices(check_all<BFloat16>); }

template <class T>
void check_special(const TestDevice& device) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const int64_t size : {7, 260, 1100, 40000}) {
    for (const int64_t inner : {1, 3}) {
      for (const double special : {-kInfinity, kInfinity, nan}) {
        for (const int64_t at : {int64_t{0}, size / 2, size - 1}) {
          SCOPED_TRACE(testing::Message() << size << " x " << inner << ": " << special << " at " << at);
          std::vector<T> x(static_cast<size_t>(size * inner), T(1.0f));
          x[static_cast<size_t>(at * inner)] = T(static_cast<float>(special));
          DeviceArray<T> y(device, x);
          device.kernels().softmax.forward(device.stream(), dtype_of<T>, y.data(), y.data(), 1, size, inner, false);
          std::vector<double> expected(x.size(), 1.0 / static_cast<double>(size));
          for (int64_t i = 0; i < size; ++i) {
            const bool removed = special == -kInfinity;
            expected[static_cast<size_t>(i * inner)] = !removed  ? nan
                                                       : i == at ? 0.0
                                                                 : 1.0 / static_cast<double>(size - 1);
          }
          expect_close(y.host(), expected, 8 * kRounding<T>);
        }
      }
      const std::vector<T> nothing(static_cast<size_t>(size * inner), T(static_cast<float>(-kInfinity)));
      DeviceArray<T> y(device, nothing);
      device.kernels().softmax.forward(device.stream(), dtype_of<T>, y.data(), y.data(), 1, size, inner, true);
      expect_close(y.host(), std::vector<double>(nothing.size(), nan), 0);
    }
  }
}

TEST(SoftmaxDevice, InfinitiesAndNaN) {
  on_devices([](const TestDevice& device) {
    check_special<float>(device);
    check_special<BFloat16>(device);
  });
}

TEST(SoftmaxDevice, LargeLogitsKeepTheirDistribution) {
  on_devices([](const TestDevice& device) {
    for (const float offset : {1e4f, -1e4f, 3e38f}) {
      const std::vector<float> x(33, offset);
      DeviceArray<float> y(device, x);
      device.kernels().softmax.forward(device.stream(), f32, y.data(), y.data(), 1, 33, 1, true);
      expect_close(y.host(), std::vector<double>(33, -std::log(33.0)), 1e-6);
    }
  });
}

TEST(SoftmaxDevice, OtherDtypesAreAnError) {
  on_devices([](const TestDevice& device) {
    const SoftmaxKernels& softmax = device.kernels().softmax;
    EXPECT_THROW(softmax.forward(device.stream(), i64, nullptr, nullptr, 1, 1, 1, false), Error);
    EXPECT_THROW(softmax.backward(device.stream(), f8e4m3, nullptr, nullptr, nullptr, 1, 1, 1, false), Error);
  });
}

}  // namespace
}  // namespace weft
