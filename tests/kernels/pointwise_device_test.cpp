// Device pointwise kernels against the CPU's: every op, pass and compute dtype, on layouts that take each way through
// the kernel.
#include "kernels/pointwise/pointwise.h"

#include <memory>

#include "tests/kernels/device_test.h"

namespace weft {
namespace {

struct OpInfo {
  PointwiseOp op;
  const char* name;
  std::string_view family;
  int arity;
  bool floats, integers, gradient;
  double low, high;
};

enum class Rule { floating, numeric, comparison, flat, integral };
const OpInfo kOps[] = {
#define WEFT_POINTWISE(op, Functor, family, arity, rule, saves, low, high, call) \
  {PointwiseOp::op,                                                              \
   #op,                                                                          \
   #family,                                                                      \
   arity,                                                                        \
   Rule::rule != Rule::integral,                                                 \
   Rule::rule != Rule::floating,                                                 \
   Rule::rule == Rule::floating || Rule::rule == Rule::numeric,                  \
   low,                                                                          \
   high},
#include "kernels/pointwise/pointwise.def"
#undef WEFT_POINTWISE
};

// A shape, and the strides of the inputs; the result is contiguous with `result_step` between elements.
struct Case {
  const char* name;
  std::vector<int64_t> sizes;
  std::vector<std::vector<int64_t>> strides;
  size_t shift = 0;
};
const Case kCases[] = {
    {"one row", {1027}, {{1}}},
    {"misaligned", {259}, {{1}}, 1},
    {"empty", {0}, {{1}}},
    {"broadcast", {5, 64}, {{64, 1}, {0, 1}, {1, 0}}},
    {"strided", {7, 9}, {{1, 7}, {18, 2}, {0, 0}}},
    {"three dimensions", {3, 5, 12}, {{60, 12, 1}, {0, 12, 1}, {12, 0, 1}}},
};

int64_t span(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  int64_t last = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return 0;
    last += (sizes[d] - 1) * strides[d];
  }
  return last + 1;
}

template <class T>
std::vector<T> draw(size_t count, const OpInfo& info, bool special, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> uniform(info.low, info.high);
  std::vector<T> values(count);
  for (T& v : values) {
    const double x = uniform(generator);
    if constexpr (std::is_integral_v<T>)
      v = static_cast<T>(std::lround(3 * x));
    else
      v = T(static_cast<float>(x));
  }
  if constexpr (!std::is_integral_v<T>) {
    constexpr float inf = std::numeric_limits<float>::infinity();
    // exp overflows from 89 on, and the CPU's is 0 from -88 down, which a loss may multiply by an infinity.
    const float large = info.family == "loss" ? 80.0f : 90.0f;
    const float special_values[] = {inf, -inf, std::numeric_limits<float>::quiet_NaN(), 0.0f, -0.0f, 1.0f, large};
    for (size_t i = 0; special && i < count; i += 3) values[i] = T(special_values[(i / 3 + seed) % 7]);
  }
  return values;
}

double as_double(double x) { return x; }
double as_double(int64_t x) { return static_cast<double>(x); }
template <class T>
double as_double(T x) {
  return static_cast<double>(static_cast<float>(x));
}

// Runs one pass on the CPU and on the device, operands and result of type T.
template <class T>
void check(const TestDevice& device, const OpInfo& info, PointwisePass pass, DType compute, const Case& c,
           bool special = false) {
  SCOPED_TRACE(testing::Message() << info.name << " pass " << static_cast<int>(pass) << ", " << name(dtype_of<T>)
                                  << ", " << c.name);
  const bool backward = pass != PointwisePass::forward;
  const int inputs = info.arity + (backward ? 2 : 0);
  PointwiseArguments expected_args, args;
  std::vector<std::vector<T>> values;
  std::vector<std::unique_ptr<DeviceArray<T>>> arrays;
  int64_t count = 1;
  for (const int64_t size : c.sizes) count *= size;
  std::vector<int64_t> contiguous(c.sizes.size(), 1);
  for (size_t d = c.sizes.size(); d-- > 1;) contiguous[d - 1] = contiguous[d] * c.sizes[d];
  for (int k = 0; k < inputs; ++k) {
    const auto& strides = c.strides[static_cast<size_t>(k) % c.strides.size()];
    values.push_back(draw<T>(static_cast<size_t>(span(c.sizes, strides)), info, special, static_cast<unsigned>(k + 1)));
    arrays.push_back(std::make_unique<DeviceArray<T>>(device, values.back(), c.shift));
  }
  std::vector<T> expected(static_cast<size_t>(count));
  DeviceArray<T> result(device, expected.size(), c.shift);
  for (size_t d = 0; d < c.sizes.size(); ++d) {
    std::array<int64_t, kPointwiseOperands> step{};
    for (int k = 0; k < inputs; ++k)
      step[static_cast<size_t>(k)] = c.strides[static_cast<size_t>(k) % c.strides.size()][d];
    step[static_cast<size_t>(inputs)] = contiguous[d];
    args.layout.push(c.sizes[d], step);
  }
  args.layout.collapse();
  args.count = inputs + 1;
  args.dtype.fill(dtype_of<T>);
  args.compute = compute;
  args.parameters = {0.75, 2.0};
  expected_args = args;
  for (int k = 0; k < inputs; ++k) {
    const auto i = static_cast<size_t>(k);
    args.data[i] = arrays[i]->data();
    expected_args.data[i] = values[i].data();
  }
  args.data[static_cast<size_t>(inputs)] = result.data();
  expected_args.data[static_cast<size_t>(inputs)] = expected.data();
  cpu::pointwise_kernels.run({}, info.op, pass, expected_args);
  device.kernels().pointwise.run(device.stream(), info.op, pass, args);
  device.synchronize();
  const std::vector<T> actual = result.host();
  // A few units in the last place of f32, of what was stored, and what the CPU's exp loses below 2^-126.
  const double unit = compute == f64 ? 0x1p-50 : 0x1p-20;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double a = as_double(actual[i]), e = as_double(expected[i]);
    if (std::isnan(e)) {
      ASSERT_TRUE(std::isnan(a)) << "element " << i << " is " << a << ", not NaN";
    } else if (std::isinf(e) || compute == i64) {
      ASSERT_EQ(a, e) << "element " << i;
    } else {
      ASSERT_NEAR(a, e, (unit + 2 * (std::is_integral_v<T> ? 0 : kRounding<T>)) * (0.5 + std::abs(e)))
          << "element " << i;
    }
  }
}

