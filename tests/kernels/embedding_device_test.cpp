// The device's embedding against the CPU's, bit for bit in f32 and f64.
#include "kernels/embedding/embedding.h"

#include "tests/kernels/device_test.h"

namespace weft {
namespace {

template <class T>
void check(const TestDevice& device, int64_t count, int64_t vocabulary, int64_t width, size_t shift = 0) {
  SCOPED_TRACE(testing::Message() << name(dtype_of<T>) << " " << count << " of " << vocabulary << " x " << width);
  const auto table_size = static_cast<size_t>(vocabulary * width), output_size = static_cast<size_t>(count * width);
  const std::vector<T> weight = random_values<T>(table_size, 1, 1), dy = random_values<T>(output_size, 1, 2);
  const std::vector<int64_t> indices = random_indices(static_cast<size_t>(count), vocabulary, 3);
  DeviceArray<T> device_weight(device, weight, shift), device_dy(device, dy, shift), output(device, output_size, shift);
  DeviceArray<int64_t> device_indices(device, indices);
  const EmbeddingKernels& kernels = device.kernels().embedding;
  kernels.forward(device.stream(), dtype_of<T>, device_weight.data(), device_indices.data(), output.data(), count,
                  vocabulary, width);
  std::vector<T> expected(output_size);
  cpu::embedding_kernels.forward({}, dtype_of<T>, weight.data(), indices.data(), expected.data(), count, vocabulary,
                                 width);
  expect_same_bits(output.host(), expected);

  // On top of an earlier gradient, without the padding.
  for (const int64_t padding : {int64_t{-1}, vocabulary / 2}) {
    DeviceArray<T> dweight(device, weight, shift);
    kernels.backward(device.stream(), dtype_of<T>, device_dy.data(), device_indices.data(), dweight.data(), count,
                     vocabulary, width, padding);
    using S = StatisticType<T>;
    std::vector<S> sums = converted<S>(weight);
    const std::vector<S> terms = converted<S>(dy);
    cpu::embedding_kernels.backward({}, dtype_of<S>, terms.data(), indices.data(), sums.data(), count, vocabulary,
                                    width, padding);
    if constexpr (std::is_same_v<S, T>)
      expect_same_bits(dweight.host(), sums);
    else
      expect_same_bits(dweight.host(), converted<T>(sums));
  }
}

template <class T>
void check_all(const TestDevice& device) {
  check<T>(device, 1, 1, 1);
  check<T>(device, 50, 7, 3);
  check<T>(device, 50, 7, 3, 1);
  check<T>(device, 300, 40, 32);
  check<T>(device, 100, 500, 100);
  check<T>(device, 2500, 3, 5);
  check<T>(device, 0, 4, 4);
  check<T>(device, 4, 4, 0);
}

TEST(EmbeddingDevice, F32AgreesWithCpu) { on_devices(check_all<float>); }
TEST(EmbeddingDevice, F64AgreesWithCpu) { on_devices(check_all<double>); }
TEST(EmbeddingDevice, F16AgreesWithCpu) { on_devices(check_all<Half>); }
TEST(EmbeddingDevice, BF16AgreesWithCpu) { on_devices(check_all<BFloat16>); }

TEST(EmbeddingDevice, AnyDtypeIsCopied) {
  on_devices([](const TestDevice& device) {
    const std::vector<uint8_t> table = {1, 2, 3, 4, 5, 6};
    DeviceArray<uint8_t> weight(device, table), output(device, 6);
    DeviceArray<int64_t> indices(device, std::vector<int64_t>{1, 1, 0});
    device.kernels().embedding.forward(device.stream(), boolean, weight.data(), indices.data(), output.data(), 2, 3, 2);
    const std::vector<uint8_t> result = output.host();
    EXPECT_EQ(std::vector<uint8_t>(result.begin(), result.begin() + 4), (std::vector<uint8_t>{3, 4, 3, 4}));
    EXPECT_THROW(device.kernels().embedding.backward(device.stream(), u8, nullptr, nullptr, nullptr, 1, 1, 1, -1),
                 Error);
  });
}

TEST(EmbeddingDevice, AnIndexOutsideTheTableIsAnErrorNamingIt) {
  on_devices([](const TestDevice& device) {
    for (const int64_t bad : {-3, 9}) {
      DeviceArray<float> weight(device, std::vector<float>(18, 1.0f)), rows(device, std::vector<float>(6, 1.0f));
      DeviceArray<int64_t> indices(device, std::vector<int64_t>{0, 8, bad});
      for (const bool backward : {false, true}) {
        try {
          if (backward)
            device.kernels().embedding.backward(device.stream(), f32, rows.data(), indices.data(), weight.data(), 3, 9,
                                                2, -1);
          else
            device.kernels().embedding.forward(device.stream(), f32, weight.data(), indices.data(), rows.data(), 3, 9,
                                               2);
          device.synchronize();
          ADD_FAILURE() << "no error for index " << bad;
        } catch (const Error& error) {
          EXPECT_EQ(error.op(), "embedding");
          EXPECT_NE(std::string(error.what()).find(fmt::format("position 2 holds {}", bad)), std::string::npos)
              << error.what();
        }
      }
    }
  });
}

}  // namespace
}  // namespace weft
