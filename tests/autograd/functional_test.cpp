// Functions of functions: products with Jacobians, Jacobians, Hessians.
#include "autograd/functional.h"

#include <gtest/gtest.h>

#include "autograd/ops/ops.h"
#include "tests/support/op_case.h"

namespace weft {
namespace {

using List = const std::vector<Tensor>&;

void expect_equal(const Tensor& got, const Tensor& want) {
  EXPECT_EQ(testing::difference(got, want, {1e-10, 1e-12}), "");
}

TEST(Functional, JacobianOfALinearMapIsItsMatrix) {
  const Tensor a = randn({3, 4}, f64), x = randn({4}, f64), b = randn({3}, f64);
  const auto j = jacobian([&](List in) { return matmul(a, in[0]) + in[1]; }, {x, b});
  expect_equal(j[0], a);
  expect_equal(j[1], eye(3, {.dtype = f64}));
}

TEST(Functional, JacobianHasTheValuesDimensionsThenTheInputs) {
  const Tensor x = randn({2, 3}, f64), unused = randn({4}, f64);
  const auto j = jacobian([](List in) { return exp(in[0]); }, {x, unused});
  EXPECT_EQ(j[0].shape(), Shape({2, 3, 2, 3}));
  expect_equal(j[0].reshape({6, 6}), exp(x).reshape({6, 1}) * eye(6, {.dtype = f64}));
  expect_equal(j[1], zeros({2, 3, 4}, f64));
  EXPECT_EQ(jacobian([](List in) { return in[0] * 2; }, {zeros({0}, f64)})[0].shape(), Shape({0, 0}));
}

TEST(Functional, ProductsAgreeWithTheJacobian) {
  const Tensor x = randn({3}, f64), y = randn({3}, f64);
  const TensorFunction f = [](List in) { return sin(in[0]) * in[1] * in[1]; };
  const auto j = jacobian(f, {x, y});
  const Tensor v = randn({3}, f64), w = randn({3}, f64);
  const auto [value, pulled] = vjp(f, {x, y}, v);
  expect_equal(value, sin(x) * y * y);
  expect_equal(pulled[0], matmul(v, j[0]));
  expect_equal(pulled[1], matmul(v, j[1]));
  expect_equal(jvp(f, {x, y}, {v, w}).second, matmul(j[0], v) + matmul(j[1], w));
  expect_equal(jvp([](List in) { return in[0].detach(); }, {x}, {v}).second, zeros({3}, f64));
}

TEST(Functional, HessianOfAQuadraticForm) {
  const Tensor a = randn({3, 3}, f64), b = randn({3, 2}, f64);
  const auto h = hessian([&](List in) { return dot(in[0], matmul(a, in[0])) + dot(in[0], matmul(b, in[1])); },
                         {randn({3}, f64), randn({2}, f64)});
  expect_equal(h[0][0], a + a.t());
  expect_equal(h[0][1], b);
  expect_equal(h[1][0], b.t());
  expect_equal(h[1][1], zeros({2, 2}, f64));
}

TEST(Functional, GradLeavesTheInputsAlone) {
  const Tensor x = tensor({1, 2, 3}, {.dtype = f64, .requires_grad = true});
  expect_equal(grad([](List in) { return sum(square(in[0])); }, {x})[0], x.detach() * 2);
  EXPECT_FALSE(x.grad().defined());
}

TEST(Functional, WrongCalls) {
  const TensorFunction f = [](List in) { return exp(in[0]); };
  EXPECT_THROW(vjp(f, {ones({2})}, ones({3})), Error);
  EXPECT_THROW(jvp(f, {ones({2})}, {ones({3})}), Error);
  EXPECT_THROW(jvp(f, {ones({2})}, {}), Error);
  EXPECT_THROW(hessian(f, {ones({2})}), Error);
}

}  // namespace
}  // namespace weft
