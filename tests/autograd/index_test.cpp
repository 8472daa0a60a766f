// Index, joining and ordering ops: results and errors. What all ops have in common is tested in op_case_test.cpp.
#include "autograd/ops/index.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "autograd/ops/pointwise.h"
#include "tensor/factory.h"

namespace weft {
namespace {

using Values = std::vector<double>;
constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor whole(std::vector<int64_t> values) { return tensor(values); }

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Index, OutOfRangeNamesOpIndexAndSize) {
  const Tensor x = ones({2, 5});
  const auto expect = [](const std::string& got, const char* op, const char* index) {
    EXPECT_NE(got.find(op), std::string::npos) << got;
    EXPECT_NE(got.find(index), std::string::npos) << got;
    EXPECT_NE(got.find("size 5"), std::string::npos) << got;
  };
  expect(error_of([&] { index_select(x, 1, whole({0, 7})); }), "[index_select]", "index 7");
  expect(error_of([&] { index_select(x, 1, whole({-1})); }), "[index_select]", "index -1");
  expect(error_of([&] { gather(x, 1, whole({5, 0}).reshape({2, 1})); }), "[gather]", "index 5");
  expect(error_of([&] { scatter(x, 1, whole({9, 0}).reshape({2, 1}), 1.0); }), "[scatter]", "index 9");
  expect(error_of([&] { index(x, {Tensor(), whole({-6})}); }), "[index]", "index -6");
  expect(error_of([&] { one_hot(whole({5}), 5); }), "[one_hot]", "index 5");
  EXPECT_THROW(index_select(x, 2, whole({0})), Error);
  EXPECT_THROW(gather(x, 0, tensor({1.0})), Error);
  EXPECT_THROW(gather(x, 0, whole({1})), Error);
}

TEST(Index, AdvancedIndexing) {
  const Tensor x = arange(24).reshape({2, 3, 4});
  EXPECT_EQ(index(x, {Tensor(), whole({2, 0})}).shape(), (Shape{2, 2, 4}));
  EXPECT_EQ(index(x, {Tensor(), whole({2, 0}), whole({1, -1})}).to_vector(), (Values{9, 3, 21, 15}));
  // Apart: the common dimension comes first.
  EXPECT_EQ(index(x, {whole({1}), Tensor(), whole({1, -1})}).shape(), (Shape{2, 3}));
  EXPECT_EQ(index(x, {whole({1}), Tensor(), whole({1, -1})}).to_vector(), (Values{13, 17, 21, 15, 19, 23}));
  const Tensor column = whole({0, 1}).reshape({2, 1});
  EXPECT_EQ(index(x, {column, whole({0, 2})}).shape(), (Shape{2, 2, 4}));
  EXPECT_EQ(index(x, {x > 21}).to_vector(), (Values{22, 23}));
  EXPECT_EQ(index(x, {tensor({0, 1}, {.dtype = boolean})}).shape(), (Shape{1, 3, 4}));
  EXPECT_THROW(index(x, {ones({3}, boolean)}), Error);
}

TEST(Index, GatherAndScatterOnOtherLayouts) {
  const Tensor x = arange(6).reshape({3, 2}).t();  // [[0, 2, 4], [1, 3, 5]]
  const Tensor at = whole({1, 0, 1}).reshape({1, 3});
  EXPECT_EQ(gather(x, 0, at).to_vector(), (Values{1, 2, 5}));
  EXPECT_EQ(scatter(x, 0, at, -1.0).to_vector(), (Values{0, -1, 4, -1, 3, -1}));
  EXPECT_EQ(gather(x, 0, at.to(i32)).to_vector(), (Values{1, 2, 5}));
  EXPECT_EQ(gather(full({}, 7.0), 0, whole({0}).reshape({})).item(), 7);
  // bf16 sums repeated positions in f32.
  const Tensor counted = index_add(zeros({1}, bf16), 0, zeros({1000}, i64), ones({1000}, bf16));
  EXPECT_EQ(counted.item(), 1000);
  EXPECT_EQ(gather(ones({3, 0}), 1, zeros({3, 0}, i64)).shape(), (Shape{3, 0}));
}

TEST(Index, ScatterReduce) {
  const Tensor source = tensor({1, 2, 3, 4, 5, 6}), at = tensor(std::vector<int64_t>{0, 1, 0, 1, 2, 1});
  const Tensor x = tensor({1, 2, 3, 4});
  const auto reduced = [&](const char* reduce, bool include_self) {
    return scatter_reduce(x, 0, at, source, reduce, include_self).to_vector();
  };
  EXPECT_EQ(reduced("sum", true), (Values{5, 14, 8, 4}));
  EXPECT_EQ(reduced("sum", false), (Values{4, 12, 5, 4}));
  EXPECT_EQ(reduced("prod", true), (Values{3, 96, 15, 4}));
  EXPECT_EQ(reduced("prod", false), (Values{3, 48, 5, 4}));
  EXPECT_EQ(reduced("mean", false), (Values{2, 4, 5, 4}));
  EXPECT_EQ(reduced("amin", true), (Values{1, 2, 3, 4}));
  EXPECT_EQ(reduced("amin", false), (Values{1, 2, 5, 4}));
  EXPECT_EQ(reduced("amax", true), (Values{3, 6, 5, 4}));
  // Whole numbers: the mean is rounded down.
  EXPECT_EQ(scatter_reduce(x.to(i32), 0, at, -source.to(i32), "mean", false).to_vector(), (Values{-2, -4, -5, 4}));
  EXPECT_EQ(scatter_reduce(x.to(i64), 0, at, -source.to(i64), "mean").to_vector(), (Values{-1, -3, -1, 4}));
  EXPECT_EQ(scatter_reduce(x.to(u8), 0, at, source.to(u8), "amin").to_vector(), (Values{1, 2, 3, 4}));
}

TEST(Index, ScatterReduceOfExtremes) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor at = tensor(std::vector<int64_t>{0, 0, 1, 1, 1});
  for (const char* reduce : {"amax", "amin"}) {
    const Values y = scatter_reduce(tensor({1, 1, 1}), 0, at, tensor({0, nan, 1, 1, 1}), reduce).to_vector();
    EXPECT_TRUE(std::isnan(y[0])) << reduce;
    EXPECT_EQ(y[1], 1);
    // Equal ones share evenly: x's own and three of the source.
    for (const bool include_self : {true, false}) {
      const Tensor x = tensor({1, 1, 1}).requires_grad_(), source = tensor({1, 1, 1, 1, 1}).requires_grad_();
      sum(scatter_reduce(x, 0, at, source, reduce, include_self)).backward();
      const Values own = x.grad().to_vector(), others = source.grad().to_vector();
      EXPECT_FLOAT_EQ(own[1], include_self ? 0.25f : 0.0f);
      EXPECT_FLOAT_EQ(own[2], 1.0f);
      EXPECT_FLOAT_EQ(others[0], include_self ? 1.0f / 3 : 0.5f);
      EXPECT_FLOAT_EQ(others[4], include_self ? 0.25f : 1.0f / 3);
    }
  }
}

