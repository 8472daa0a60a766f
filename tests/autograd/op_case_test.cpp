// Every row of the table of operations (tests/support/op_case.h) gets these tests, on the CPU and on the devices that
// WEFT_TEST_DEVICES names:
//
//   WEFT_TEST_DEVICES=simt,cuda build/tests/autograd_op_case_test --gtest_filter='*Device*'
#include <fmt/format.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <regex>
#include <set>
#include <sstream>

#include "autograd/functional.h"
#include "kernels/base/device.h"
#include "kernels/simt/emulator/config.h"
#include "tensor/file.h"
#include "tests/support/op_case.h"
#include "tests/support/test_devices.h"

namespace weft::testing {

void PrintTo(const OpCase& c, std::ostream* out) { *out << c.name; }

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <class T>
void expect_near(const T& got, const T& want, OpTolerance tolerance, const std::string& what) {
  const std::string found = difference(got, want, tolerance);
  ASSERT_TRUE(found.empty()) << what << ": " << found;
}

constexpr OpTolerance kSame = {0, 0};
constexpr OpTolerance kDouble = {1e-10, 1e-11};

// All floating-point results in one vector, squared: then the second derivative is not 0 where the op is linear.
TensorFunction objective(const OpCase& c) {
  return [&c](In in) {
    std::vector<Tensor> parts;
    for (const Tensor& y : c.call(in))
      if (is_floating(y.dtype())) parts.push_back(square(y).reshape({-1}));
    return cat(parts);
  };
}

class Ops : public ::testing::TestWithParam<OpCase> {};

TEST_P(Ops, F32AgreesWithF64) {
  const OpCase& c = GetParam();
  const auto narrow = make_inputs(c, f32);
  expect_near(run_case(c, narrow), run_case(c, converted(narrow, f64)), c.tolerance, "f32");
}

TEST_P(Ops, GradientsMatchFiniteDifferences) {
  const OpCase& c = GetParam();
  if (!c.no_gradient.empty()) {
    std::vector<Tensor> in = make_inputs(c, f64);
    for (size_t i = 0; i < in.size(); ++i)
      if (c.inputs[i].kind == OpInput::Kind::real) in[i].requires_grad_();
    for (const Tensor& y : c.call(in)) EXPECT_FALSE(y.requires_grad()) << "though " << c.no_gradient;
    return;
  }
  if (!c.no_differences.empty()) return;
  // Inputs without a gradient are constants of the function.
  const auto in = make_inputs(c, f64);
  std::vector<Tensor> varied;
  for (size_t i = 0; i < in.size(); ++i)
    if (c.inputs[i].kind == OpInput::Kind::real) varied.push_back(in[i]);
  const TensorFunction f = [&](In given) {
    std::vector<Tensor> all = in;
    for (size_t i = 0, next = 0; i < all.size(); ++i)
      if (c.inputs[i].kind == OpInput::Kind::real) all[i] = given[next++];
    return objective(c)(all);
  };
  ASSERT_TRUE(f(varied).numel() > 0);
  gradcheck(f, varied);
  if (c.no_second_order.empty()) gradgradcheck(f, varied);
}

TEST_P(Ops, FusedBackwardEqualsComposite) {
  const OpCase& c = GetParam();
  if (!c.no_gradient.empty() || !c.no_second_order.empty()) return;
  const auto in = make_inputs(c, f64);
  expect_near(run_case(c, in), run_case(c, in, /*create_graph=*/true), kDouble, "fused against composite");
}

TEST_P(Ops, LayoutDoesNotMatter) {
  const OpCase& c = GetParam();
  const auto dense = make_inputs(c, f64);
  const OpRun want = run_case(c, dense);
  for (const Layout layout : {Layout::reversed, Layout::spaced}) {
    std::vector<Tensor> strided;
    for (const Tensor& x : dense) strided.push_back(with_layout(x, layout));
    const std::string what = layout == Layout::reversed ? "reversed" : "spaced";
    expect_near(run_case(c, strided), want, kDouble, what);
    for (size_t i = 0; i < dense.size() && dense.size() > 1; ++i) {
      auto mixed = dense;
      mixed[i] = strided[i];
      expect_near(run_case(c, mixed), want, kDouble, fmt::format("{}, input {} only", what, i));
    }
  }
}

// Runs a row in f32 and f64; gradients have the shapes of their inputs.
void expect_shapes_work(const OpCase& c, const std::vector<Tensor>& narrow, const std::string& what) {
  const OpRun run = run_case(c, narrow);
  expect_near(run, run_case(c, converted(narrow, f64)), c.tolerance, what);
  size_t next = 0;
  for (size_t i = 0; i < narrow.size() && !run.gradients.empty(); ++i) {
    if (c.inputs[i].kind != OpInput::Kind::real) continue;
    if (run.gradients[next].defined()) {
      EXPECT_EQ(run.gradients[next].shape(), narrow[i].shape()) << what;
    }
    ++next;
  }
}

TEST_P(Ops, OtherShapes) {
  const OpCase& c = GetParam();
  for (const auto& shapes : c.also)
    expect_shapes_work(c, make_inputs(c, f32, shapes), fmt::format("shapes {}", fmt::join(shapes, ", ")));
}

// Each size 0 in turn, and all inputs 0-d: where the row does not list it, the op may also refuse it.
TEST_P(Ops, EmptyAndZeroDimWorkOrAreRefused) {
  const OpCase& row = GetParam();
  std::vector<OpCase> cases;
  for (const auto& entry : sizes_of(row)) {
    Sizes sizes = sizes_of(row);
    sizes[entry.first] = 0;
    cases.push_back(resized(row, sizes));
  }
  cases.push_back(row);
  for (OpInput& input : cases.back().inputs) input.shape = {};
  for (const OpCase& c : cases) {
    if (!indices_fit(c)) continue;
    std::string what = "shapes";
    for (const OpInput& input : c.inputs) what += " " + to_string(input.shape);
    try {
      expect_shapes_work(c, make_inputs(c, f32), what);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << what << ": " << error.what();
    }
  }
}

// NaN, both infinities and zeros among the inputs, one kind at a time.
std::vector<std::vector<Tensor>> special_inputs(const OpCase& c) {
  std::vector<std::vector<Tensor>> result;
  for (const double value : {kNan, kInf, -kInf, 0.0}) {
    auto in = make_inputs(c, f32);
    for (size_t i = 0; i < in.size(); ++i)
      if (is_floating(in[i].dtype()))
        for (int64_t k = 1 + static_cast<int64_t>(i); k < in[i].numel(); k += 5)
          in[i].data<float>()[k] = static_cast<float>(value);
    result.push_back(std::move(in));
  }
  return result;
}

OpRun outputs_only(const OpCase& c, In in) {
  const NoGrad guard;
  return {c.call(in), {}};
}

TEST_P(Ops, SpecialValues) {
  const OpCase& c = GetParam();
  if (!c.no_special.empty()) return;
  for (const auto& in : special_inputs(c))
    expect_near(outputs_only(c, in), outputs_only(c, converted(in, f64)), c.tolerance, "special values");
}

TEST_P(Ops, HalfPrecisionIsRoundedF32) {
  const OpCase& c = GetParam();
  if (!c.no_half.empty()) return;
  for (const DType dtype : {f16, bf16}) {
    const auto in = make_inputs(c, dtype);
    const OpRun half = run_case(c, in), single = run_case(c, converted(in, f32));
    expect_near(half, single, half_tolerance(c, dtype), std::string(name(dtype)));
    for (size_t k = 0; k < half.outputs.size(); ++k)
      EXPECT_EQ(half.outputs[k].dtype(), single.outputs[k].dtype() == f32 ? dtype : single.outputs[k].dtype());
  }
}

TEST_P(Ops, SameBitsEveryTime) {
  const OpCase& c = GetParam();
  const auto in = make_inputs(c, f32);
  expect_near(run_case(c, in), run_case(c, in), kSame, "the second run");
}

TEST_P(Ops, MetaHasTheShapes) {
  const OpCase& c = GetParam();
  if (!c.no_meta.empty()) return;
  const auto in = make_inputs(c, f32);
  std::vector<Tensor> shapes;
  for (const Tensor& x : in) shapes.push_back(x.to(meta_device));
  const OpRun want = run_case(c, in), got = run_case(c, shapes);
  ASSERT_EQ(got.outputs.size(), want.outputs.size());
  for (size_t k = 0; k < got.outputs.size(); ++k) {
    EXPECT_TRUE(got.outputs[k].is_meta());
    EXPECT_EQ(describe(got.outputs[k]), describe(want.outputs[k]));
  }
  ASSERT_EQ(got.gradients.size(), want.gradients.size());
  for (size_t k = 0; k < got.gradients.size(); ++k) EXPECT_EQ(describe(got.gradients[k]), describe(want.gradients[k]));
}

const auto kRows = ::testing::ValuesIn(op_cases());
std::string row_name(const ::testing::TestParamInfo<OpCase>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Cpu, Ops, kRows, row_name);

// --- devices against the CPU -----------------------------------------------------------------------------------------

// Runs f on the device: on the emulator with threads starting first to last, and last to first.
template <class F>
void in_every_order(Device device, F&& f) {
  if (device.type != DeviceType::simt) return f(std::string(name(device)));
  using ConfigFunction = emulator::Config& (*)();
  void* const symbol = device_symbol(DeviceType::simt, "_ZN4weft8emulator6configEv", "test");
  emulator::Config& config = reinterpret_cast<ConfigFunction>(symbol)();
  for (const bool reversed : {false, true}) {
    config.reversed = reversed;
    f(std::string(reversed ? "simt, reversed order" : "simt"));
  }
  config.reversed = false;
}

std::vector<Tensor> all_moved(In in, Device device) {
  std::vector<Tensor> result;
  for (const Tensor& x : in) result.push_back(moved(x, device));
  return result;
}

class DeviceOps : public ::testing::TestWithParam<std::tuple<OpCase, Device>> {
 protected:
  const OpCase& row() const { return std::get<0>(GetParam()); }
  Device device() const { return std::get<1>(GetParam()); }
  OpRun run(In in) const {
    const OpRun result = run_case(row(), all_moved(in, device()));
    for (const auto* list : {&result.outputs, &result.gradients})
      for (const Tensor& t : *list)
        if (t.defined()) {
          EXPECT_EQ(t.device(), device());
        }
    return result;
  }
};

TEST_P(DeviceOps, AgreesWithCpu) {
  const OpCase& c = row();
  for (const DType dtype : {f32, f64}) {
    const auto in = make_inputs(c, dtype);
    const OpRun want = run_case(c, in);
    std::optional<OpRun> first;
    in_every_order(device(), [&](const std::string& how) {
      const OpRun got = run(in);
      expect_near(got, want, dtype == f32 ? c.tolerance : kDouble, how);
      if (!first) first = run(in);
      expect_near(got, *first, kSame, how + ", once more");
    });
  }
}

TEST_P(DeviceOps, Layouts) {
  const OpCase& c = row();
  const auto in = make_inputs(c, f64);
  const OpRun want = run_case(c, in);
  for (const Layout layout : {Layout::reversed, Layout::spaced}) {
    std::vector<Tensor> strided;
    for (const Tensor& x : in) strided.push_back(with_layout(x, layout));
    expect_near(run(strided), want, kDouble, layout == Layout::reversed ? "reversed" : "spaced");
  }
}

TEST_P(DeviceOps, Shapes) {
  const OpCase& c = row();
  for (const auto& shapes : c.also) {
    const auto in = make_inputs(c, f32, shapes);
    const OpRun want = run_case(c, in);
    in_every_order(device(), [&](const std::string& how) {
      expect_near(run(in), want, c.tolerance, fmt::format("{}, shapes {}", how, fmt::join(shapes, ", ")));
    });
  }
}

TEST_P(DeviceOps, SpecialValues) {
  const OpCase& c = row();
  if (!c.no_special.empty()) return;
  for (const auto& in : special_inputs(c))
    expect_near(outputs_only(c, all_moved(in, device())), outputs_only(c, in), c.tolerance, "special values");
}

TEST_P(DeviceOps, HalfPrecision) {
  const OpCase& c = row();
  if (!c.no_half.empty()) return;
  for (const DType dtype : {f16, bf16}) {
    const auto in = make_inputs(c, dtype);
    const OpRun got = run(in), want = run_case(c, in);
    expect_near(got, run_case(c, converted(in, f32)), half_tolerance(c, dtype), std::string(name(dtype)));
    for (size_t k = 0; k < got.outputs.size(); ++k) EXPECT_EQ(got.outputs[k].dtype(), want.outputs[k].dtype());
  }
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DeviceOps);
INSTANTIATE_TEST_SUITE_P(Device, DeviceOps, ::testing::Combine(kRows, ::testing::ValuesIn(test_devices())),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "_" + std::string(name(std::get<1>(info.param).type));
                         });

