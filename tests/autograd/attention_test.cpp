// Scaled dot product attention: against the plain formula, with masks, groups, layouts, and gradients of both orders.
#include "autograd/ops/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "autograd/engine.h"
#include "autograd/functional.h"
#include "autograd/ops/ops.h"

namespace weft {
namespace {

using Values = std::vector<double>;
constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor sample(const Shape& shape, uint64_t seed = 7, DType dtype = f64) {
  Generator generator(seed);
  return randn(shape, {.dtype = f64}, &generator).to(dtype);
}

// Row by row, in f64.
Tensor plain(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  const Tensor o = zeros({q.size(0), q.size(1), q.size(2), v.size(3)}, f64);
  const Tensor wide_q = q.to(f64), wide_k = k.to(f64), wide_v = v.to(f64);
  const Shape scores_shape = {q.size(0), q.size(1), q.size(2), k.size(2)};
  const Tensor mask =
      options.mask.defined()
          ? options.mask.detach().to(options.mask.dtype() == boolean ? boolean : f64).expand(scores_shape).clone()
          : Tensor();
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(q.size(3))));
  const auto out = o.view<double>(), queries = wide_q.view<double>(), keys = wide_k.view<double>(),
             values = wide_v.view<double>();
  for (int64_t b = 0; b < q.size(0); ++b)
    for (int64_t h = 0; h < q.size(1); ++h)
      for (int64_t i = 0; i < q.size(2); ++i) {
        const int64_t g = h / (q.size(1) / k.size(1));
        Values score(static_cast<size_t>(k.size(2)), -kInf);
        double highest = -kInf, total = 0;
        for (int64_t j = 0; j < k.size(2); ++j) {
          if (options.causal && j > i) continue;
          if (mask.defined() && mask.dtype() == boolean && !mask.view<bool>()(b, h, i, j)) continue;
          double s = 0;
          for (int64_t d = 0; d < q.size(3); ++d) s += queries(b, h, i, d) * keys(b, g, j, d);
          s *= scale;
          if (mask.defined() && mask.dtype() != boolean) s += mask.view<double>()(b, h, i, j);
          score[static_cast<size_t>(j)] = s;
          highest = std::max(highest, s);
        }
        if (highest == -kInf) continue;
        for (double& s : score) total += s = std::exp(s - highest);
        for (int64_t j = 0; j < k.size(2); ++j)
          for (int64_t d = 0; d < v.size(3); ++d)
            out(b, h, i, d) += score[static_cast<size_t>(j)] / total * values(b, g, j, d);
      }
  return o;
}

void expect_near(const Tensor& got, const Tensor& want, double tolerance) {
  ASSERT_EQ(got.shape(), want.shape());
  const Values a = got.to_vector(), b = want.to_vector();
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << "element " << i;
}

struct Case {
  const char* name;
  Shape q, k, v;
  AttentionOptions options;
};

std::vector<Case> cases() {
  const Tensor seen = (sample({2, 1, 5, 6}, 20) > -0.5);
  const Tensor bias = sample({5, 6}, 21);
  return {{"plain", {2, 2, 5, 3}, {2, 2, 6, 3}, {2, 2, 6, 4}, {}},
          {"causal", {2, 2, 5, 3}, {2, 2, 6, 3}, {2, 2, 6, 4}, {.causal = true}},
          {"scaled", {1, 1, 3, 2}, {1, 1, 3, 2}, {1, 1, 3, 2}, {.scale = 0.3}},
          {"bool mask", {2, 2, 5, 3}, {2, 2, 6, 3}, {2, 2, 6, 4}, {.mask = seen}},
          {"added mask", {2, 2, 5, 3}, {2, 2, 6, 3}, {2, 2, 6, 4}, {.mask = bias}},
          {"causal and mask", {2, 2, 5, 3}, {2, 2, 6, 3}, {2, 2, 6, 4}, {.causal = true, .mask = bias}},
          {"groups", {2, 4, 5, 3}, {2, 2, 6, 3}, {2, 2, 6, 4}, {.causal = true}},
          {"one key head", {1, 4, 3, 2}, {1, 1, 4, 2}, {1, 1, 4, 2}, {}},
          {"one query", {2, 2, 1, 3}, {2, 2, 6, 3}, {2, 2, 6, 4}, {}}};
}

TEST(Attention, ValuesAndGradients) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const Tensor q = sample(c.q), k = sample(c.k, 8), v = sample(c.v, 9);
    expect_near(scaled_dot_product_attention(q, k, v, c.options), plain(q, k, v, c.options), 1e-12);
    const TensorFunction f = [&](const std::vector<Tensor>& in) {
      return square(scaled_dot_product_attention(in[0], in[1], in[2], c.options));
    };
    gradcheck(f, {q, k, v});
    gradgradcheck(f, {q, k, v});
  }
}