TEST(Index, ProductsWithZerosHaveExactGradients) {
  const Tensor x = tensor({2, 3}).requires_grad_(), source = tensor({0, 5, 7, 0, 0}).requires_grad_();
  sum(scatter_reduce(x, 0, tensor(std::vector<int64_t>{0, 0, 0, 1, 1}), source, "prod")).backward();
  EXPECT_EQ(x.grad().to_vector(), (Values{0, 0}));
  EXPECT_EQ(source.grad().to_vector(), (Values{70, 0, 0, 0, 0}));
}

TEST(Index, WritingSlicesAndPositions) {
  const Tensor x = zeros({2, 3}), at = tensor(std::vector<int64_t>{1, 0, 1});
  const Tensor source = tensor({1, 2, 3, 4, 5, 6}).reshape({2, 3});
  EXPECT_EQ(index_copy(x, 1, at, source).to_vector(), (Values{2, 3, 0, 5, 6, 0}));
  EXPECT_EQ(index_fill(x, 1, at - 3, 7.0).to_vector(), (Values{7, 7, 0, 7, 7, 0}));
  const Tensor rows = tensor(std::vector<int64_t>{0, -1, 0});
  EXPECT_EQ(index_put(x, {rows, at}, tensor({1, 2, 3})).to_vector(), (Values{0, 3, 0, 2, 0, 0}));
  EXPECT_EQ(index_put(x, {rows, at}, tensor({1, 2, 3}), true).to_vector(), (Values{0, 4, 0, 2, 0, 0}));
  EXPECT_EQ(index_put(x, {{}, at}, tensor({1, 2, 3}), true).to_vector(), (Values{2, 4, 0, 2, 4, 0}));
  EXPECT_EQ(index_put(x, {source > 4.0}, tensor({8, 9})).to_vector(), (Values{0, 0, 0, 0, 8, 9}));
  EXPECT_EQ(masked_scatter(x, tensor({1, 0, 1}).to(boolean), tensor({1, 2, 3, 4, 5})).to_vector(),
            (Values{1, 0, 2, 3, 0, 4}));
}