// --- the table is complete -----------------------------------------------------------------------------------------

// Functions of the headers without a row of their own, and why.
const std::pair<const char*, const char*> kWithoutRow[] = {
    {"begin_in_place", "checks the rules of in-place writes; computes nothing (engine_test: InPlace)"},
    {"sum_to", "the inverse of broadcasting; every broadcasting row runs it"},
    {"promoted_dtype", "computes no tensor (pointwise_test: Promotion)"},
    {"pointwise", "any line of pointwise.def; every pointwise row runs it"},
    {"reduced", "sum() and mean() by a name; the rows of losses run it"},
    {"compute_dtype_of", "computes no tensor"},
    {"check_same_kind", "computes no tensor"},
    {"check_same_device", "computes no tensor"},
    {"statistics_dtype", "computes no tensor"},
    {"sum_dtype", "computes no tensor"},
    {"index_kernels", "computes no tensor"},
    {"gather_layout", "computes no tensor"},
    {"step_along", "computes no tensor"},
    {"size_along", "computes no tensor"},
    {"check_gather_shapes", "computes no tensor"},
    {"checked_index", "every row with an index runs it"},
    {"wrapped_index", "the rows of index and index_fill run it"},
};

// Names of the functions that a header declares at the left margin: return type, name, parenthesis.
void collect_functions(const std::string& path, std::set<std::string>& names) {
  static const std::regex declaration(
      R"(^(?:inline |constexpr )*(?!using|namespace|struct|class|enum|template|#|//)[A-Za-z_][\w:<>, &]*\s+([a-z_0-9]+)\()");
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    std::smatch found;
    if (std::regex_search(line, found, declaration) && found[1] != "operator") names.insert(found[1]);
  }
}

