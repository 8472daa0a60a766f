// The device's pooling against the CPU's, bit for bit in f32 and f64.
#include "kernels/conv/conv.h"

#include "tests/kernels/device_test.h"

namespace weft {
namespace {

template <class T>
void check(const TestDevice& device, const Pool2dShape& s, bool average, bool special = false) {
  SCOPED_TRACE(testing::Message() << name(dtype_of<T>) << ", average " << average << ", " << s.planes << " x "
                                  << s.in_height << " x " << s.in_width << ", kernel " << s.kernel_height << " x "
                                  << s.kernel_width << ", stride " << s.stride_height << ", padding "
                                  << s.padding_height << ", dilation " << s.dilation_height << ", ceil "
                                  << s.ceil_mode);
  using S = StatisticType<T>;
  const auto inputs = static_cast<size_t>(s.planes * s.in_height * s.in_width);
  const auto outputs = static_cast<size_t>(s.planes * s.out_height() * s.out_width());
  std::vector<T> x = random_values<T>(inputs, 1, 1);
  const std::vector<T> dy = random_values<T>(outputs, 1, 2);
  if (special) {
    for (size_t i = 0; i < inputs; i += 5) x[i] = T(std::numeric_limits<float>::quiet_NaN());
    for (size_t i = 1; i < inputs; i += 3) x[i] = T(-std::numeric_limits<float>::infinity());
    for (size_t i = 2; i < inputs; i += 3) x[i] = T(1.0f);  // equals
  }
  DeviceArray<T> device_x(device, x), device_dy(device, dy), y(device, outputs), dx(device, inputs);
  DeviceArray<int64_t> indices(device, outputs);
  const std::vector<S> wide_x = converted<S>(x), wide_dy = converted<S>(dy);
  std::vector<S> expected_y(outputs), expected_dx(inputs);
  std::vector<int64_t> expected_indices(outputs);
  const ConvKernels& kernels = device.kernels().conv;
  const Stream stream = device.stream();
  if (average) {
    kernels.avg_pool2d_forward(stream, dtype_of<T>, s, device_x.data(), y.data());
    kernels.avg_pool2d_backward(stream, dtype_of<T>, s, device_dy.data(), dx.data());
    cpu::conv_kernels.avg_pool2d_forward({}, dtype_of<S>, s, wide_x.data(), expected_y.data());
    cpu::conv_kernels.avg_pool2d_backward({}, dtype_of<S>, s, wide_dy.data(), expected_dx.data());
  } else {
    kernels.max_pool2d_forward(stream, dtype_of<T>, s, device_x.data(), y.data(), indices.data());
    kernels.max_pool2d_backward(stream, dtype_of<T>, s, device_dy.data(), indices.data(), dx.data());
    cpu::conv_kernels.max_pool2d_forward({}, dtype_of<S>, s, wide_x.data(), expected_y.data(), expected_indices.data());
    cpu::conv_kernels.max_pool2d_backward({}, dtype_of<S>, s, wide_dy.data(), expected_indices.data(),
                                          expected_dx.data());
    EXPECT_EQ(indices.host(), expected_indices);
  }
  if constexpr (std::is_same_v<S, T>) {
    if (!special) expect_same_bits(y.host(), expected_y);
    expect_same_bits(dx.host(), expected_dx);
  } else {
    if (!special) expect_same_bits(y.host(), converted<T>(expected_y));
    expect_same_bits(dx.host(), converted<T>(expected_dx));
  }
  if (special) expect_close(y.host(), converted<double>(expected_y), 0);
}

std::vector<Pool2dShape> shapes() {
  Pool2dShape plain;
  plain.planes = 3;
  plain.in_height = 9;
  plain.in_width = 14;
  plain.kernel_height = plain.kernel_width = 2;
  plain.stride_height = plain.stride_width = 2;
  std::vector<Pool2dShape> all = {plain};
  Pool2dShape s = plain;
  s.kernel_height = 3, s.kernel_width = 4, s.stride_height = 2, s.stride_width = 1;
  s.padding_height = 1, s.padding_width = 2;
  all.push_back(s);
  s.ceil_mode = true, s.stride_width = 3;
  all.push_back(s);
  s.count_include_pad = false;
  all.push_back(s);
  s.divisor_override = 5;
  all.push_back(s);
  s = plain;
  s.kernel_height = 1, s.stride_height = 3;  // elements that no window covers
  all.push_back(s);
  s = plain;
  s.planes = 300, s.in_height = 1, s.in_width = 30, s.kernel_height = 1, s.stride_height = 1;
  all.push_back(s);
  s = plain;
  s.planes = 0;
  all.push_back(s);
  return all;
}

template <class T>
void check_all(const TestDevice& device) {
  for (Pool2dShape s : shapes()) {
    check<T>(device, s, true);
    check<T>(device, s, false);
    check<T>(device, s, false, true);
    if (s.kernel_height < 3) continue;
    s.dilation_height = 2, s.dilation_width = 3, s.in_width = 20;
    check<T>(device, s, false);
    check<T>(device, s, false, true);
  }
}

TEST(PoolDevice, F32AgreesWithCpu) { on_devices(check_all<float>); }
TEST(PoolDevice, F64AgreesWithCpu) { on_devices(check_all<double>); }
TEST(PoolDevice, F16AgreesWithCpu) { on_devices(check_all<Half>); }
TEST(PoolDevice, BF16AgreesWithCpu) { on_devices(check_all<BFloat16>); }

TEST(PoolDevice, OtherDtypesAreAnError) {
  on_devices([](const TestDevice& device) {
    EXPECT_THROW(device.kernels().conv.avg_pool2d_forward(device.stream(), i32, Pool2dShape(), nullptr, nullptr),
                 Error);
  });
}

}  // namespace
}  // namespace weft
