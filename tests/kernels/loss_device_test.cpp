// The device's cross entropy against the CPU's in f64.
#include "kernels/loss/loss.h"

#include "tests/kernels/device_test.h"

namespace weft {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Expected {
  std::vector<double> loss, row_max, log_sum, row_weight, dlogits;
};

Expected reference(CrossEntropyOptions options, const std::vector<double>& weight, const std::vector<double>& logits,
                   const std::vector<int64_t>& targets, const std::vector<double>& scale) {
  Expected e;
  for (auto* v : {&e.loss, &e.row_max, &e.log_sum, &e.row_weight}) v->resize(targets.size());
  e.dlogits.resize(logits.size());
  options.weight = options.weight ? weight.data() : nullptr;
  const auto rows = static_cast<int64_t>(targets.size());
  cpu::loss_kernels.cross_entropy_forward({}, f64, options, logits.data(), targets.data(), rows, e.loss.data(),
                                          e.row_max.data(), e.log_sum.data(), e.row_weight.data());
  cpu::loss_kernels.cross_entropy_backward({}, f64, options, logits.data(), targets.data(), rows, e.row_max.data(),
                                           e.log_sum.data(), scale.data(), scale.size() > 1 ? 1 : 0, e.dlogits.data());
  return e;
}

template <class T>
void check(const TestDevice& device, const std::vector<T>& logits, const std::vector<int64_t>& targets, int64_t classes,
           bool weighted, double smoothing, bool one_scale, size_t shift = 0) {
  SCOPED_TRACE(testing::Message() << name(dtype_of<T>) << " " << targets.size() << " x " << classes << ", weighted "
                                  << weighted << ", smoothing " << smoothing << ", shift " << shift);
  using S = StatisticType<T>;
  const auto rows = static_cast<int64_t>(targets.size());
  std::vector<T> weight = random_values<T>(static_cast<size_t>(classes), 1, 7);
  for (T& w : weight) w = T(std::abs(static_cast<float>(w)));
  const std::vector<S> scale = random_values<S>(one_scale ? 1 : targets.size(), 1, 8);
  DeviceArray<T> device_logits(device, logits, shift), device_weight(device, weight),
      dlogits(device, logits.size(), shift);
  DeviceArray<int64_t> device_targets(device, targets);
  DeviceArray<S> device_scale(device, scale), loss(device, targets.size()), row_max(device, targets.size()),
      log_sum(device, targets.size()), row_weight(device, targets.size());
  CrossEntropyOptions options;
  options.classes = classes;
  options.label_smoothing = smoothing;
  options.weight = weighted ? device_weight.data() : nullptr;
  const Expected expected =
      reference(options, converted<double>(weight), converted<double>(logits), targets, converted<double>(scale));

  const LossKernels& kernels = device.kernels().loss;
  const int64_t stride = one_scale ? 0 : 1;
  kernels.cross_entropy_forward(device.stream(), dtype_of<T>, options, device_logits.data(), device_targets.data(),
                                rows, loss.data(), row_max.data(), log_sum.data(), row_weight.data());
  kernels.cross_entropy_backward(device.stream(), dtype_of<T>, options, device_logits.data(), device_targets.data(),
                                 rows, row_max.data(), log_sum.data(), device_scale.data(), stride, dlogits.data());
  // exp of halves is the fast instruction; the results a row are f32 all the same.
  const double tolerance = 64 * kRounding<S>;
  expect_close(loss.host(), expected.loss, 4 * tolerance);
  expect_close(row_max.host(), expected.row_max, 0);
  expect_close(log_sum.host(), expected.log_sum, tolerance);
  expect_close(row_weight.host(), expected.row_weight, 0);
  expect_close(dlogits.host(), expected.dlogits, kRounding<T> + 4 * tolerance);

  // In place, with the same bits.
  kernels.cross_entropy_backward(device.stream(), dtype_of<T>, options, device_logits.data(), device_targets.data(),
                                 rows, row_max.data(), log_sum.data(), device_scale.data(), stride,
                                 device_logits.data());
  expect_same_bits(device_logits.host(), dlogits.host());
}

template <class T>
void check_all(const TestDevice& device) {
  for (const int64_t classes : {1, 2, 10, 33, 100, 1024, 1500, 5003}) {
    const int64_t rows = classes > 1000 ? 3 : 13;
    std::vector<int64_t> targets(static_cast<size_t>(rows));
    for (int64_t row = 0; row < rows; ++row)
      targets[static_cast<size_t>(row)] = row % 5 == 1 ? -100 : (row * 7 + classes - 1) % classes;
    const std::vector<T> logits = random_values<T>(static_cast<size_t>(rows * classes), 3, 11);
    check<T>(device, logits, targets, classes, false, 0, true);
    check<T>(device, logits, targets, classes, true, 0, false);
    check<T>(device, logits, targets, classes, true, 0.1, false, 1);
    check<T>(device, logits, targets, classes, false, 0.25, true);
  }
}

TEST(LossDevice, F32AgreesWithCpu) { on_devices(check_all<float>); }
TEST(LossDevice, F64AgreesWithCpu) { on_devices(check_all<double>); }
TEST(LossDevice, F16AgreesWithCpu) { on_devices(check_all<Half>); }
TEST(LossDevice, BF16AgreesWithCpu) { on_devices(check_all<BFloat16>); }

TEST(LossDevice, LargeVocabulary) {
  on_devices([](const TestDevice& device) {
    const std::vector<int64_t> targets = {50256, 0, 17};
    check<float>(device, random_values<float>(3 * 50257, 3, 12), targets, 50257, false, 0, true);
    check<BFloat16>(device, random_values<BFloat16>(3 * 50257, 3, 12), targets, 50257, false, 0, true);
  });
}

TEST(LossDevice, InfinitiesAndNaN) {
  on_devices([](const TestDevice& device) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    for (const int64_t classes : {5, 1200}) {
      for (const double special : {-kInfinity, kInfinity, nan}) {
        std::vector<float> logits(static_cast<size_t>(3 * classes), 0.5f);
        for (size_t row = 0; row < 3; ++row)
          logits[row * static_cast<size_t>(classes) + 3] = static_cast<float>(special);
        // The odd class as the target, as another class, and in a row that is ignored.
        check<float>(device, logits, {3, 1, -100}, classes, false, 0, true);
      }
      check<float>(device, std::vector<float>(static_cast<size_t>(classes), -std::numeric_limits<float>::infinity()),
                   {0}, classes, false, 0, true);
      // The logarithm must not drown in a large maximum.
      check<float>(device, std::vector<float>(static_cast<size_t>(classes), 1e8f), {2}, classes, false, 0, true);
    }
  });
}