std::set<std::string> public_functions() {
  std::set<std::string> declared;
  for (const auto& entry : std::filesystem::directory_iterator("autograd/ops"))
    if (entry.path().extension() == ".h") collect_functions(entry.path().string(), declared);
#define WEFT_POINTWISE(op, ...) declared.insert(#op);
#include "kernels/pointwise/pointwise.def"
#undef WEFT_POINTWISE
  // The methods that write in place have no free function.
  static const std::regex method(R"(^  const Tensor& ([a-z_]+_)\()");
  std::istringstream lines(read_file("tensor/tensor.h"));
  for (std::string line; std::getline(lines, line);) {
    std::smatch found;
    if (std::regex_search(line, found, method) && found[1] != "requires_grad_") declared.insert(found[1]);
  }
  return declared;
}

TEST(OpTable, EveryPublicFunctionHasARow) {
  const std::set<std::string> declared = public_functions();
  ASSERT_GT(declared.size(), 130u) << "the scan of autograd/ops finds the declarations";

  std::set<std::string> covered;
  for (const OpCase& c : op_cases()) {
    if (c.covers.empty()) covered.insert(c.name);
    covered.insert(c.covers.begin(), c.covers.end());
  }
  for (const auto& [name, reason] : kWithoutRow) {
    EXPECT_FALSE(covered.count(name)) << name << " has a row by now";
    covered.insert(name);
  }
  for (const std::string& name : declared)
    EXPECT_TRUE(covered.count(name)) << name << " has no row in tests/autograd/op_cases*.cpp";
}

TEST(OpTable, NamesAreUnique) {
  std::set<std::string> names;
  for (const OpCase& c : op_cases()) EXPECT_TRUE(names.insert(c.name).second) << c.name;
}

}  // namespace
}  // namespace weft::testing