TEST(Attention, F32Tiles) {
  // Longer than the tiles of the kernel, with ragged ends.
  for (const bool causal : {false, true})
    for (const int64_t time : {1, 17, 64, 150}) {
      SCOPED_TRACE(time);
      const Tensor q = sample({2, 4, time, 33}, 1, f32), k = sample({2, 2, time + 3, 33}, 2, f32);
      const Tensor v = sample({2, 2, time + 3, 20}, 3, f32), dy = sample({2, 4, time, 20}, 4, f32);
      const AttentionOptions options = {.causal = causal};
      expect_near(scaled_dot_product_attention(q, k, v, options), plain(q, k, v, options), 2e-5);
      const auto run = [&](DType dtype, bool create_graph) {
        std::vector<Tensor> leaves;
        for (const Tensor& x : {q, k, v}) leaves.push_back(x.to(dtype).clone().requires_grad_());
        return grad({scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], options)}, leaves, {dy.to(dtype)},
                    {.create_graph = create_graph});
      };
      const auto want = run(f64, true), fused = run(f32, false), composite = run(f32, true), wide = run(f64, false);
      for (size_t i = 0; i < want.size(); ++i) {
        expect_near(fused[i], want[i], 1e-4);
        expect_near(composite[i], want[i], 1e-4);
        expect_near(wide[i], want[i], 1e-11);
      }
    }
}

TEST(Attention, Layouts) {
  const Tensor q = sample({2, 3, 5, 4}, 1, f32), k = sample({2, 3, 6, 4}, 2, f32), v = sample({2, 3, 6, 4}, 3, f32);
  const Tensor want = scaled_dot_product_attention(q, k, v);
  const auto by_time = [](const Tensor& x) { return x.transpose(1, 2).contiguous().transpose(1, 2); };
  const auto by_column = [](const Tensor& x) { return x.transpose(2, 3).contiguous().transpose(2, 3); };
  expect_near(scaled_dot_product_attention(by_time(q), by_time(k), by_time(v)), want, 1e-6);
  expect_near(scaled_dot_product_attention(by_column(q), by_column(k), by_column(v)), want, 1e-6);
  const auto gradients = [&](auto&& layout) {
    std::vector<Tensor> leaves;
    for (const Tensor& x : {q, k, v}) leaves.push_back(x.clone().requires_grad_());
    return grad({sum(square(scaled_dot_product_attention(layout(leaves[0]), layout(leaves[1]), layout(leaves[2]))))},
                leaves);
  };
  const auto dense = gradients([](const Tensor& x) { return x; });
  const auto strided = gradients(by_column);
  for (size_t i = 0; i < dense.size(); ++i) expect_near(strided[i], dense[i], 1e-5);
  // One packed tensor, as GPT-2 makes it.
  Tensor packed = sample({2, 5, 3 * 12}, 5, f32).requires_grad_();
  const auto part = [&](int64_t i) {
    return packed.slice(2, 12 * i, 12 * (i + 1)).reshape({2, 5, 3, 4}).transpose(1, 2);
  };
  const Tensor y = scaled_dot_product_attention(part(0), part(1), part(2), {.causal = true});
  expect_near(y, plain(part(0), part(1), part(2), {.causal = true}), 1e-5);
  sum(y).backward();
  EXPECT_EQ(packed.grad().shape(), packed.shape());
}

TEST(Cases, C125_fully_masked_rows) {
  for (const DType dtype : {f32, f64})
    for (const bool as_bool : {false, true}) {
      std::vector<Tensor> leaves;
      for (uint64_t seed : {1, 2, 3}) leaves.push_back(sample({1, 1, 3, 4}, seed, dtype).requires_grad_());
      const Tensor row = arange(3).unsqueeze(1).expand({3, 3});
      const Tensor mask = as_bool ? row != 1 : where(row != 1, zeros({3, 3}, dtype), -kInf);
      for (const bool create_graph : {false, true}) {
        const Tensor y = scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], {.mask = mask});
        EXPECT_EQ(y[0][0][1].to_vector(), (Values{0, 0, 0, 0}));
        const auto g = grad({y}, leaves, {ones_like(y)}, {.create_graph = create_graph});
        EXPECT_EQ(g[0][0][0][1].to_vector(), (Values{0, 0, 0, 0}));
        for (const Tensor& t : g) EXPECT_TRUE(all(isfinite(t)).item<bool>());
      }
    }
}

TEST(Attention, LearnedMaskAndThreeDimensions) {
  const Tensor q = sample({2, 2, 3, 4}), k = sample({2, 2, 5, 4}, 8), v = sample({2, 2, 5, 4}, 9);
  gradcheck(
      [](const std::vector<Tensor>& in) { return scaled_dot_product_attention(in[0], in[1], in[2], {.mask = in[3]}); },
      {q, k, v, sample({2, 3, 5}, 10)});
  expect_near(scaled_dot_product_attention(q[0], k[0], v[0]),
              scaled_dot_product_attention(q[0].unsqueeze(1), k[0].unsqueeze(1), v[0].unsqueeze(1)).squeeze(1), 0);
}