TEST(Index, MasksAndCounts) {
  const Tensor x = tensor({3, 0, -1, 0, 5, 0}).reshape({2, 3});
  EXPECT_EQ(nonzero(x).to_vector(), (Values{0, 0, 0, 2, 1, 1}));
  EXPECT_EQ(nonzero(zeros({3})).shape(), (Shape{0, 1}));
  EXPECT_EQ(masked_fill(x, x < 0, -kInf).to_vector(), (Values{3, 0, -kInf, 0, 5, 0}));
  EXPECT_THROW(masked_fill(x, x, 1), Error);
  EXPECT_EQ(one_hot(whole({1, 0})).to_vector(), (Values{0, 1, 1, 0}));
  EXPECT_EQ(bincount(whole({1, 3, 1})).to_vector(), (Values{0, 2, 0, 1}));
  EXPECT_THROW(bincount(whole({-1})), Error);
}

TEST(Index, JoiningAndCutting) {
  const Tensor a = arange(4).reshape({2, 2});
  EXPECT_EQ(cat({a, a + 4}, 1).to_vector(), (Values{0, 1, 4, 5, 2, 3, 6, 7}));
  EXPECT_EQ(cat({ones({2}, f32), ones({1}, i64)}).dtype(), f32);
  EXPECT_EQ(cat({a, zeros({0}, i64)}, 1).shape(), (Shape{2, 2}));
  EXPECT_THROW(cat({a, ones({3, 3}, i64)}, 0), Error);
  EXPECT_THROW(cat({}), Error);
  EXPECT_EQ(stack({a, a}, -1).shape(), (Shape{2, 2, 2}));
  EXPECT_EQ(chunk(arange(5), 3).size(), 3u);
  EXPECT_EQ(split(arange(5), 2)[2].to_vector(), (Values{4}));
  EXPECT_THROW(split(arange(5), std::vector<int64_t>{2, 2}), Error);
  EXPECT_EQ(unbind(a, 1)[1].to_vector(), (Values{1, 3}));
  EXPECT_EQ(flip(a.t(), {0}).to_vector(), (Values{1, 3, 0, 2}));
  EXPECT_EQ(roll(arange(5), {2}).to_vector(), (Values{3, 4, 0, 1, 2}));
  EXPECT_EQ(pad(arange(3), {2, 1}, "reflect").to_vector(), (Values{2, 1, 0, 1, 2, 1}));
  EXPECT_THROW(pad(arange(3), {3, 0}, "reflect"), Error);
  EXPECT_THROW(pad(arange(3), {1}), Error);
  EXPECT_THROW(pad(arange(3), {1, 1}, "circular"), Error);
  EXPECT_EQ(tril(ones({2, 3}, i64)).to_vector(), (Values{1, 0, 0, 1, 1, 0}));
}

TEST(Index, OrderIsStableAndNanIsLargest) {
  const double nan = std::nan("");
  const Tensor x = tensor({2, nan, 1, 2, -kInf});
  EXPECT_EQ(argsort(x).to_vector(), (Values{4, 2, 0, 3, 1}));
  EXPECT_EQ(argsort(x, -1, true).to_vector(), (Values{1, 0, 3, 2, 4}));
  const auto [values, indices] = topk(x, 2);
  EXPECT_TRUE(std::isnan(values.to_vector()[0]));
  EXPECT_EQ(indices.to_vector(), (Values{1, 0}));
  EXPECT_EQ(topk(arange(1000), 3).values.to_vector(), (Values{999, 998, 997}));
  EXPECT_EQ(topk(arange(10), 9, 0, false).indices.to_vector(), (Values{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_THROW(topk(x, 6), Error);
  const auto [kinds, inverse, counts] = unique(whole({3, 1, 3, 2}).reshape({2, 2}));
  EXPECT_EQ(kinds.to_vector(), (Values{1, 2, 3}));
  EXPECT_EQ(inverse.to_vector(), (Values{2, 0, 2, 1}));
  EXPECT_EQ(counts.to_vector(), (Values{1, 1, 2}));
}

TEST(Index, MetaHasShapesOnly) {
  const Tensor x = empty({4, 3}, {.device = meta_device});
  EXPECT_EQ(cat({x, x}, 1).shape(), (Shape{4, 6}));
  EXPECT_EQ(index_select(x, 0, whole({0, 1}).to(meta_device)).shape(), (Shape{2, 3}));
  EXPECT_EQ(sort(x).values.shape(), (Shape{4, 3}));
  EXPECT_EQ(flip(x, {0}).shape(), (Shape{4, 3}));
  EXPECT_EQ(pad(x, {1, 1}).shape(), (Shape{4, 5}));
}

}  // namespace
}  // namespace weft
