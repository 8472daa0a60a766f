// Every line of pointwise.def gets these tests beyond those of all ops (op_case_test.cpp): every combination of layouts,
// of special values and of dtypes, broadcasting with its gradients, sizes that no memory holds on meta.
#include "autograd/ops/pointwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "autograd/engine.h"
#include "autograd/functional.h"
#include "autograd/ops/ops.h"
#include "tests/support/pointwise_api.h"

namespace weft {
namespace {

using Values = std::vector<double>;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

namespace api = testing::pointwise_api;

enum class Rule { floating, numeric, comparison, flat, integral };

struct OpCase {
  const char* name;
  int arity;
  Rule rule;
  double low, high;
  std::string_view family;
  TensorFunction call;

  bool has_gradient() const { return rule == Rule::floating || rule == Rule::numeric; }
};

template <int arity, class F>
TensorFunction on_list(F f) {
  return [f](const std::vector<Tensor>& in) {
    if constexpr (arity == 1)
      return f(in[0]);
    else if constexpr (arity == 2)
      return f(in[0], in[1]);
    else
      return f(in[0], in[1], in[2]);
  };
}

const OpCase kCases[] = {
#define WEFT_POINTWISE(op, Functor, family, arity, rule, saves, low, high, call) \
  {#op, arity, Rule::rule, low, high, #family, on_list<arity>([](const auto&... in) { return api::op(in...); })},
#include "kernels/pointwise/pointwise.def"
#undef WEFT_POINTWISE
};

void PrintTo(const OpCase& c, std::ostream* out) { *out << c.name; }

std::vector<Tensor> inputs_of(const OpCase& c, const Shape& shape, DType dtype = f64, uint64_t seed = 3) {
  Generator generator(seed);
  std::vector<Tensor> result;
  for (int k = 0; k < c.arity; ++k) {
    Tensor x = empty(shape, f64);
    if (x.numel() > 0) generator.fill_uniform(x.data<double>(), x.numel(), c.low, c.high);
    result.push_back(x.to(dtype));
  }
  return result;
}

void expect_same(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.shape(), want.shape());
  ASSERT_EQ(got.dtype(), want.dtype());
  const Values a = got.to_vector(), b = want.to_vector();
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_TRUE(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])))
        << "element " << i << ": " << a[i] << ", " << b[i];
}

void expect_near(const Tensor& got, const Tensor& want, double rtol, double atol) {
  ASSERT_EQ(got.shape(), want.shape());
  const Values a = got.to_vector(), b = want.to_vector();
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(b[i]) || std::isinf(b[i])) {
      ASSERT_TRUE(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])))
          << "element " << i << ": " << a[i] << ", " << b[i];
    } else {
      ASSERT_LE(std::abs(a[i] - b[i]), atol + rtol * std::abs(b[i])) << "element " << i << ": " << a[i] << ", " << b[i];
    }
  }
}

// The gradients of sum(f(in) · weights), weights irregular.
std::vector<Tensor> gradients(const OpCase& c, const std::vector<Tensor>& in, bool create_graph) {
  std::vector<Tensor> leaves;
  for (const Tensor& x : in) leaves.push_back(x.detach().clone().requires_grad_());
  const Tensor y = c.call(leaves);
  Generator generator(9);
  const Tensor weights = randn(y.shape(), {.dtype = y.dtype()}, &generator);
  auto result = grad({y}, leaves, {weights}, {.create_graph = create_graph, .allow_unused = true});
  for (Tensor& g : result)
    if (g.defined()) g = g.detach();
  return result;
}

class Pointwise : public ::testing::TestWithParam<OpCase> {};

TEST_P(Pointwise, LayoutDoesNotMatter) {
  const OpCase& c = GetParam();
  for (const DType dtype : {f32, f64, i64}) {
    const auto dense = inputs_of(c, {6, 5, 7}, dtype);
    const auto check = [&](auto&& view) {
      std::vector<Tensor> strided, copied;
      for (const Tensor& x : dense) {
        strided.push_back(view(x));
        copied.push_back(strided.back().clone());
      }
      if (c.rule == Rule::floating && dtype == i64) return;
      expect_same(c.call(strided), c.call(copied));
      // One operand strided, the others dense.
      std::vector<Tensor> mixed = copied;
      mixed[0] = strided[0];
      expect_same(c.call(mixed), c.call(copied));
      if (!c.has_gradient() || dtype == i64) return;
      std::vector<Tensor> leaves, views;
      for (const Tensor& x : dense) {
        leaves.push_back(x.clone().requires_grad_());
        views.push_back(view(leaves.back()));
      }
      const Tensor y = c.call(views);
      const auto through = grad({y}, views, {ones_like(y)}, {.allow_unused = true});
      std::vector<Tensor> copies;
      for (const Tensor& x : copied) copies.push_back(x.detach().clone().requires_grad_());
      const Tensor z = c.call(copies);
      const auto direct = grad({z}, copies, {ones_like(z)}, {.allow_unused = true});
      for (size_t k = 0; k < through.size(); ++k)
        if (direct[k].defined()) expect_same(through[k], direct[k]);
    };
    check([](const Tensor& x) { return x.transpose(0, 2); });
    check([](const Tensor& x) { return x.slice(1, 1, 5, 2); });
    check([](const Tensor& x) { return x.slice(2, 1, {}); });
    check([](const Tensor& x) { return x.select(2, 3); });
    check([](const Tensor& x) { return x.slice(0, 2, 3).expand({4, 5, 7}); });
  }
}

