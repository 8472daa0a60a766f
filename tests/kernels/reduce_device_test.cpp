// Device reductions against the CPU's in f64, over layouts that take every kernel, and running sums.
#include "kernels/reduce/reduce.h"

#include "tests/kernels/device_test.h"

namespace weft {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

struct Dim {
  int64_t size;
  int64_t stride;
};

struct Case {
  const char* name;
  std::vector<Dim> kept;
  std::vector<Dim> reduced;

  ReduceLayout layout() const {
    ReduceLayout result;
    for (Dim d : kept) result.keep(d.size, d.stride);
    for (Dim d : reduced) result.reduce(d.size, d.stride);
    return result;
  }
  size_t elements() const {
    int64_t last = 0;
    for (const auto* dims : {&kept, &reduced})
      for (Dim d : *dims) {
        if (d.size == 0) return 0;
        last += (d.size - 1) * d.stride;
      }
    return static_cast<size_t>(last + 1);
  }
  size_t outputs() const {
    size_t total = 1;
    for (Dim d : kept) total *= static_cast<size_t>(d.size);
    return total;
  }
  bool has_elements() const {
    for (Dim d : reduced)
      if (d.size == 0) return false;
    return true;
  }
};

const std::vector<Case> kCases = {
    {"everything", {}, {{50003, 1}}},
    {"one", {}, {{1, 1}}},
    {"short rows", {{300, 5}}, {{5, 1}}},
    {"rows", {{7, 333}}, {{333, 1}}},
    {"long rows", {{3, 20001}}, {{20001, 1}}},
    {"bias", {{96, 1}}, {{600, 96}}},
    {"narrow", {{3, 1}}, {{5001, 3}}},
    {"wide", {{1000, 1}}, {{7, 1000}}},
    {"middle", {{6, 33 * 40}, {33, 1}}, {{40, 33}}},
    {"outer and inner", {{5, 77}}, {{9, 5 * 77}, {77, 1}}},
    {"rows over two", {{24, 1}}, {{20, 3000}, {30, 48}}},
    {"strided", {{40, 300}}, {{100, 3}}},
    {"expanded", {{40, 1}}, {{100, 0}}},
    {"expanded both", {{4, 0}}, {{100, 0}}},
    {"no outputs", {{0, 1}}, {{5, 1}}},
    {"no elements", {{5, 1}}, {{0, 5}}},
};

// Results of T that have to be near the CPU's of doubles.
template <class T>
struct Pair {
  std::vector<double> expected;
  DeviceArray<T> actual;
  Pair(const TestDevice& device, size_t n) : expected(n), actual(device, n) {}
  void check(double tolerance) const { expect_close(actual.host(), expected, tolerance); }
};

template <class T>
void check(const TestDevice& device, const Case& c, size_t shift = 0, double special = 0) {
  SCOPED_TRACE(testing::Message() << c.name << ", " << name(dtype_of<T>) << ", shift " << shift << ", " << special);
  std::vector<T> values = random_values<T>(c.elements(), 1, 3);
  if (special != 0)
    for (size_t i = 2; i < values.size(); i += 97) values[i] = T(static_cast<float>(special));
  const std::vector<double> x = converted<double>(values);
  DeviceArray<T> dx(device, values, shift);
  const ReduceLayout layout = c.layout();
  const size_t n = c.outputs();
  const ReduceKernels& cpu = cpu::reduce_kernels;
  const ReduceKernels& kernels = device.kernels().reduce;
  const Stream stream = device.stream();
  const double unit = kRounding<T>;

  for (const Reduction op : {Reduction::sum, Reduction::mean, Reduction::max, Reduction::min, Reduction::prod}) {
    SCOPED_TRACE(testing::Message() << "reduction " << static_cast<int>(op));
    Pair<T> out(device, n);
    cpu.reduce({}, op, f64, x.data(), layout, out.expected.data());
    kernels.reduce(stream, op, dtype_of<T>, dx.data(), layout, out.actual.data());
    device.synchronize();
    const bool exact = op == Reduction::max || op == Reduction::min;
    if (op == Reduction::prod && (special != 0 || std::is_same_v<T, Half>)) continue;  // overflows at other places
    out.check(exact ? 0 : 2 * unit + 1e-13);
  }
  {
    SCOPED_TRACE("logsumexp");
    Pair<T> out(device, n);
    cpu.logsumexp({}, f64, x.data(), layout, out.expected.data());
    kernels.logsumexp(stream, dtype_of<T>, dx.data(), layout, out.actual.data());
    device.synchronize();
    out.check(4 * unit + 1e-14);
  }
  for (const double p : {0.0, 1.0, 2.0, 3.0, kInf, -kInf}) {
    SCOPED_TRACE(testing::Message() << "norm " << p);
    Pair<T> out(device, n);
    cpu.norm({}, f64, x.data(), layout, p, out.expected.data());
    kernels.norm(stream, dtype_of<T>, dx.data(), layout, p, out.actual.data());
    device.synchronize();
    if (std::is_same_v<T, Half> && p == 1) continue;  // beyond its largest number
    out.check(2 * unit + 1e-13);
  }
  for (const double correction : {0.0, 1.0}) {
    SCOPED_TRACE("variance");
    Pair<T> out(device, n);
    cpu.variance({}, f64, x.data(), layout, correction, out.expected.data());
    kernels.variance(stream, dtype_of<T>, dx.data(), layout, correction, out.actual.data());
    device.synchronize();
    out.check(2 * unit + 1e-12);
  }
  if (!c.has_elements()) return;
  for (const bool largest : {true, false}) {
    SCOPED_TRACE("arg_reduce");
    Pair<T> out(device, n);
    std::vector<int64_t> expected(n);
    DeviceArray<int64_t> indices(device, n);
    cpu.arg_reduce({}, largest, f64, x.data(), layout, out.expected.data(), expected.data());
    kernels.arg_reduce(stream, largest, dtype_of<T>, dx.data(), layout, out.actual.data(), indices.data());
    device.synchronize();
    out.check(0);
    expect_same_bits(indices.host(), expected);
  }
}

TEST(ReduceDevice, AsOnTheCpu) {
  on_devices([](const TestDevice& device) {
    for (const Case& c : kCases) {
      check<float>(device, c);
      check<BFloat16>(device, c, 1);
    }
    for (const size_t i : {0u, 3u, 5u, 10u, 15u}) {
      check<double>(device, kCases[i], 1);
      check<Half>(device, kCases[i]);
    }
  });
}

TEST(ReduceDevice, NanAndInfinity) {
  on_devices([](const TestDevice& device) {
    for (const double special : {kInf, -kInf, std::nan("")}) {
      for (const size_t i : {0u, 2u, 3u, 5u, 8u}) {
        check<float>(device, kCases[i], 0, special);
        check<double>(device, kCases[i], 0, special);
      }
    }
  });
}

// The error of a sum does not grow with its length.
TEST(ReduceDevice, LongSumsInF32) {
  on_devices([](const TestDevice& device) {
    const std::vector<float> x(300001, 0.1f);
    DeviceArray<float> dx(device, x), out(device, 1);
    ReduceLayout layout;
    layout.reduce(static_cast<int64_t>(x.size()), 1);
    device.kernels().reduce.reduce(device.stream(), Reduction::sum, f32, dx.data(), layout, out.data());
    device.synchronize();
    expect_close(out.host(), {static_cast<double>(0.1f) * static_cast<double>(x.size())}, 0x1p-23);
  });
}

TEST(ReduceDevice, IntegersAndBooleans) {
  on_devices([](const TestDevice& device) {
    const ReduceKernels& kernels = device.kernels().reduce;
    for (const Case& c : kCases) {
      SCOPED_TRACE(c.name);
      const ReduceLayout layout = c.layout();
      std::vector<int64_t> x = random_indices(c.elements(), 1000, 5);
      for (size_t i = 0; i < x.size(); i += 3) x[i] = -x[i] << 52;  // sums and products wrap around
      DeviceArray<int64_t> dx(device, x);
      for (const Reduction op : {Reduction::sum, Reduction::prod, Reduction::max, Reduction::min}) {
        std::vector<int64_t> expected(c.outputs());
        DeviceArray<int64_t> out(device, expected.size());
        cpu::reduce_kernels.reduce({}, op, i64, x.data(), layout, expected.data());
        kernels.reduce(device.stream(), op, i64, dx.data(), layout, out.data());
        device.synchronize();
        expect_same_bits(out.host(), expected);
      }
      if (c.has_elements()) {
        std::vector<int64_t> value(c.outputs()), index(c.outputs());
        DeviceArray<int64_t> values(device, value.size()), indices(device, value.size());
        cpu::reduce_kernels.arg_reduce({}, true, i64, x.data(), layout, value.data(), index.data());
        kernels.arg_reduce(device.stream(), true, i64, dx.data(), layout, values.data(), indices.data());
        device.synchronize();
        expect_same_bits(values.host(), value);
        expect_same_bits(indices.host(), index);
      }
      for (const uint8_t fill : {0, 1, 2}) {
        std::vector<uint8_t> bits(c.elements(), fill == 1);
        for (size_t i = 0; fill == 2 && i < bits.size(); i += 50) bits[i] = 1;
        DeviceArray<uint8_t> dbits(device, bits);
        for (const Reduction op : {Reduction::max, Reduction::min}) {
          std::vector<uint8_t> expected(c.outputs());
          DeviceArray<uint8_t> out(device, expected.size());
          cpu::reduce_kernels.reduce({}, op, boolean, bits.data(), layout, expected.data());
          kernels.reduce(device.stream(), op, boolean, dbits.data(), layout, out.data());
          device.synchronize();
          expect_same_bits(out.host(), expected);
        }
      }
    }
  });
}

struct ScanCase {
  int64_t outer, size, inner;
};

template <class T>
void check_scan(const TestDevice& device, const ScanCase& c, Scan op) {
  SCOPED_TRACE(testing::Message() << name(dtype_of<T>) << " " << c.outer << " x " << c.size << " x " << c.inner);
  const auto n = static_cast<size_t>(c.outer * c.size * c.inner);
  std::vector<T> x = random_values<T>(n, 0.5, 9);
  for (T& v : x) v = T(1 + 0.05f * static_cast<float>(v));  // products neither vanish nor overflow
  std::vector<double> expected = converted<double>(x);
  DeviceArray<T> dx(device, x), out(device, n);
  cpu::reduce_kernels.scan({}, op, f64, expected.data(), expected.data(), c.outer, c.size, c.inner);
  const ReduceKernels& kernels = device.kernels().reduce;
  kernels.scan(device.stream(), op, dtype_of<T>, dx.data(), out.data(), c.outer, c.size, c.inner);
  kernels.scan(device.stream(), op, dtype_of<T>, dx.data(), dx.data(), c.outer, c.size, c.inner);  // in place
  device.synchronize();
  expect_close(out.host(), expected, 2 * kRounding<T> + 1e-13);
  expect_same_bits(dx.host(), out.host());
}

TEST(ReduceDevice, Scans) {
  on_devices([](const TestDevice& device) {
    for (const ScanCase& c :
         {ScanCase{3, 700, 1}, {2, 2501, 1}, {5, 9, 1}, {2, 40, 33}, {1, 1, 1}, {0, 5, 2}, {2, 256, 1}}) {
      for (const Scan op : {Scan::sum, Scan::prod}) {
        check_scan<float>(device, c, op);
        check_scan<double>(device, c, op);
        check_scan<BFloat16>(device, c, op);
        check_scan<Half>(device, c, op);
        const auto n = static_cast<size_t>(c.outer * c.size * c.inner);
        const std::vector<int64_t> x = random_indices(n, 1'000'000'000, 4);
        std::vector<int64_t> expected(n);
        DeviceArray<int64_t> dx(device, x), out(device, n);
        cpu::reduce_kernels.scan({}, op, i64, x.data(), expected.data(), c.outer, c.size, c.inner);
        device.kernels().reduce.scan(device.stream(), op, i64, dx.data(), out.data(), c.outer, c.size, c.inner);
        device.synchronize();
        expect_same_bits(out.host(), expected);
      }
    }
  });
}

TEST(ReduceDevice, UnsupportedDtypes) {
  const ReduceKernels& kernels = kernel_table(DeviceType::simt, "test").reduce;
  ReduceLayout layout;
  layout.reduce(1, 1);
  const Stream stream{Device::simt()};
  EXPECT_THROW(kernels.reduce(stream, Reduction::mean, i64, nullptr, layout, nullptr), Error);
  EXPECT_THROW(kernels.reduce(stream, Reduction::sum, i32, nullptr, layout, nullptr), Error);
  EXPECT_THROW(kernels.variance(stream, i64, nullptr, layout, 1, nullptr), Error);
  EXPECT_THROW(kernels.scan(stream, Scan::sum, boolean, nullptr, nullptr, 1, 1, 1), Error);
}

}  // namespace
}  // namespace weft
