// Each row of the table of operations (tests/support/op_case.h) with random sizes, values, dtypes, layouts and devices,
// against f64 on the CPU with dense inputs: 20 draws a row, with --nightly 500. RapidCheck draws, and shrinks what fails.
//
//   WEFT_SEED=5 build/tests/autograd_op_property_test --gtest_filter='*softmax*'
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <chrono>
#include <cstdlib>
#include <ostream>

#include "tests/support/nightly.h"
#include "tests/support/op_case.h"
#include "tests/support/test_devices.h"

namespace weft::testing {

void PrintTo(const OpCase& c, std::ostream* out) { *out << c.name; }

namespace {

// The same by day, so that nothing fails by chance; another each night.
uint64_t seed() {
  static const uint64_t value = [] {
    const char* given = std::getenv("WEFT_SEED");
    const auto now = std::chrono::system_clock::now().time_since_epoch().count();
    return given ? std::strtoull(given, nullptr, 10) : test::nightly() ? static_cast<uint64_t>(now) : 1;
  }();
  return value;
}

Sizes draw_sizes(const OpCase& c) {
  Sizes sizes = sizes_of(c);
  for (auto& [size, drawn] : sizes) drawn = *rc::gen::inRange<int64_t>(0, 12);
  return sizes;
}

// The same shape and values as a view of other memory: any order of dimensions, gaps, an offset.
Tensor draw_view(const Tensor& x) {
  if (x.dim() == 0 || !*rc::gen::arbitrary<bool>()) return x;
  const NoGrad guard;
  std::vector<int64_t> order(static_cast<size_t>(x.dim()));
  for (size_t d = 0; d < order.size(); ++d) order[d] = static_cast<int64_t>(d);
  for (size_t d = order.size(); d > 1; --d) std::swap(order[d - 1], order[*rc::gen::inRange<size_t>(0, d)]);
  // Memory with its dimensions in the drawn order, each with a margin and a step.
  Shape stored;
  std::vector<std::pair<int64_t, int64_t>> cuts;  // offset and step
  for (const int64_t d : order) {
    const auto offset = *rc::gen::inRange<int64_t>(0, 3), step = *rc::gen::inRange<int64_t>(1, 3);
    stored.push_back(offset + x.size(static_cast<int>(d)) * step);
    cuts.emplace_back(offset, step);
  }
  Tensor view = zeros(stored, x.options());
  Shape back = x.shape();
  for (size_t i = 0; i < order.size(); ++i) {
    const int at = static_cast<int>(i);
    view = view.slice(at, cuts[i].first, {}, cuts[i].second);
    back[static_cast<int>(order[i])] = at;
  }
  view = view.permute(back);
  view.copy_(x);
  return view;
}

class Property : public ::testing::TestWithParam<OpCase> {};

TEST_P(Property, AgreesWithF64) {
  const OpCase& row = GetParam();
  int drawn = 0, taken = 0;
  const auto property = [&] {
    OpCase c = row;
    std::vector<Tensor> exact;
    OpRun want;
    DType dtype = *rc::gen::element(f32, f32, f64, f16, bf16);
    if (dtype != f64 && dtype != f32 && !row.no_half.empty()) dtype = f32;
    const auto values = *rc::gen::inRange<uint64_t>(0, 1'000'000);
    std::vector<Tensor> in;
    const auto run_exactly = [&] {
      in = make_inputs(c, dtype, {}, values);
      want = run_case(c, converted(in, f64));
    };
    if (row.fixed_sizes.empty()) {
      c = resized(row, draw_sizes(row));
      ++drawn;
      try {
        if (!indices_fit(c)) throw Error(ErrorCode::invalid_argument, "test", "indices into nothing");
        run_exactly();
        ++taken;
      } catch (const Error& error) {
        // Sizes that the op refuses, as a window larger than its image. Anything else is a fault.
        if (error.code() != ErrorCode::invalid_argument) throw;
        c = row;
        run_exactly();
      }
    } else {
      run_exactly();
    }
    std::vector<Device> devices = {cpu_device};
    for (const Device device : test_devices()) devices.push_back(device);
    const Device device = devices[*rc::gen::inRange<size_t>(0, devices.size())];
    std::vector<Tensor> viewed;
    for (const Tensor& x : in) viewed.push_back(moved(draw_view(x), device));
    const OpRun got = run_case(c, viewed);
    OpTolerance tolerance = dtype == f32 ? row.tolerance : OpTolerance{1e-9, 1e-10};
    if (dtype == f16 || dtype == bf16) {
      // Sums of a dozen rounded terms where a row has three.
      tolerance = half_tolerance(row, dtype);
      tolerance.atol *= 4;
    }
    if (std::string found = difference(got, want, tolerance); !found.empty()) {
      for (const Tensor& x : viewed) found += fmt::format("\n  input {} with strides {}", describe(x), x.strides());
      RC_FAIL(fmt::format("{} on {}: {}", name(dtype), name(device), found));
    }
  };
  rc::detail::TestParams params;
  params.seed = seed();
  params.maxSuccess = test::rounds(20, 500);
  const rc::detail::TestResult result =
      rc::detail::checkTestable(property, rc::detail::TestMetadata{row.name, ""}, params);
  if (!result.template is<rc::detail::SuccessResult>()) {
    std::ostringstream text;
    rc::detail::printResultMessage(result, text);
    ADD_FAILURE() << "WEFT_SEED=" << seed() << "\n" << text.str();
  }
  EXPECT_TRUE(drawn == 0 || taken > 0) << "no drawn sizes were valid: say in fixed_sizes why this row has its own";
}

INSTANTIATE_TEST_SUITE_P(All, Property, ::testing::ValuesIn(op_cases()),
                         [](const ::testing::TestParamInfo<OpCase>& info) { return info.param.name; });

}  // namespace
}  // namespace weft::testing