TEST_P(Pointwise, SpecialValues) {
  const OpCase& c = GetParam();
  // Every combination, in f32 and in f64.
  // A loss adds products of its operands, which overflow earlier in f32.
  const double large = c.family == "loss" ? 10 : 1e30;
  const Tensor special = tensor({kNan, kInf, -kInf, 0, -0.0, 1, -1, 0.5, -2.5, large, -large});
  std::vector<Tensor> in;
  for (int k = 0; k < c.arity; ++k) {
    Shape shape(std::vector<int64_t>(static_cast<size_t>(c.arity), 1));
    shape[k] = special.numel();
    in.push_back(special.reshape(shape));
  }
  std::vector<Tensor> wide;
  for (const Tensor& x : in) wide.push_back(x.to(f64));
  expect_near(c.call(in), c.call(wide).to(f32), 1e-5, 1e-5);
  if (c.arity == 1 && (c.rule == Rule::floating || c.rule == Rule::numeric)) {
    EXPECT_TRUE(std::isnan(c.call({tensor({kNan})}).item())) << "NaN stays NaN";
  }
}

TEST_P(Pointwise, HalfPrecisionComputesInF32) {
  const OpCase& c = GetParam();
  for (const DType dtype : {f16, bf16}) {
    const auto in = inputs_of(c, {70}, dtype);
    std::vector<Tensor> wide;
    for (const Tensor& x : in) wide.push_back(x.to(f32));
    const Tensor got = c.call(in), want = c.call(wide);
    expect_same(got, is_floating(want.dtype()) ? want.to(dtype) : want);
  }
}

TEST_P(Pointwise, Integers) {
  const OpCase& c = GetParam();
  std::vector<Tensor> in;
  for (int k = 0; k < c.arity; ++k)
    in.push_back(tensor(k == 0 ? std::vector<int64_t>{7, -7, 5, 1, 6, 3, 2, 9, 4}
                               : std::vector<int64_t>{2, 2, -3, 4, 3, 1, -1, 5, 8}));
  std::vector<Tensor> real;
  for (const Tensor& x : in) real.push_back(x.to(c.rule == Rule::floating ? f32 : f64));
  const Tensor want = c.call(real);
  for (const DType dtype : {i64, i32, i16, i8}) {
    std::vector<Tensor> narrow;
    for (const Tensor& x : in) narrow.push_back(x.to(dtype));
    const Tensor got = c.call(narrow);
    EXPECT_EQ(got.dtype(), c.rule == Rule::floating ? f32 : c.rule == Rule::comparison ? boolean : dtype);
    EXPECT_FALSE(got.requires_grad());
    expect_same(got, got.dtype() == dtype ? want.to(dtype) : want);
  }
  if (c.rule != Rule::comparison) return;
  std::vector<Tensor> flags, numbers;
  for (const Tensor& x : in) {
    flags.push_back(x > 2);
    numbers.push_back(flags.back().to(i64));
  }
  expect_same(c.call(flags), c.call(numbers));
}

