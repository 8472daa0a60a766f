// Reductions: results at the edges, dtypes, and gradients of first and second order against finite differences.
#include "autograd/ops/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "autograd/engine.h"
#include "autograd/functional.h"
#include "autograd/ops/pointwise.h"
#include "tensor/factory.h"

namespace weft {
namespace {

using Values = std::vector<double>;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Squared, so that there is a second derivative.
void check_gradients(const std::function<Tensor(const Tensor&)>& f, const Tensor& x) {
  const TensorFunction squared = [&](const std::vector<Tensor>& in) { return square(f(in[0])); };
  gradcheck(squared, {x});
  gradgradcheck(squared, {x});
}

TEST(Reduce, GradientOfProductWithZeros) {
  const Tensor x = tensor({2, 0, 3, 0, 0, 5, 4, 3, 2}, {.dtype = f64}).reshape({3, 3});
  check_gradients([](const Tensor& t) { return prod(t, {1}); }, x);
  check_gradients([](const Tensor& t) { return cumprod(t, 1); }, x);
}

TEST(Reduce, GradientsAtTheEdges) {
  Tensor zero = zeros({3}, {.requires_grad = true});
  norm(zero).backward();
  EXPECT_EQ(zero.grad().to_vector(), (Values{0, 0, 0}));
  Tensor same = ones({3}, {.requires_grad = true});
  weft::std(same).backward();
  EXPECT_EQ(same.grad().to_vector(), (Values{0, 0, 0}));
  Tensor nothing = full({2}, -kInf, {.requires_grad = true});
  Tensor total = logsumexp(nothing);
  EXPECT_EQ(total.item(), -kInf);
  total.backward();
  EXPECT_EQ(nothing.grad().to_vector(), (Values{0, 0}));
  Tensor ties = tensor({1, 3, 3}, {.requires_grad = true});
  amax(ties).backward();
  EXPECT_EQ(ties.grad().to_vector(), (Values{0, 0.5, 0.5}));
  Tensor first = tensor({1, 3, 3}, {.requires_grad = true});
  max(first, 0).values.backward();
  EXPECT_EQ(first.grad().to_vector(), (Values{0, 1, 0}));
}

TEST(Reduce, HalfPrecisionAccumulatesInF32) {
  // 0, 1, 0, 1 …: 512 of them; a bf16 accumulator would stall at 256.
  const Tensor alternating = (arange(512).to(bf16) - floor_divide(arange(512), 2).to(bf16) * 2);
  EXPECT_EQ(mean(remainder(arange(512), 2).to(bf16)).item(), 0.5);
  const Tensor total = sum(ones({1000}, bf16));
  EXPECT_EQ(total.dtype(), bf16);
  EXPECT_EQ(total.item(), 1000);
  EXPECT_EQ(sum(ones({100, 3}, f16), {0}).to_vector(), (Values{100, 100, 100}));
  EXPECT_EQ(alternating.dtype(), bf16);
}

TEST(Reduce, DtypesOfResults) {
  EXPECT_EQ(sum(ones({3}, i32)).dtype(), i64);
  EXPECT_EQ(sum(ones({3}, boolean)).item<int64_t>(), 3);
  EXPECT_EQ(prod(full({3}, 3, u8)).item<int64_t>(), 27);
  EXPECT_EQ(amax(ones({3}, i16)).dtype(), i16);
  EXPECT_EQ(max(ones({3}, boolean)).dtype(), boolean);
  EXPECT_EQ(argmax(ones({3}, f32)).dtype(), i64);
  EXPECT_EQ(logsumexp(zeros({4}, i64)).dtype(), f32);
  EXPECT_EQ(all(ones({3}, f32)).dtype(), boolean);
  EXPECT_THROW(mean(ones({3}, i64)), Error);
  EXPECT_THROW(norm(ones({3}, i64)), Error);
  EXPECT_THROW(var(ones({3}, boolean)), Error);
  EXPECT_EQ(sum(full({2}, 4611686018427387905.0, i64)).dtype(), i64);
}

TEST(Reduce, Dimensions) {
  const Tensor x = ones({2, 3, 4});
  EXPECT_EQ(sum(x).shape(), Shape{});
  EXPECT_EQ(sum(x, {1}).shape(), (Shape{2, 4}));
  EXPECT_EQ(sum(x, {-1, 0}, true).shape(), (Shape{1, 3, 1}));
  EXPECT_EQ(sum(x, {}, true).shape(), (Shape{1, 1, 1}));
  EXPECT_EQ(sum(full({}, 3.0), {0}).item(), 3);
  EXPECT_EQ(argmax(full({}, 3.0), -1).item<int64_t>(), 0);
  EXPECT_THROW(sum(x, {3}), Error);
  EXPECT_THROW(sum(x, {1, -2}), Error);
  EXPECT_EQ(x.sum({0}).shape(), (Shape{3, 4}));
  EXPECT_EQ(x.mean().item(), 1);
}

TEST(Reduce, Empty) {
  const Tensor x = zeros({2, 0});
  EXPECT_EQ(sum(x, {1}).to_vector(), (Values{0, 0}));
  EXPECT_EQ(prod(x).item(), 1);
  EXPECT_TRUE(std::isnan(mean(x).item()));
  EXPECT_EQ(logsumexp(x, {1}).to_vector(), (Values{-kInf, -kInf}));
  EXPECT_TRUE(all(x).item<bool>());
  EXPECT_FALSE(any(x).item<bool>());
  EXPECT_EQ(norm(x).item(), 0);
  EXPECT_EQ(sum(x, {0}).shape(), Shape{0});
  EXPECT_EQ(amax(x, {0}).shape(), Shape{0});
  EXPECT_THROW(amax(x, {1}), Error);
  EXPECT_THROW(argmin(x), Error);
  EXPECT_THROW(max(zeros({0, 3}), 0), Error);
  EXPECT_THROW(norm(x, -kInf), Error);
  EXPECT_EQ(cumsum(x, 1).shape(), (Shape{2, 0}));
  Tensor leaf = zeros({0, 3}, {.requires_grad = true});
  sum(leaf, {0}).backward(ones({3}));
  EXPECT_EQ(leaf.grad().shape(), (Shape{0, 3}));
}

TEST(Reduce, NanAndIndices) {
  const Tensor x = tensor({1, kNan, 3, kNan}, {.dtype = f32});
  EXPECT_TRUE(std::isnan(max(x).item()));
  EXPECT_EQ(argmax(x).item<int64_t>(), 1);
  EXPECT_EQ(argmin(x).item<int64_t>(), 1);
  EXPECT_TRUE(any(tensor({0, kNan})).item<bool>());
  const auto [values, indices] = max(tensor({1, 5, 5, 7, 2, 7}).reshape({2, 3}), 1, true);
  EXPECT_EQ(values.shape(), (Shape{2, 1}));
  EXPECT_EQ(indices.to_vector(), (Values{1, 0}));
  EXPECT_EQ(argmax(tensor({1, 5, 5, 7, 2, 7}).reshape({2, 3})).item<int64_t>(), 3);
  // The index counts the reduced elements in row-major order, whatever the strides.
  EXPECT_EQ(argmax(tensor({1, 5, 9, 7, 2, 4}).reshape({2, 3}).t()).item<int64_t>(), 4);
}

TEST(Reduce, MetaHasShapesOnly) {
  const Tensor x = empty({5, 6}, {.device = meta_device});
  EXPECT_EQ(sum(x, {0}).shape(), Shape{6});
  EXPECT_EQ(max(x, 1).indices.shape(), Shape{5});
  EXPECT_TRUE(logsumexp(x).is_meta());
  EXPECT_TRUE(cumsum(x, 0).is_meta());
}

TEST(Reduce, Variance) {
  const Tensor x = tensor({1, 2, 4, 9}, {.dtype = f64});
  EXPECT_DOUBLE_EQ(var(x).item(), 38.0 / 3);
  EXPECT_DOUBLE_EQ(var(x, {}, 0).item(), 38.0 / 4);
  EXPECT_TRUE(std::isnan(var(tensor({1})).item()));
  // No cancellation: a mean far from 0.
  EXPECT_NEAR(var(tensor({1e8, 1e8 + 1, 1e8 + 2}, {.dtype = f64})).item(), 1, 1e-9);
}

}  // namespace
}  // namespace weft
