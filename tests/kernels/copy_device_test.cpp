// Device copies, conversions and fills: the CPU's bits.
#include "kernels/copy/copy.h"

#include <numeric>

#include "tests/kernels/device_test.h"

namespace weft {
namespace {

constexpr DType kAll[] = {f64, f32, f16, bf16, f8e4m3, f8e5m2, i64, i32, i16, i8, u8, boolean};

struct Case {
  const char* name;
  std::vector<int64_t> sizes, from, to;
};
const Case kCases[] = {
    {"contiguous", {1003}, {1}, {1}},
    {"zero-dimensional", {}, {}, {}},
    {"empty", {3, 0}, {1, 1}, {1, 1}},
    {"transposed", {37, 70}, {1, 37}, {70, 1}},
    {"transposed into a view", {33, 5}, {1, 40}, {9, 1}},
    {"heads", {2, 3, 7, 16}, {336, 16, 48, 1}, {336, 112, 16, 1}},
    {"channels last", {2, 9, 5, 6}, {270, 1, 54, 9}, {270, 30, 6, 1}},
    {"strided", {11, 13}, {39, 3}, {26, 2}},
    {"expanded", {6, 50}, {0, 1}, {50, 1}},
    {"expanded column", {6, 50}, {1, 0}, {50, 1}},
    {"narrow", {65, 3}, {1, 65}, {3, 1}},
};

size_t span(const Case& c, const std::vector<int64_t>& strides) {
  int64_t last = 0;
  for (size_t d = 0; d < c.sizes.size(); ++d) {
    if (c.sizes[d] == 0) return 0;
    last += (c.sizes[d] - 1) * strides[d];
  }
  return static_cast<size_t>(last + 1);
}

// Bytes of `count` elements of a dtype: random numbers, with the special ones that it has.
std::vector<uint8_t> contents(DType dtype, size_t count, unsigned seed) {
  std::vector<double> values = random_values<double>(count, 40, seed);
  constexpr double inf = std::numeric_limits<double>::infinity();
  const double special[] = {inf, -inf, std::nan(""), 0.0, -0.0, 1e30, -1e300, 300, -70000, 1e-7, 448, 0.5};
  for (size_t i = 0; is_floating(dtype) && i < count; i += 5) values[i] = special[i / 5 % 12];
  std::vector<uint8_t> bytes(count * static_cast<size_t>(size_of(dtype)));
  const auto n = static_cast<int64_t>(count);
  const int64_t one = 1;
  if (n > 0) cpu::copy_kernels.copy({}, 1, &n, f64, values.data(), &one, dtype, bytes.data(), &one);
  return bytes;
}

void check(const TestDevice& device, const Case& c, DType from, DType to, size_t shift) {
  SCOPED_TRACE(testing::Message() << c.name << ", " << name(from) << " to " << name(to) << ", shift " << shift);
  const auto from_shift = shift * static_cast<size_t>(size_of(from)),
             to_shift = shift * static_cast<size_t>(size_of(to));
  const std::vector<uint8_t> source = contents(from, span(c, c.from), 7);
  std::vector<uint8_t> expected(span(c, c.to) * static_cast<size_t>(size_of(to)), 0x5A);
  DeviceArray<uint8_t> src(device, source, from_shift), dst(device, expected, to_shift);
  const int ndim = static_cast<int>(c.sizes.size());
  cpu::copy_kernels.copy({}, ndim, c.sizes.data(), from, source.data(), c.from.data(), to, expected.data(),
                         c.to.data());
  device.kernels().copy.copy(device.stream(), ndim, c.sizes.data(), from, src.data(), c.from.data(), to, dst.data(),
                             c.to.data());
  device.synchronize();
  expect_same_bits(dst.host(), expected);
}

TEST(CopyDevice, SameDtypeOnEveryLayout) {
  on_devices([](const TestDevice& device) {
    for (const Case& c : kCases)
      for (const DType dtype : {u8, bf16, f32, f64})
        for (const size_t shift : {0u, 1u}) check(device, c, dtype, dtype, shift);
  });
}

TEST(CopyDevice, EveryConversion) {
  on_devices([](const TestDevice& device) {
    for (const DType from : kAll) {
      for (const DType to : kAll) {
        check(device, kCases[0], from, to, 0);
        check(device, kCases[7], from, to, 1);
      }
    }
  });
}

TEST(CopyDevice, Fill) {
  on_devices([](const TestDevice& device) {
    for (const DType dtype : kAll) {
      for (const int64_t n : {0, 1, 15, 1000}) {
        for (const size_t shift : {0u, 1u}) {
          SCOPED_TRACE(testing::Message() << name(dtype) << " " << n << " shift " << shift);
          const auto width = static_cast<size_t>(size_of(dtype));
          std::vector<uint8_t> expected(static_cast<size_t>(n) * width);
          DeviceArray<uint8_t> dst(device, expected.size(), shift * width);
          cpu::copy_kernels.fill({}, dtype, expected.data(), n, -2.6);
          device.kernels().copy.fill(device.stream(), dtype, dst.data(), n, -2.6);
          device.synchronize();
          expect_same_bits(dst.host(), expected);
        }
      }
    }
  });
}

}  // namespace
}  // namespace weft