TEST_P(Pointwise, Broadcasting) {
  const OpCase& c = GetParam();
  if (c.arity == 1) return;
  const auto full_inputs = inputs_of(c, {4, 3, 5});
  std::vector<Tensor> in = full_inputs;
  in[0] = full_inputs[0].slice(0, 0, 1);                     // [1, 3, 5]
  in[1] = full_inputs[1].select(0, 0).slice(1, 0, 1);        // [3, 1]
  if (c.arity == 3) in[2] = full_inputs[2].select(0, 0)[0];  // [5]
  std::vector<Tensor> expanded;
  Shape shape;
  for (const Tensor& x : in) shape = broadcast_shapes(shape, x.shape(), "test");
  for (const Tensor& x : in) expanded.push_back(x.expand(shape).clone());
  expect_same(c.call(in), c.call(expanded));
  if (c.has_gradient()) {
    const auto narrow_gradients = gradients(c, in, false), wide_gradients = gradients(c, expanded, false);
    for (size_t k = 0; k < in.size(); ++k) {
      if (!narrow_gradients[k].defined()) continue;
      EXPECT_EQ(narrow_gradients[k].shape(), in[k].shape());
      expect_near(narrow_gradients[k], detail::sum_to(wide_gradients[k], in[k].shape()), 1e-12, 1e-12);
    }
  }
  auto wrong = in;
  wrong[0] = ones({2, 4, 4}, f64);
  EXPECT_THROW(c.call(wrong), Error);
}

TEST_P(Pointwise, MetaHasShapesOnly) {
  const OpCase& c = GetParam();
  std::vector<Tensor> in;
  for (int k = 0; k < c.arity; ++k)
    in.push_back(empty({1 << 20, 1 << 20}, {.device = meta_device, .requires_grad = true}));
  const Tensor y = c.call(in);
  EXPECT_TRUE(y.is_meta());
  EXPECT_EQ(y.shape(), (Shape{1 << 20, 1 << 20}));
  if (!c.has_gradient()) return;
  backward({y}, {empty_like(y)});
  EXPECT_EQ(in.back().grad().shape(), y.shape());
  EXPECT_TRUE(in.back().grad().is_meta());
}

