// The device's layer norm and RMS norm against the CPU's in f64.
#include "kernels/norm/norm.h"

#include "tests/kernels/device_test.h"

namespace weft {
namespace {

constexpr double kEps = 1e-5;

struct Case {
  int64_t rows, columns;
  bool center = true, weight = true, bias = true;
  size_t shift = 0;
  double offset = 0;  // added to every element of x
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.rows << " x " << c.columns << ", center " << c.center << ", weight " << c.weight << ", bias "
             << c.bias << ", shift " << c.shift << ", offset " << c.offset;
}

struct Expected {
  std::vector<double> y, mean, rstd, dx, dweight, dbias;
};

Expected reference(const Case& c, const std::vector<double>& x, const std::vector<double>& dy,
                   const std::vector<double>& weight, const std::vector<double>& bias) {
  Expected e;
  e.y.resize(x.size());
  e.dx.resize(x.size());
  e.mean.resize(static_cast<size_t>(c.rows));
  e.rstd.resize(static_cast<size_t>(c.rows));
  e.dweight.resize(static_cast<size_t>(c.columns));
  e.dbias.resize(static_cast<size_t>(c.columns));
  const double* w = c.weight ? weight.data() : nullptr;
  const NormKernels& norm = cpu::norm_kernels;
  if (c.center) {
    norm.layer_norm_forward({}, f64, x.data(), w, c.bias ? bias.data() : nullptr, e.y.data(), e.mean.data(),
                            e.rstd.data(), c.rows, c.columns, kEps);
    norm.layer_norm_backward({}, f64, dy.data(), x.data(), w, e.mean.data(), e.rstd.data(), e.dx.data(),
                             e.dweight.data(), e.dbias.data(), c.rows, c.columns);
  } else {
    norm.rms_norm_forward({}, f64, x.data(), w, e.y.data(), e.rstd.data(), c.rows, c.columns, kEps);
    norm.rms_norm_backward({}, f64, dy.data(), x.data(), w, e.rstd.data(), e.dx.data(), e.dweight.data(), c.rows,
                           c.columns);
  }
  return e;
}

template <class T>
void check(const TestDevice& device, const Case& c) {
  SCOPED_TRACE(testing::Message() << name(dtype_of<T>) << " " << c);
  using S = StatisticType<T>;
  const auto count = static_cast<size_t>(c.rows * c.columns), columns = static_cast<size_t>(c.columns);
  const auto rows = static_cast<size_t>(c.rows);
  std::vector<T> x = random_values<T>(count, 1, 1);
  for (T& value : x) value = T(static_cast<float>(value) + static_cast<float>(c.offset));
  const std::vector<T> dy = random_values<T>(count, 1, 2), weight = random_values<T>(columns, 1, 3),
                       bias = random_values<T>(columns, 1, 4);
  const Expected expected =
      reference(c, converted<double>(x), converted<double>(dy), converted<double>(weight), converted<double>(bias));

  DeviceArray<T> device_x(device, x, c.shift), device_dy(device, dy, c.shift), device_weight(device, weight, c.shift),
      device_bias(device, bias, c.shift);
  DeviceArray<T> y(device, count, c.shift), dx(device, count, c.shift), dweight(device, columns),
      dbias(device, columns);
  DeviceArray<S> mean(device, rows), rstd(device, rows);
  const T* w = c.weight ? device_weight.data() : nullptr;
  const NormKernels& norm = device.kernels().norm;
  const Stream stream = device.stream();
  const auto forward = [&](T* result) {
    if (c.center)
      norm.layer_norm_forward(stream, dtype_of<T>, device_x.data(), w, c.bias ? device_bias.data() : nullptr, result,
                              mean.data(), rstd.data(), c.rows, c.columns, kEps);
    else
      norm.rms_norm_forward(stream, dtype_of<T>, device_x.data(), w, result, rstd.data(), c.rows, c.columns, kEps);
  };
  const auto backward = [&](T* result, T* weight_gradient, T* bias_gradient) {
    if (c.center)
      norm.layer_norm_backward(stream, dtype_of<T>, device_dy.data(), device_x.data(), w, mean.data(), rstd.data(),
                               result, weight_gradient, bias_gradient, c.rows, c.columns);
    else
      norm.rms_norm_backward(stream, dtype_of<T>, device_dy.data(), device_x.data(), w, rstd.data(), result,
                             weight_gradient, c.rows, c.columns);
  };
  forward(y.data());
  backward(dx.data(), dweight.data(), c.center ? dbias.data() : nullptr);

  // The reference adds up in f64, one after the other: nearly exact for the other dtypes, but not for f64 itself.
  const double terms = std::is_same_v<T, double> ? 16 + static_cast<double>(c.columns) / 16 : 16;
  const double statistics = terms * kRounding<S> * (1 + std::abs(c.offset));
  const double tolerance = 2 * kRounding<T> + 4 * statistics;
  expect_close(y.host(), expected.y, tolerance);
  expect_close(rstd.host(), expected.rstd, statistics);
  expect_close(dx.host(), expected.dx, 3 * tolerance);
  const double of_sum = tolerance * (1 + std::sqrt(static_cast<double>(c.rows)));
  expect_close(dweight.host(), expected.dweight, of_sum);
  if (c.center) {
    expect_close(mean.host(), expected.mean, statistics);
    expect_close(dbias.host(), expected.dbias, of_sum);
  }

  // Only what is asked for, and in place, with the same bits.
  DeviceArray<T> alone(device, columns);
  backward(nullptr, alone.data(), nullptr);
  expect_same_bits(alone.host(), dweight.host());
  backward(device_dy.data(), nullptr, nullptr);
  expect_same_bits(device_dy.host(), dx.host());
  forward(device_x.data());
  expect_same_bits(device_x.host(), y.host());
}

template <class T>
void check_all(const TestDevice& device) {
  for (const int64_t columns : {1, 3, 16, 100, 255, 256, 768, 1024, 1030})
    check<T>(device, {.rows = 37, .columns = columns});
  check<T>(device, {.rows = 9, .columns = 256, .center = false, .bias = false});
  check<T>(device, {.rows = 9, .columns = 300, .center = false, .weight = false, .bias = false});
  check<T>(device, {.rows = 9, .columns = 64, .weight = false, .bias = false});
  check<T>(device, {.rows = 9, .columns = 128, .bias = false, .shift = 1});
  check<T>(device, {.rows = 2, .columns = 4096});
  check<T>(device, {.rows = 3, .columns = 9001});
  check<T>(device, {.rows = 2, .columns = 40000, .shift = 3});
  check<T>(device, {.rows = 2, .columns = 40000, .center = false, .bias = false});
  check<T>(device, {.rows = 1, .columns = 5});
}

TEST(NormDevice, F32AgreesWithCpu) { on_devices(check_all<float>); }
TEST(NormDevice, F64AgreesWithCpu) { on_devices(check_all<double>); }
TEST(NormDevice, F16AgreesWithCpu) { on_devices(check_all<Half>); }
TEST(NormDevice, BF16AgreesWithCpu) { on_devices(check_all<BFloat16>); }

TEST(NormDevice, ManyRowsAreSummedInTiles) {
  on_devices([](const TestDevice& device) {
    check<float>(device, {.rows = 8203, .columns = 5});
    check<double>(device, {.rows = 1001, .columns = 33});
    check<float>(device, {.rows = 40, .columns = 512});
  });
}

TEST(NormDevice, ACommonOffsetCostsNoPrecision) {
  on_devices([](const TestDevice& device) { check<float>(device, {.rows = 4, .columns = 512, .offset = 1000}); });
}

TEST(NormDevice, NoRowsGiveZeroGradients) {
  on_devices([](const TestDevice& device) {
    const std::vector<float> old(6, 7.0f);
    DeviceArray<float> dweight(device, old), dbias(device, old);
    const NormKernels& norm = device.kernels().norm;
    norm.layer_norm_forward(device.stream(), f32, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, 0, 6, kEps);
    norm.layer_norm_backward(device.stream(), f32, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, dweight.data(),
                             dbias.data(), 0, 6);
    expect_same_bits(dweight.host(), std::vector<float>(6, 0.0f));
    expect_same_bits(dbias.host(), std::vector<float>(6, 0.0f));
    norm.rms_norm_forward(device.stream(), f32, nullptr, nullptr, nullptr, nullptr, 5, 0, kEps);
    norm.rms_norm_backward(device.stream(), f32, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, 5, 0);
  });
}

TEST(NormDevice, ANaNStaysInItsRow) {
  on_devices([](const TestDevice& device) {
    for (const int64_t columns : {8, 2000}) {
      std::vector<float> x = random_values<float>(static_cast<size_t>(3 * columns), 1, 9);
      x[static_cast<size_t>(columns + 2)] = std::numeric_limits<float>::quiet_NaN();
      DeviceArray<float> in(device, x), y(device, x.size()), rstd(device, 3);
      device.kernels().norm.rms_norm_forward(device.stream(), f32, in.data(), nullptr, y.data(), rstd.data(), 3,
                                             columns, kEps);
      const std::vector<float> result = y.host();
      for (size_t i = 0; i < result.size(); ++i)
        ASSERT_EQ(std::isnan(result[i]), static_cast<int64_t>(i) / columns == 1) << i;
    }
  });
}

TEST(NormDevice, OtherDtypesAreAnError) {
  on_devices([](const TestDevice& device) {
    EXPECT_THROW(
        device.kernels().norm.rms_norm_forward(device.stream(), i32, nullptr, nullptr, nullptr, nullptr, 1, 1, kEps),
        Error);
  });
}

}  // namespace
}  // namespace weft