TEST(LossDevice, ABadTargetIsAnErrorNamingIt) {
  on_devices([](const TestDevice& device) {
    for (const int64_t bad : {-1, 4}) {
      DeviceArray<float> logits(device, std::vector<float>(12, 1.0f)), results(device, 12), dlogits(device, 12);
      DeviceArray<int64_t> targets(device, std::vector<int64_t>{0, bad, 2});
      const auto is_reported = [&](auto&& launch) {
        try {
          launch();
          device.synchronize();
          ADD_FAILURE() << "no error for target " << bad;
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
          EXPECT_EQ(error.op(), "cross_entropy");
          EXPECT_NE(std::string(error.what()).find(std::to_string(bad)), std::string::npos) << error.what();
        }
        device.synchronize();  // it is reported once
      };
      const CrossEntropyOptions options{.classes = 4};
      const LossKernels& kernels = device.kernels().loss;
      is_reported([&] {
        kernels.cross_entropy_forward(device.stream(), f32, options, logits.data(), targets.data(), 3, results.data(),
                                      results.data() + 3, results.data() + 6, results.data() + 9);
      });
      is_reported([&] {
        kernels.cross_entropy_backward(device.stream(), f32, options, logits.data(), targets.data(), 3, results.data(),
                                       results.data() + 3, results.data() + 6, 0, dlogits.data());
      });
    }
  });
}

TEST(LossDevice, NoRows) {
  on_devices([](const TestDevice& device) {
    const CrossEntropyOptions options{.classes = 4};
    device.kernels().loss.cross_entropy_forward(device.stream(), f32, options, nullptr, nullptr, 0, nullptr, nullptr,
                                                nullptr, nullptr);
    device.synchronize();
  });
}

}  // namespace
}  // namespace weft