INSTANTIATE_TEST_SUITE_P(Ops, Pointwise, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(PointwiseNumbers, TakeTheTensorsDtype) {
  EXPECT_EQ((2 * ones({3}, f64)).dtype(), f64);
  EXPECT_EQ((2.5 * ones({3}, f16)).dtype(), f16);
  EXPECT_EQ((2 * ones({3}, i32)).dtype(), i32);
  EXPECT_EQ((2.5 * ones({3}, i32)).dtype(), f32);
  EXPECT_EQ((1 - tensor({0.25, 0.5})).to_vector(), (Values{0.75, 0.5}));
  EXPECT_EQ(maximum(tensor({-1, 2}), 0).to_vector(), (Values{0, 2}));
  EXPECT_EQ((tensor({1, 2}) > 1).to_vector(), (Values{0, 1}));
  Tensor x = tensor({1, 2}, {.requires_grad = true});
  sum(3 / x).backward();
  EXPECT_EQ(x.grad().to_vector(), (Values{-3, -0.75}));
}

TEST(PointwiseNumbers, Promotion) {
  const auto dtype_of_sum = [](DType a, DType b) { return (ones({2}, a) + ones({2}, b)).dtype(); };
  EXPECT_EQ(dtype_of_sum(f32, i64), f32);
  EXPECT_EQ(dtype_of_sum(i64, boolean), i64);
  EXPECT_EQ(dtype_of_sum(f16, bf16), f32);
  EXPECT_EQ(dtype_of_sum(u8, i8), i16);
  EXPECT_EQ(dtype_of_sum(f32, f64), f64);
  EXPECT_EQ((ones({2}, f16) + full({}, 1, f32)).dtype(), f16) << "a 0-d tensor of the same kind does not widen";
  EXPECT_EQ((ones({2}, i32) + full({}, 1, f32)).dtype(), f32);
  EXPECT_EQ((ones({2}, boolean) + ones({2}, boolean)).to_vector(), (Values{1, 1}));
}

TEST(PointwiseNumbers, ClampOfIntegers) {
  const Tensor x = tensor(std::vector<int64_t>{-5, 0, 5});
  EXPECT_EQ(clamp(x, 0).to_vector(), (Values{0, 0, 5}));
  EXPECT_EQ(clamp(x, -kInf, 2).to_vector(), (Values{-5, 0, 2}));
  EXPECT_EQ(clamp(x, 3, -3).to_vector(), (Values{-3, -3, -3})) << "the upper bound wins";
  EXPECT_THROW(clamp(x, 0.5), Error);
  EXPECT_THROW(add(x, x, 0.5), Error);
}

TEST(PointwiseNumbers, IntegerDivisionByZero) {
  const Tensor x = tensor(std::vector<int64_t>{5, -5, INT64_MIN});
  const Tensor zero = tensor(std::vector<int64_t>{0, 0, -1});
  EXPECT_EQ(floor_divide(x, zero)[0].item<int64_t>(), 0);
  EXPECT_EQ(remainder(x, zero)[1].item<int64_t>(), 0);
  EXPECT_EQ(trunc_divide(x, zero)[2].item<int64_t>(), INT64_MIN) << "wraps around";
  EXPECT_EQ((x / zero)[0].item(), kInf);
}

TEST(PointwiseNumbers, GradientsWhereTheyAreChosen) {
  const auto at = [](auto&& f, double x) {
    Tensor leaf = tensor({x}, {.dtype = f64, .requires_grad = true});
    sum(f(leaf)).backward();
    return leaf.grad().item();
  };
  EXPECT_EQ(at([](const Tensor& x) { return relu(x); }, 0), 0);
  EXPECT_EQ(at([](const Tensor& x) { return abs(x); }, 0), 0);
  EXPECT_EQ(at([](const Tensor& x) { return clamp(x, -1, 1); }, 1), 1);
  EXPECT_EQ(at([](const Tensor& x) { return sqrt(x); }, 0), kInf);
  EXPECT_EQ(at([](const Tensor& x) { return pow(x, 0); }, 0), 0);
  EXPECT_EQ(at([](const Tensor& x) { return maximum(x, 2); }, 2), 0.5);
  // The branch that was not taken does not leak its NaN.
  EXPECT_EQ(at([](const Tensor& x) { return where(x > 0, log(where(x > 0, x, 1)), 0.0); }, -1), 0);
}

TEST(PointwiseNumbers, Bits) {
  const Tensor a = tensor(std::vector<int64_t>{12, -1, INT64_MIN}), b = tensor(std::vector<int64_t>{10, 6, -1});
  EXPECT_EQ(bitwise_and(a, b).to_vector(), (Values{8, 6, 0x1p63 * -1}));
  EXPECT_EQ(bitwise_or(a, b).to_vector(), (Values{14, -1, -1}));
  EXPECT_EQ(bitwise_xor(a, 3).to_vector(), (Values{15, -4, 0x1p63 * -1}));
  EXPECT_EQ(bitwise_not(b.to(u8)).to_vector(), (Values{245, 249, 0}));
  const Tensor flags = tensor({1, 0}) > 0;
  EXPECT_EQ(bitwise_not(flags).to_vector(), (Values{0, 1}));
  EXPECT_EQ(bitwise_xor(flags, flags).dtype(), boolean);
  EXPECT_THROW(bitwise_and(ones({2}), flags), Error);
  EXPECT_THROW(bitwise_not(ones({2})), Error);
}

TEST(PointwiseNumbers, ActivationsAtTheirCorners) {
  EXPECT_EQ(logsigmoid(tensor({1000, -1000})).to_vector(), (Values{0, -1000}));
  EXPECT_EQ(mish(tensor({1000, -1000})).to_vector(), (Values{1000, 0}));
  EXPECT_EQ(hardsigmoid(tensor({-kInf, -3, 0, 3, kInf})).to_vector(), (Values{0, 0, 0.5, 1, 1}));
  EXPECT_EQ(isinf(tensor({-kInf, kNan, 1})).to_vector(), (Values{1, 0, 0}));
  EXPECT_EQ(isinf(tensor(std::vector<int64_t>{INT64_MAX, INT64_MIN})).to_vector(), (Values{0, 0}));
  EXPECT_EQ(logical_xor(tensor({0, 1, kNan}), tensor({2, 2, 2})).to_vector(), (Values{1, 0, 0}));
  const auto slope = [](auto&& f, double x) {
    Tensor leaf = tensor({x}, {.dtype = f64, .requires_grad = true});
    sum(f(leaf)).backward();
    return leaf.grad().item();
  };
  EXPECT_EQ(slope(relu6, 6), 0);
  EXPECT_EQ(slope(hardswish, -3), 0);
  EXPECT_EQ(slope(hardswish, 3), 1);
  EXPECT_EQ(slope([](const Tensor& x) { return hardtanh(x); }, 1), 0);
  EXPECT_EQ(slope([](const Tensor& x) { return atan2(x, 0 * x); }, 0), 0);
  EXPECT_THROW(prelu(ones({2, 3}), ones({2})), Error);
}

TEST(PointwiseNumbers, GeluTailsAreExact) {
  EXPECT_NEAR(gelu(tensor({-10})).item(), 0, 1e-20);
  EXPECT_NEAR(gelu_tanh(tensor({-12})).item(), 0, 1e-20);
  EXPECT_EQ(gelu(tensor({100})).item(), 100);
  EXPECT_EQ(gelu_tanh(tensor({100})).item(), 100);
  EXPECT_EQ(silu(tensor({-200})).item(), 0);
}

}  // namespace
}  // namespace weft