std::vector<PointwisePass> passes(const OpInfo& info) {
  std::vector<PointwisePass> result = {PointwisePass::forward};
  for (int k = 0; info.gradient && k < info.arity; ++k)
    result.push_back(static_cast<PointwisePass>(static_cast<int>(PointwisePass::backward_0) + k));
  return result;
}

TEST(PointwiseDevice, EveryOpOnEveryLayout) {
  on_devices([](const TestDevice& device) {
    for (const OpInfo& info : kOps) {
      for (const PointwisePass pass : passes(info)) {
        if (!info.floats) continue;
        for (const Case& c : kCases) check<float>(device, info, pass, f32, c);
        check<double>(device, info, pass, f64, kCases[3]);
        check<double>(device, info, pass, f64, kCases[4]);
        for (const size_t i : {0u, 1u, 3u, 4u}) check<BFloat16>(device, info, pass, f32, kCases[i]);
        check<Half>(device, info, pass, f32, kCases[0]);
      }
      if (info.integers)
        for (const Case& c : kCases) check<int64_t>(device, info, PointwisePass::forward, i64, c);
      if (info.integers) check<int32_t>(device, info, PointwisePass::forward, i64, kCases[3]);
    }
  });
}

TEST(PointwiseDevice, NanAndInfinityAsOnTheCpu) {
  on_devices([](const TestDevice& device) {
    for (const OpInfo& info : kOps) {
      if (!info.floats) continue;
      check<float>(device, info, PointwisePass::forward, f32, kCases[0], true);
      check<double>(device, info, PointwisePass::forward, f64, kCases[4], true);
    }
  });
}

// where(bool, bf16, f64) → f16: four dtypes, computed in f32; and a scalar condition of the other dtypes.
TEST(PointwiseDevice, MixedDtypes) {
  on_devices([](const TestDevice& device) {
    const size_t n = 1001;
    const std::vector<double> third = random_values<double>(n, 1, 3);
    const std::vector<BFloat16> second = random_values<BFloat16>(n, 1, 2);
    std::vector<uint8_t> condition(n);
    for (size_t i = 0; i < n; ++i) condition[i] = i % 3 == 0;
    std::vector<Half> expected(n);
    DeviceArray<uint8_t> a(device, condition);
    DeviceArray<BFloat16> b(device, second);
    DeviceArray<double> c(device, third);
    DeviceArray<Half> y(device, n);
    for (const int64_t stride : {1, 0}) {
      PointwiseArguments args;
      args.layout.push(static_cast<int64_t>(n), {stride, 1, 1, 1});
      args.count = 4;
      args.dtype = {boolean, bf16, f64, f16};
      args.data = {condition.data(), second.data(), third.data(), expected.data()};
      cpu::pointwise_kernels.run({}, PointwiseOp::where, PointwisePass::forward, args);
      args.data = {a.data(), b.data(), c.data(), y.data()};
      device.kernels().pointwise.run(device.stream(), PointwiseOp::where, PointwisePass::forward, args);
      device.synchronize();
      expect_same_bits(y.host(), expected);
    }
  });
}

TEST(PointwiseDevice, ResultMayBeAnInput) {
  on_devices([](const TestDevice& device) {
    const std::vector<float> x = random_values<float>(1000, 1, 1);
    DeviceArray<float> a(device, x);
    PointwiseArguments args;
    args.layout.push(1000, {1, 1, 1});
    args.count = 3;
    args.dtype.fill(f32);
    args.data = {a.data(), a.data(), a.data()};
    device.kernels().pointwise.run(device.stream(), PointwiseOp::mul, PointwisePass::forward, args);
    device.synchronize();
    std::vector<float> expected;
    for (const float v : x) expected.push_back(v * v);
    expect_same_bits(a.host(), expected);
  });
}

TEST(PointwiseDevice, UnknownComputeDtypeIsAnError) {
  PointwiseArguments args;
  args.layout.push(1, {1, 1});
  args.count = 2;
  args.compute = i64;
  EXPECT_THROW(kernel_table(DeviceType::simt, "test")
                   .pointwise.run({Device::simt()}, PointwiseOp::exp, PointwisePass::forward, args),
               Error);
}

}  // namespace
}  // namespace weft