TEST(Attention, DropoutOfProbabilities) {
  manual_seed(1);
  const Tensor q = sample({1, 1, 4, 3}), ones_v = ones({1, 1, 50, 1}, f64), k = sample({1, 1, 50, 3}, 8);
  const Tensor y = scaled_dot_product_attention(q, k, ones_v, {.dropout = 0.5});
  EXPECT_NEAR(y.mean().item(), 1, 0.5);
  EXPECT_NE(y.to_vector(), ones({4}, f64).to_vector());
  gradcheck(
      [&](const Tensor& x) {
        manual_seed(2);
        return scaled_dot_product_attention(x, k, ones_v, {.dropout = 0.5});
      },
      q);
}

TEST(Attention, WindowIsAMask) {
  const Tensor q = sample({1, 2, 6, 4}), k = sample({1, 2, 7, 4}, 8), v = sample({1, 2, 7, 4}, 9);
  const Tensor distance = arange(6).unsqueeze(1) - arange(7).unsqueeze(0);
  expect_near(scaled_dot_product_attention(q, k, v, {.window = 2}),
              scaled_dot_product_attention(q, k, v, {.mask = abs(distance) < 2}), 0);
  expect_near(scaled_dot_product_attention(q, k, v, {.causal = true, .window = 3}),
              scaled_dot_product_attention(q, k, v, {.mask = logical_and(distance >= 0, distance < 3)}), 1e-12);
  expect_near(matmul(attention_weights(q, k, {.causal = true, .window = 3}), v),
              scaled_dot_product_attention(q, k, v, {.causal = true, .window = 3}), 1e-12);
  EXPECT_THROW(scaled_dot_product_attention(q, k, v, {.window = -1}), Error);
  EXPECT_THROW(scaled_dot_product_attention(q, k, v, {.dropout = 2}), Error);
  EXPECT_THROW(scaled_dot_product_attention(q, k, v, {.mask = ones({6, 7}, i64)}), Error);
}

TEST(Attention, ScaleOfZeroIsTheMean) {
  const Tensor q = sample({1, 1, 2, 4}), v = sample({1, 1, 3, 4}, 9);
  expect_near(scaled_dot_product_attention(q, v, v, {.scale = 0.0}), mean(v, {2}, true).expand({1, 1, 2, 4}), 1e-12);
}

TEST(Rope, DependsOnTheDistance) {
  const Tensor q = sample({1, 1, 1, 8}), k = sample({1, 1, 1, 8}, 8);
  for (const bool interleaved : {false, true}) {
    const auto score = [&](int64_t at, int64_t other) {
      const auto turned = [&](const Tensor& x, int64_t position) {
        return rope(x, tensor(std::vector<int64_t>{position}), {.interleaved = interleaved});
      };
      return sum(turned(q, at) * turned(k, other)).item();
    };
    EXPECT_NEAR(score(5, 2), score(105, 102), 1e-9);
    EXPECT_NEAR(score(0, 0), sum(q * k).item(), 1e-12);
  }
  // Pairs (0, 4), (1, 5), … or (0, 1), (2, 3), …: the same but for the order of the elements.
  const Tensor order = tensor(std::vector<int64_t>{0, 4, 1, 5, 2, 6, 3, 7});
  const Tensor position = tensor(std::vector<int64_t>{7});
  expect_near(index_select(rope(q, position), 3, order),
              rope(index_select(q, 3, order), position, {.interleaved = true}), 1e-12);
}

TEST(Rope, FarPositionsAndErrors) {
  const RopeTables tables = rope_tables(tensor(std::vector<int64_t>{0, 131071}), {.dim = 2});
  EXPECT_NEAR(tables.cos[1].item(), std::cos(131071.0), 1e-5);
  EXPECT_NEAR(tables.sin[1].item(), std::sin(131071.0), 1e-5);
  const Tensor x = sample({1, 1, 2, 6});
  EXPECT_THROW(rope(x, arange(3)), Error);
  EXPECT_THROW(rope(x, arange(2), {.dim = 8}), Error);
  EXPECT_THROW(rope(x, arange(2), {.dim = 3}), Error);
  EXPECT_THROW(rope(x, zeros({2})), Error);
  EXPECT_THROW(rope_tables(arange(2), {.dim = 4, .scaling = {.low_freq_factor = 2, .high_freq_factor = 1}}), Error);
}

TEST(Attention, Errors) {
  const Tensor q = ones({1, 4, 3, 2});
  EXPECT_THROW(scaled_dot_product_attention(q, ones({1, 3, 3, 2}), ones({1, 3, 3, 2})), Error);
  EXPECT_THROW(scaled_dot_product_attention(q, ones({1, 4, 3, 3}), ones({1, 4, 3, 3})), Error);
  EXPECT_THROW(scaled_dot_product_attention(q, q, ones({1, 4, 4, 2})), Error);
  EXPECT_THROW(scaled_dot_product_attention(q, q, q, {.mask = ones({2, 7})}), Error);
  EXPECT_THROW(scaled_dot_product_attention(q[0][0], q, q), Error);
  EXPECT_THROW(scaled_dot_product_attention(q, q.to(f64), q), Error);
  EXPECT_THROW(scaled_dot_product_attention(q.to(i64), q.to(i64), q.to(i64)), Error);
  const Tensor half = q.to(f16);
  EXPECT_EQ(scaled_dot_product_attention(half, half, half).dtype(), f16);
}

}  // namespace
}  // namespace weft
