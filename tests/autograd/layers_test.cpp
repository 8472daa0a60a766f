// Softmax, losses, norms, products, embedding, convolution, pooling, dropout: values against plain formulas, gradients of
// first and second order against finite differences, layouts, edges.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "autograd/engine.h"
#include "autograd/functional.h"
#include "autograd/ops/ops.h"
#include "tests/support/nightly.h"

namespace weft {
namespace {

using Values = std::vector<double>;
constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor sample(const Shape& shape, uint64_t seed = 7, DType dtype = f64) {
  Generator generator(seed);
  return randn(shape, {.dtype = f64}, &generator).to(dtype);
}
Tensor whole(std::vector<int64_t> values) { return tensor(values); }

void check_gradients(const TensorFunction& f, const std::vector<Tensor>& inputs) {
  // Squared, so that there is a second derivative.
  const TensorFunction squared = [&](const std::vector<Tensor>& in) { return square(f(in)); };
  gradcheck(squared, inputs);
  gradgradcheck(squared, inputs);
}

void expect_near(const Tensor& got, const Tensor& want, double tolerance) {
  ASSERT_EQ(got.shape(), want.shape());
  const Values a = got.to_vector(), b = want.to_vector();
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << "element " << i;
}

// The fused backward in f32 and under create_graph against f64.
void check_f32(const TensorFunction& f, const std::vector<Tensor>& inputs, double tolerance = 2e-5) {
  const auto run = [&](DType dtype, bool create_graph) {
    std::vector<Tensor> leaves;
    for (const Tensor& x : inputs) leaves.push_back(x.to(dtype).detach().clone().requires_grad_());
    const Tensor y = f(leaves);
    std::vector<Tensor> result = grad({y}, leaves, {sample(y.shape(), 99, dtype)}, {.create_graph = create_graph});
    result.push_back(y);
    return result;
  };
  const auto want = run(f64, false), fused = run(f32, false), composite = run(f32, true);
  for (size_t i = 0; i < want.size(); ++i) {
    SCOPED_TRACE(i);
    expect_near(fused[i], want[i], tolerance);
    expect_near(composite[i], want[i], tolerance);
  }
}

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// --- softmax ----------------------------------------------------------------------------------------------------

TEST(Softmax, Values) {
  for (const int64_t width : {1, 3, 8, 17, 1000}) {
    const Tensor x = sample({4, width}, 3, f32) * 30, y = softmax(x, 1), wide = x.to(f64);
    expect_near(y, exp(wide) / sum(exp(wide), {1}, true), 1e-6);
    expect_near(sum(y, {1}), ones({4}), 1e-5);
    expect_near(log_softmax(x, 1), wide - logsumexp(wide, {1}, true), 2e-5);
  }
  EXPECT_EQ(softmax(sample({2, 3}, 1, bf16), 1).dtype(), bf16);
  EXPECT_EQ(softmax(zeros({0, 3}), 1).shape(), (Shape{0, 3}));
  EXPECT_EQ(softmax(zeros({3, 0}), 1).shape(), (Shape{3, 0}));
  EXPECT_EQ(softmax(full({}, 5.0), 0).item(), 1);
  EXPECT_THROW(softmax(ones({3}, i64), 0), Error);
  EXPECT_THROW(softmax(ones({3}), 1), Error);
  EXPECT_TRUE(std::isnan(softmax(full({3}, -kInf), 0)[0].item()));
  EXPECT_EQ(softmax(tensor({1000, 1000}), 0).to_vector(), (Values{0.5, 0.5})) << "no overflow";
}

TEST(Cases, C124_rows_with_minus_infinity) {
  EXPECT_EQ(softmax(tensor({0, -kInf, 0}), 0).to_vector(), (Values{0.5, 0, 0.5}));
  for (const int64_t width : {1, 3, 17}) {
    Tensor x = sample({2, width}, 5, f32);
    EXPECT_NEAR(sum(softmax(x, 1)).item(), 2, 1e-6);
  }
}

// --- cross entropy ----------------------------------------------------------------------------------------------

TEST(CrossEntropy, Gradients) {
  const Tensor logits = sample({5, 4}), target = whole({1, 0, 3, 2, 1});
  const Tensor weight = tensor({0.5, 2, 1, 1.5}, {.dtype = f64});
  for (const auto reduction : {LossReduction::none, LossReduction::mean, LossReduction::sum})
    for (const double smoothing : {0.0, 0.2})
      for (const bool weighted : {false, true}) {
        CrossEntropyLossOptions options;
        options.reduction = reduction;
        options.label_smoothing = smoothing;
        options.ignore_index = 3;
        const auto f = [&](const std::vector<Tensor>& in) {
          CrossEntropyLossOptions own = options;
          if (weighted) own.weight = weight.to(in[0].dtype());
          return cross_entropy(in[0], target, own);
        };
        check_gradients(f, {logits});
        check_f32(f, {logits});
      }
  check_gradients(
      [&](const auto& in) {
        return cross_entropy(in[0], whole({1, 0, 2, 3, 1, 0}).reshape({2, 3}));
      },
      {sample({2, 4, 3})});
  check_gradients([&](const auto& in) { return cross_entropy(in[0].t(), whole({1, 0, 3, 2, 1})); }, {sample({4, 5})});
}

TEST(CrossEntropy, Errors) {
  const Tensor logits = ones({3, 4});
  EXPECT_NE(error_of([&] { cross_entropy(logits, whole({0, 4, 1})); }).find("4"), std::string::npos);
  EXPECT_THROW(cross_entropy(logits, whole({0, -1, 1})), Error);
  EXPECT_THROW(cross_entropy(logits, whole({0, 1})), Error);
  EXPECT_THROW(cross_entropy(logits, ones({3})), Error);
  EXPECT_THROW(cross_entropy(logits, whole({0, 1, 2}), {.label_smoothing = 1.5}), Error);
}

TEST(Cases, C119_all_targets_ignored) {
  const Tensor target = whole({-1});
  const auto loss = [&](LossReduction reduction, Values* gradient, bool zero_if_all_ignored = false) {
    Tensor x = tensor({1, 2, 3}).reshape({1, 3}).requires_grad_();
    CrossEntropyLossOptions options;
    options.zero_if_all_ignored = zero_if_all_ignored;
    options.ignore_index = -1;
    options.reduction = reduction;
    const Tensor y = cross_entropy(x, target, options);
    y.backward(ones_like(y));
    *gradient = x.grad().to_vector();
    return y.sum().item();
  };
  Values gradient;
  EXPECT_EQ(loss(LossReduction::none, &gradient), 0);
  EXPECT_EQ(gradient, (Values{0, 0, 0}));
  EXPECT_EQ(loss(LossReduction::sum, &gradient), 0);
  EXPECT_EQ(gradient, (Values{0, 0, 0}));
  EXPECT_TRUE(std::isnan(loss(LossReduction::mean, &gradient)));
  EXPECT_EQ(gradient, (Values{0, 0, 0}));
  EXPECT_EQ(loss(LossReduction::mean, &gradient, /*zero_if_all_ignored=*/true), 0);
  EXPECT_EQ(gradient, (Values{0, 0, 0}));
}

TEST(Cases, C121_smoothing_does_not_count_ignored_rows) {
  const Tensor logits = sample({2, 5}, 3, f32), target = whole({-100, 2});
  CrossEntropyLossOptions options;
  options.label_smoothing = 0.1;
  const double alone = cross_entropy(logits.slice(0, 1, 2), whole({2}), options).item();
  EXPECT_FLOAT_EQ(static_cast<float>(cross_entropy(logits, target, options).item()), static_cast<float>(alone));
  options.reduction = LossReduction::sum;
  EXPECT_FLOAT_EQ(static_cast<float>(cross_entropy(logits, target, options).item()), static_cast<float>(alone));
}

TEST(Cases, C122_large_logits_keep_their_difference) {
  for (const double v : {1.0, 1e4, 1e6, 1e8})
    EXPECT_FLOAT_EQ(static_cast<float>(cross_entropy(full({1, 2}, v), whole({0})).item()), 0.6931472f) << v;
}

TEST(Cases, C134_ignored_rows_are_zero) {
  {
    const Tensor dirt = full({64}, std::numeric_limits<double>::quiet_NaN());  // goes back to the allocator
  }
  CrossEntropyLossOptions options;
  options.reduction = LossReduction::none;
  std::vector<int64_t> targets(64, -100);
  targets[5] = 1;
  const Values loss = cross_entropy(sample({64, 3}, 2, f32), whole(targets), options).to_vector();
  for (size_t i = 0; i < loss.size(); ++i) EXPECT_EQ(loss[i] == 0, i != 5) << i;
}

// --- norms ------------------------------------------------------------------------------------------------------

TEST(Norm, Values) {
  const Tensor x = sample({5, 33}, 3), y = layer_norm(x, {33});
  expect_near(mean(y, {1}), zeros({5}), 1e-12);
  expect_near(var(y, {1}, 0), ones({5}), 1e-4);
  expect_near(rms_norm(x, {33}, {}, 0), x / sqrt(mean(square(x), {1}, true)), 1e-12);
  // A mean far from 0.
  expect_near(layer_norm(x.to(f32) + 1000, {33}), y, 5e-3);
  EXPECT_EQ(layer_norm(zeros({0, 4}), {4}).shape(), (Shape{0, 4}));
  EXPECT_EQ(layer_norm(sample({2, 4}, 1, bf16), {4}).dtype(), bf16);
  EXPECT_THROW(layer_norm(x, {32}), Error);
  EXPECT_THROW(layer_norm(x, {33}, ones({32}, f64)), Error);
  EXPECT_THROW(rms_norm(ones({3}, i64), {3}), Error);
}

TEST(Cases, C127_layer_norm_of_a_permuted_input) {
  const Tensor x = sample({4, 4, 4}, 3, f32).permute({0, 2, 1});
  expect_near(layer_norm(x, {4}), layer_norm(x.contiguous(), {4}), 1e-6);
}

TEST(Cases, C128_layer_norm_gradients_of_three_dimensions) {
  const Tensor x = sample({2, 3, 4}, 3, f32), dy = sample({2, 3, 4}, 4, f32);
  const auto gradient = [&](const Tensor& input, const Tensor& upstream) {
    Tensor w = ones({4}, {.requires_grad = true}), b = zeros({4}, {.requires_grad = true});
    layer_norm(input, {4}, w, b).backward(upstream);
    EXPECT_EQ(w.grad().shape(), Shape{4});
    return std::pair{w.grad(), b.grad()};
  };
  const auto three = gradient(x, dy), two = gradient(x.reshape({6, 4}), dy.reshape({6, 4}));
  EXPECT_EQ(three.first.to_vector(), two.first.to_vector());
  EXPECT_EQ(three.second.to_vector(), two.second.to_vector());
}

TEST(Cases, C137_layer_norm_without_bias) {
  check_gradients([](const auto& in) { return layer_norm(in[0], {5}, in[1]); }, {sample({3, 5}), sample({5}, 8)});
  Tensor x = sample({3, 5}).requires_grad_(), w = sample({5}, 8).requires_grad_();
  const auto first = grad({sum(square(layer_norm(x, {5}, w)))}, {x, w}, {}, {.create_graph = true});
  EXPECT_EQ(first[0].shape(), x.shape());
  EXPECT_EQ(first[1].shape(), w.shape());
}

// Element counts and offsets beyond 32 bits.
TEST(Cases, C130_counts_of_64_bits) {
  constexpr int64_t kSize = int64_t{1} << 31;
  const Tensor x = empty({2, kSize}, {.dtype = i8, .device = meta_device});
  EXPECT_EQ(x.numel(), 4294967296);
  EXPECT_EQ(x.select(0, 1).select(0, kSize - 1).offset(), 4294967295);
  EXPECT_EQ(x.transpose(0, 1).select(0, kSize - 1).offset(), kSize - 1);
  // One element seen from afar: kernels count in 64 bits without the memory.
  EXPECT_EQ(ones({1}, i8).expand({kSize + 1})[kSize].item(), 1);
  if (!test::nightly()) return;
  const Tensor large = zeros({2, kSize}, i8);
  large[1][kSize - 1].fill_(7);
  EXPECT_EQ(large[1][kSize - 1].item(), 7);
  EXPECT_EQ(sum(large).item(), 7);
  EXPECT_EQ(argmax(large).item(), 4294967295);
}

TEST(Cases, SumsOfManyTermsKeepTheirBound) {
  const Tensor x = rand({3'000'001}), wide = x.to(f64);
  const double bound = (38 + 1) * 0x1p-24 * sum(wide).item();
  EXPECT_LE(std::abs(sum(x).item() - sum(wide).item()), bound);
  const Tensor columns = x.slice(0, 0, 3'000'000).reshape({100'000, 30});
  const Tensor off = abs(sum(columns, {0}).to(f64) - sum(columns.to(f64), {0}));
  EXPECT_LE(max(off).item(), (38 + 1) * 0x1p-24 * 100'000);
}

TEST(Cases, C136_half_precision_sums_in_f32) {
  EXPECT_EQ(mean(remainder(arange(512), 2).to(bf16)).item(), 0.5);
  EXPECT_EQ(sum(ones({1000}, bf16)).item(), 1000);
}

// --- products ---------------------------------------------------------------------------------------------------

TEST(Products, LayoutsAndEmptySizes) {
  const Tensor a = sample({3, 7, 5}, 3, f32), b = sample({3, 5, 6}, 4, f32);
  const Tensor want = matmul(a, b);
  expect_near(matmul(a.transpose(1, 2).contiguous().transpose(1, 2), b), want, 1e-6);
  expect_near(matmul(a, b.transpose(1, 2).contiguous().transpose(1, 2)), want, 1e-6);
  expect_near(matmul(a.slice(1, 0, 7, 3), b), want.slice(1, 0, 7, 3), 1e-6);
  expect_near(matmul(a, b.select(0, 0).expand({3, 5, 6})), matmul(a, b.select(0, 0)), 1e-6);
  EXPECT_EQ(matmul(zeros({2, 0}), zeros({0, 3})).to_vector(), Values(6, 0.0)) << "a sum of nothing";
  EXPECT_EQ(matmul(zeros({0, 4}), zeros({4, 3})).shape(), (Shape{0, 3}));
  EXPECT_EQ(linear(zeros({0, 4}), zeros({3, 4}), zeros({3})).shape(), (Shape{0, 3}));
  EXPECT_EQ(matmul(ones({2, 3}, bf16), ones({3, 2}, bf16)).dtype(), bf16);
  const std::string text = error_of([] { matmul(ones({8, 64}), ones({32, 10})); });
  EXPECT_NE(text.find("[matmul]"), std::string::npos);
  EXPECT_NE(text.find("f32[8, 64]"), std::string::npos);
  EXPECT_NE(text.find("f32[32, 10]"), std::string::npos);
  EXPECT_THROW(matmul(ones({2, 2}, i64), ones({2, 2}, i64)), Error);
  EXPECT_THROW(matmul(ones({2, 2}), ones({2, 2}, f64)), Error);
  EXPECT_THROW(matmul(ones({}), ones({2})), Error);
  EXPECT_THROW(linear(ones({2, 3}), ones({4, 3}), ones({3})), Error);
}

// --- embedding --------------------------------------------------------------------------------------------------

TEST(Embedding, GradientsAndPadding) {
  const Tensor ids = whole({2, 0, 2, 1}).reshape({2, 2});
  check_gradients([&](const auto& in) { return embedding(in[0], ids); }, {sample({4, 3})});
  Tensor w = sample({4, 3}, 3, f32).requires_grad_();
  const Tensor y = embedding(w, ids.to(i32), 2);
  EXPECT_EQ(y.shape(), (Shape{2, 2, 3}));
  EXPECT_EQ(y[0][0].to_vector(), w[2].to_vector()) << "its value is looked up as it is";
  sum(y).backward();
  EXPECT_EQ(sum(w.grad(), {1}).to_vector(), (Values{3, 3, 0, 0}));
  EXPECT_NE(error_of([&] { embedding(w, whole({0, 4})); }).find("4"), std::string::npos);
  EXPECT_THROW(embedding(w, whole({-1})), Error);
  EXPECT_THROW(embedding(w, ones({2})), Error);
  EXPECT_EQ(embedding(w, whole({})).shape(), (Shape{0, 3}));
}

// --- convolution and pooling ------------------------------------------------------------------------------------

Tensor plain_conv2d(const Tensor& x, const Tensor& w, const Conv2dOptions& o) {
  const int64_t out_h = (x.size(2) + 2 * o.padding[0] - o.dilation[0] * (w.size(2) - 1) - 1) / o.stride[0] + 1;
  const int64_t out_w = (x.size(3) + 2 * o.padding[1] - o.dilation[1] * (w.size(3) - 1) - 1) / o.stride[1] + 1;
  const Tensor y = zeros({x.size(0), w.size(0), out_h, out_w}, f64);
  const auto in = x.view<double>(), weight = w.view<double>(), out = y.view<double>();
  const int64_t group_out = w.size(0) / o.groups;
  for (int64_t n = 0; n < y.size(0); ++n)
    for (int64_t c = 0; c < y.size(1); ++c)
      for (int64_t i = 0; i < out_h; ++i)
        for (int64_t j = 0; j < out_w; ++j)
          for (int64_t k = 0; k < w.size(1); ++k)
            for (int64_t di = 0; di < w.size(2); ++di)
              for (int64_t dj = 0; dj < w.size(3); ++dj) {
                const int64_t row = i * o.stride[0] - o.padding[0] + di * o.dilation[0];
                const int64_t column = j * o.stride[1] - o.padding[1] + dj * o.dilation[1];
                if (row < 0 || row >= x.size(2) || column < 0 || column >= x.size(3)) continue;
                out(n, c, i, j) += in(n, c / group_out * w.size(1) + k, row, column) * weight(c, k, di, dj);
              }
  return y;
}

TEST(Conv2d, ValuesAndGradients) {
  struct Case {
    Shape x, w;
    Conv2dOptions options;
  };
  const Case cases[] = {{{2, 2, 5, 4}, {3, 2, 3, 2}, {}},
                        {{1, 2, 6, 5}, {2, 2, 3, 3}, {.stride = {2, 1}, .padding = {1, 2}}},
                        {{2, 4, 5, 5}, {4, 2, 2, 2}, {.padding = {1, 0}, .groups = 2}},
                        {{1, 3, 7, 7}, {3, 1, 3, 3}, {.stride = {1, 2}, .dilation = {2, 2}, .groups = 3}}};
  for (const Case& c : cases) {
    const Tensor x = sample(c.x), w = sample(c.w, 8), b = sample({c.w[0]}, 9);
    const auto f = [&](const std::vector<Tensor>& in) { return conv2d(in[0], in[1], in[2], c.options); };
    expect_near(conv2d(x, w, {}, c.options), plain_conv2d(x, w, c.options), 1e-12);
    check_gradients(f, {x, w, b});
    check_f32(f, {x, w, b}, 1e-4);
    expect_near(conv2d(x.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2}), w, b, c.options), f({x, w, b}),
                1e-12);
    expect_near(conv2d(x[0], w, b, c.options), f({x, w, b})[0], 1e-12);
  }
  EXPECT_EQ(conv2d(zeros({0, 2, 5, 5}), zeros({3, 2, 3, 3})).shape(), (Shape{0, 3, 3, 3}));
  EXPECT_THROW(conv2d(ones({1, 2, 2, 2}), ones({3, 2, 3, 3})), Error) << "the kernel is larger than the input";
  EXPECT_THROW(conv2d(ones({1, 3, 4, 4}), ones({3, 2, 3, 3})), Error);
  EXPECT_THROW(conv2d(ones({1, 2, 4, 4}), ones({3, 2, 3, 3}), ones({2})), Error);
  EXPECT_THROW(conv2d(ones({1, 2, 4, 4}), ones({3, 2, 3, 3}), {}, {.stride = {0, 1}}), Error);
}

TEST(Pool2d, Gradients) {
  const Tensor x = sample({2, 2, 6, 5});
  const Pool2dOptions odd = {.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 1}};
  const Pool2dOptions up = {.kernel = {2, 2}, .stride = {2, 2}, .ceil_mode = true};
  for (const Pool2dOptions& options : {Pool2dOptions{}, odd, up}) {
    check_gradients([&](const auto& in) { return max_pool2d(in[0], options); }, {x});
    check_gradients([&](const auto& in) { return avg_pool2d(in[0], options); }, {x});
    check_f32([&](const auto& in) { return max_pool2d(in[0], options); }, {x});
    check_f32([&](const auto& in) { return avg_pool2d(in[0], options); }, {x});
  }
  const Tensor grid = arange(16).to(f32).reshape({1, 4, 4});
  const auto [values, places] = max_pool2d_with_indices(grid);
  EXPECT_EQ(values.to_vector(), (Values{5, 7, 13, 15}));
  EXPECT_EQ(places.to_vector(), (Values{5, 7, 13, 15}));
  EXPECT_EQ(avg_pool2d(grid).to_vector(), (Values{2.5, 4.5, 10.5, 12.5}));
  EXPECT_TRUE(std::isnan(max_pool2d(tensor({1, 2, std::nan(""), 3}).reshape({1, 2, 2})).item()));
  expect_near(max_pool2d(x.transpose(2, 3)), max_pool2d(x.transpose(2, 3).contiguous()), 0);
  EXPECT_THROW(max_pool2d(ones({1, 1, 2, 2}), {.kernel = {3, 3}}), Error);
}

// --- dropout ----------------------------------------------------------------------------------------------------

TEST(Dropout, KeepsTheShareAndScales) {
  manual_seed(3);
  const Tensor y = dropout(ones({100, 100}), 0.25);
  const double kept = mean((y != 0).to(f32)).item();
  EXPECT_NEAR(kept, 0.75, 0.02);
  EXPECT_FLOAT_EQ(static_cast<float>(amax(y).item()), 1 / 0.75f);
  const Tensor x = ones({3});
  EXPECT_TRUE(dropout(x, 0.5, false).is(x));
  EXPECT_TRUE(dropout(x, 0).is(x));
  EXPECT_EQ(dropout(x, 1).to_vector(), (Values{0, 0, 0}));
  EXPECT_THROW(dropout(x, 1.5), Error);
  EXPECT_THROW(dropout(x, -0.1), Error);
  // Another call, another mask; another seed, another mask; the same seed, the same masks.
  manual_seed(3);
  EXPECT_EQ(dropout(ones({100, 100}), 0.25).to_vector(), y.to_vector());
  EXPECT_NE(dropout(ones({100, 100}), 0.25).to_vector(), y.to_vector());
  manual_seed(4);
  EXPECT_NE(dropout(ones({100, 100}), 0.25).to_vector(), y.to_vector());
}

TEST(Dropout, TheMaskDoesNotDependOnSplitting) {
  manual_seed(3);
  const Tensor whole_batch = dropout(ones({8, 5, 7}), 0.5);
  for (const int64_t ranks : {2, 4, 8}) {
    std::vector<Tensor> parts;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      manual_seed(3);
      random_stream().sample_offset = static_cast<uint64_t>(rank * 8 / ranks);
      parts.push_back(dropout(ones({8 / ranks, 5, 7}), 0.5));
    }
    EXPECT_EQ(cat(parts, 0).to_vector(), whole_batch.to_vector()) << ranks;
  }
  manual_seed(0);
}

TEST(Dropout, Gradients) {
  check_gradients(
      [](const auto& in) {
        manual_seed(5);
        return dropout(in[0], 0.4);
      },
      {sample({4, 6})});
  const Tensor mask = tensor({1, 0, 1}, {.dtype = boolean});
  check_gradients([&](const auto& in) { return dropout_with_mask(in[0], mask, 0.25); }, {sample({3})});
}

}  // namespace
}  // namespace weft
