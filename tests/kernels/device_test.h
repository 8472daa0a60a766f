// For tests of device kernels: the devices to test on, arrays that live there, and comparisons.
//
//   on_devices([](const TestDevice& device) {
//     DeviceArray<float> x(device, values), y(device, count);
//     device.kernels().softmax.forward(device.stream(), f32, x.data(), y.data(), rows, size, 1, false);
//     device.synchronize();
//     expect_close(y.host(), expected, 1e-6);
//   });
//
// simt runs the threads of a block in rising and in falling order; a GPU takes part where there is one.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/base/device.h"
#include "kernels/base/error.h"
#include "kernels/simt/emulator/config.h"
#include "kernels/table.h"

namespace weft {

struct TestDevice {
  Device device;
  bool reversed = false;

  Stream stream() const { return {device}; }
  const KernelTable& kernels() const { return kernel_table(device.type, "test"); }
  const DeviceRuntime& runtime() const { return device_runtime(device.type, "test"); }
  void synchronize() const { runtime().synchronize(stream()); }
};

template <class F>
void on_devices(F&& f) {
  for (const bool reversed : {false, true}) {
    SCOPED_TRACE(reversed ? "simt, threads in falling order" : "simt");
    emulator::config().reversed = reversed;
    f(TestDevice{Device::simt(), reversed});
  }
  emulator::config().reversed = false;
  if (device_count(DeviceType::cuda) > 0) {
    SCOPED_TRACE("cuda");
    f(TestDevice{Device::cuda(), false});
  }
}

// `count` elements on the device, `shift` of them after a 256-byte boundary. The elements around it keep their bits:
// host() fails the test otherwise.
template <class T>
class DeviceArray {
 public:
  DeviceArray(const TestDevice& device, size_t count, size_t shift = 0)
      : device_(device), count_(count), shift_(shift), bytes_((count + shift + kGuard) * sizeof(T)) {
    memory_ = device_.runtime().allocate(device_.device, static_cast<int64_t>(bytes_));
    if (!memory_) throw Error(ErrorCode::out_of_memory, "test", "no memory for an array");
    const std::vector<unsigned char> pattern(bytes_, kPattern);
    device_.runtime().copy(device_.stream(), memory_, device_.device, pattern.data(), Device::cpu(),
                           static_cast<int64_t>(bytes_));
  }
  DeviceArray(const TestDevice& device, const std::vector<T>& values, size_t shift = 0)
      : DeviceArray(device, values.size(), shift) {
    if (!values.empty())
      device_.runtime().copy(device_.stream(), data(), device_.device, values.data(), Device::cpu(),
                             static_cast<int64_t>(values.size() * sizeof(T)));
  }
  ~DeviceArray() {
    device_.runtime().synchronize(device_.stream());
    device_.runtime().free(device_.device, memory_);
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() { return static_cast<T*>(memory_) + shift_; }

  std::vector<T> host() const {
    std::vector<unsigned char> all(bytes_);
    device_.runtime().copy(device_.stream(), all.data(), Device::cpu(), memory_, device_.device,
                           static_cast<int64_t>(bytes_));
    device_.runtime().synchronize(device_.stream());
    for (size_t i = 0; i < bytes_; ++i) {
      if (i >= shift_ * sizeof(T) && i < (shift_ + count_) * sizeof(T)) continue;
      if (all[i] == kPattern) continue;
      ADD_FAILURE() << "byte " << i << " was written, outside the array of " << count_ << " elements";
      break;
    }
    std::vector<T> values(count_);
    if (count_) std::memcpy(static_cast<void*>(values.data()), all.data() + shift_ * sizeof(T), count_ * sizeof(T));
    return values;
  }

 private:
  static constexpr size_t kGuard = 16;
  static constexpr unsigned char kPattern = 0xA5;
  TestDevice device_;
  size_t count_, shift_, bytes_;
  void* memory_ = nullptr;
};

// Random numbers that T holds exactly.
template <class T>
std::vector<T> random_values(size_t count, double scale, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(0, scale);
  std::vector<T> values(count);
  for (T& x : values) x = T(static_cast<float>(normal(generator)));
  return values;
}

inline std::vector<int64_t> random_indices(size_t count, int64_t size, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_int_distribution<int64_t> uniform(0, size - 1);
  std::vector<int64_t> values(count);
  for (int64_t& x : values) x = uniform(generator);
  return values;
}

template <class To, class From>
std::vector<To> converted(const std::vector<From>& values) {
  std::vector<To> result;
  for (const From& x : values) {
    if constexpr (std::is_arithmetic_v<From>)
      result.push_back(static_cast<To>(x));
    else
      result.push_back(static_cast<To>(static_cast<float>(x)));
  }
  return result;
}

// The type of statistics that belong to data of type T.
template <class T>
using StatisticType = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Half a unit in the last place, relatively.
template <class T>
inline constexpr double kRounding = std::is_same_v<T, double>  ? 0x1p-53
                                    : std::is_same_v<T, float> ? 0x1p-24
                                    : std::is_same_v<T, Half>  ? 0x1p-11
                                                               : 0x1p-8;

// Every element within `tolerance` · (1 + |expected|), NaN where NaN is expected and infinities equal.
template <class T>
void expect_close(const std::vector<T>& actual, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    double value;
    if constexpr (std::is_arithmetic_v<T>)
      value = static_cast<double>(actual[i]);
    else
      value = static_cast<double>(static_cast<float>(actual[i]));
    if (std::isnan(expected[i])) {
      ASSERT_TRUE(std::isnan(value)) << "element " << i << " is " << value;
    } else if (std::isinf(expected[i])) {
      ASSERT_EQ(value, expected[i]) << "element " << i;
    } else {
      ASSERT_NEAR(value, expected[i], tolerance * (1 + std::abs(expected[i]))) << "element " << i;
    }
  }
}

// Equal bits: NaN equals itself, and the two zeros differ.
template <class T>
void expect_same_bits(const std::vector<T>& actual, const std::vector<T>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    ASSERT_EQ(std::memcmp(&actual[i], &expected[i], sizeof(T)), 0) << "element " << i;
}

}  // namespace weft
