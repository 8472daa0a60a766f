// Convolution, pooling, resizing and windows against plain loops; channel dropout; what they refuse.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "autograd/ops/ops.h"
#include "tensor/random.h"

namespace weft {
namespace {

using Options2d = ConvTranspose2dOptions;

void expect_near(const Tensor& got, const Tensor& want, double tolerance = 1e-9) {
  ASSERT_EQ(got.shape(), want.shape());
  const std::vector<double> a = got.to_vector(), b = want.to_vector();
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance * (1 + std::abs(b[i]))) << "element " << i;
}

Tensor random(const Shape& shape) { return randn(shape, f64); }

// Element [n, c, y, x] of a dense tensor.
double& at(const Tensor& t, int64_t n, int64_t c, int64_t y, int64_t x) {
  return t.data<double>()[((n * t.size(1) + c) * t.size(2) + y) * t.size(3) + x];
}

Tensor naive_transpose(const Tensor& x, const Tensor& w, const Options2d& o) {
  const auto out = [&](int64_t i) {
    const auto k = static_cast<size_t>(i);
    return (x.size(2 + i) - 1) * o.stride[k] - 2 * o.padding[k] + o.dilation[k] * (w.size(2 + i) - 1) +
           o.output_padding[k] + 1;
  };
  const int64_t of_group = w.size(1), in_group = x.size(1) / o.groups;
  const Tensor y = zeros({x.size(0), of_group * o.groups, out(0), out(1)}, f64);
  for (int64_t n = 0; n < x.size(0); ++n)
    for (int64_t c = 0; c < x.size(1); ++c)
      for (int64_t k = 0; k < of_group; ++k)
        for (int64_t i = 0; i < x.size(2); ++i)
          for (int64_t j = 0; j < x.size(3); ++j)
            for (int64_t u = 0; u < w.size(2); ++u)
              for (int64_t v = 0; v < w.size(3); ++v) {
                const int64_t row = i * o.stride[0] - o.padding[0] + u * o.dilation[0];
                const int64_t column = j * o.stride[1] - o.padding[1] + v * o.dilation[1];
                if (row < 0 || row >= y.size(2) || column < 0 || column >= y.size(3)) continue;
                at(y, n, c / in_group * of_group + k, row, column) += at(x, n, c, i, j) * at(w, c, k, u, v);
              }
  return y;
}

TEST(ConvTranspose, AgreesWithPlainLoops) {
  manual_seed(1);
  const Tensor x = random({2, 4, 3, 5}), w = random({4, 3, 3, 2});
  for (const Options2d& o : {Options2d{},
                             {.stride = {2, 3}},
                             {.stride = {2, 2}, .padding = {1, 1}, .output_padding = {1, 0}},
                             {.stride = {1, 2}, .padding = {0, 1}, .output_padding = {1, 2}, .dilation = {2, 3}},
                             {.stride = {3, 1}, .output_padding = {2, 0}, .dilation = {1, 2}, .groups = 2},
                             {.padding = {2, 1}, .groups = 4}})
    expect_near(conv_transpose2d(x, w, {}, o), naive_transpose(x, w, o));
  const Tensor bias = random({3});
  expect_near(conv_transpose2d(x, w, bias), naive_transpose(x, w, {}) + bias.reshape({3, 1, 1}));
  expect_near(conv_transpose2d(x[0], w, bias), conv_transpose2d(x, w, bias)[0]);
  const Tensor row = random({2, 4, 5}), taps = random({4, 3, 3});
  expect_near(conv_transpose1d(row, taps, {}, {.stride = 2, .padding = 1, .output_padding = 1}),
              naive_transpose(row.unsqueeze(2), taps.unsqueeze(2),
                              {.stride = {1, 2}, .padding = {0, 1}, .output_padding = {0, 1}})
                  .squeeze(2));
}

TEST(ConvTranspose, IsTheAdjointOfConvolution) {
  manual_seed(2);
  const Tensor x = random({2, 4, 7, 6}), w = random({6, 2, 3, 2});
  const Tensor y = conv2d(x, w, {}, {.stride = {2, 1}, .padding = {1, 0}, .groups = 2});
  const Tensor dy = random(y.shape());
  const Tensor back = conv_transpose2d(dy, w, {}, {.stride = {2, 1}, .padding = {1, 0}, .groups = 2});
  ASSERT_EQ(back.shape(), x.shape());
  EXPECT_NEAR(sum(y * dy).item(), sum(x * back).item(), 1e-9);
}

TEST(Convolution, SamePaddingKeepsTheSize) {
  manual_seed(3);
  const Tensor x = random({1, 2, 6, 7}), w = random({3, 2, 4, 3});
  const Tensor y = conv2d(x, w, {}, {.dilation = {1, 2}, .same_padding = true});
  ASSERT_EQ(y.shape(), (Shape{1, 3, 6, 7}));
  // Three rows of zeros: one before, two after; two columns on either side.
  expect_near(y, conv2d(pad(x, {2, 2, 1, 2}), w, {}, {.dilation = {1, 2}}));
  const Tensor row = random({2, 5}), taps = random({3, 2, 2});
  expect_near(conv1d(row, taps, {}, {.same_padding = true}), conv1d(pad(row, {0, 1}), taps));
  expect_near(conv1d(row, taps, {}, {.stride = 2}),
              conv2d(row.unsqueeze(1), taps.unsqueeze(2), {}, {.stride = {1, 2}}).squeeze(1));
}

TEST(Windows, AColumnIsAWindow) {
  manual_seed(4);
  const Tensor x = random({2, 3, 6, 5}), w = random({4, 3, 2, 3});
  const FoldOptions o{.kernel = {2, 3}, .stride = {2, 1}, .padding = {1, 2}, .dilation = {2, 1}};
  const Tensor columns = im2col(x, o);
  const Tensor y = conv2d(x, w, {}, {.stride = o.stride, .padding = o.padding, .dilation = o.dilation});
  expect_near(matmul(w.reshape({4, 18}), columns).reshape(y.shape()), y);
  // col2im is the adjoint.
  const Tensor other = random(columns.shape());
  EXPECT_NEAR(sum(columns * other).item(), sum(x * col2im(other, {6, 5}, o)).item(), 1e-9);
  expect_near(col2im(other[1], {6, 5}, o), col2im(other, {6, 5}, o)[1]);
}

TEST(Pooling, AdaptiveWindowsShareTheInput) {
  manual_seed(5);
  const Tensor x = random({2, 3, 7, 5});
  for (const auto& size : {std::array<int64_t, 2>{1, 1}, {3, 2}, {7, 5}, {9, 11}, {2, 5}}) {
    const Tensor mean = adaptive_avg_pool2d(x, size);
    const auto [most, where] = adaptive_max_pool2d_with_indices(x, size);
    for (int64_t n = 0; n < 2; ++n)
      for (int64_t c = 0; c < 3; ++c)
        for (int64_t i = 0; i < size[0]; ++i)
          for (int64_t j = 0; j < size[1]; ++j) {
            double total = 0, best = -1e9, count = 0;
            for (int64_t y = i * 7 / size[0]; static_cast<double>(y) < std::ceil((i + 1) * 7.0 / size[0]); ++y)
              for (int64_t z = j * 5 / size[1]; static_cast<double>(z) < std::ceil((j + 1) * 5.0 / size[1]); ++z) {
                total += at(x, n, c, y, z);
                best = std::max(best, at(x, n, c, y, z));
                ++count;
              }
            ASSERT_NEAR(at(mean, n, c, i, j), total / count, 1e-12);
            ASSERT_EQ(at(most, n, c, i, j), best);
            const int64_t index = where.data<int64_t>()[((n * 3 + c) * size[0] + i) * size[1] + j];
            ASSERT_EQ(at(x, n, c, index / 5, index % 5), best);
          }
  }
  expect_near(adaptive_avg_pool2d(x, {-1, 1}), mean(x, {3}, true));
  expect_near(adaptive_avg_pool1d(x[0], 1), mean(x[0], {2}, true));
  expect_near(adaptive_max_pool1d(x[0], 1), amax(x[0], {2}, true));
}

TEST(Pooling, OfSequencesAndInCeilMode) {
  const Tensor x = arange(1, 8, 1, f64).reshape({1, 7});  // 1 … 7
  EXPECT_EQ(max_pool1d(x).to_vector(), (std::vector<double>{2, 4, 6}));
  EXPECT_EQ(max_pool1d(x, {.ceil_mode = true}).to_vector(), (std::vector<double>{2, 4, 6, 7}));
  EXPECT_EQ(max_pool1d_with_indices(x, {.kernel = 3, .stride = 2}).second.to_vector(), (std::vector<double>{2, 4, 6}));
  EXPECT_EQ(avg_pool1d(x, {.padding = 1}).to_vector(), (std::vector<double>{0.5, 2.5, 4.5, 6.5}));
  EXPECT_EQ(avg_pool1d(x, {.padding = 1, .count_include_pad = false}).to_vector(),
            (std::vector<double>{1, 2.5, 4.5, 6.5}));
  EXPECT_EQ(avg_pool2d(x.unsqueeze(0), {.kernel = {1, 2}, .divisor_override = 3}).to_vector(),
            (std::vector<double>{1, 7.0 / 3, 11.0 / 3}));
  // A window that only begins inside.
  EXPECT_EQ(max_pool1d(x.slice(1, 0, 2), {.kernel = 3, .stride = 2, .ceil_mode = true}).to_vector(),
            (std::vector<double>{2}));
  EXPECT_THROW(max_pool1d(x.slice(1, 0, 2), {.kernel = 3, .stride = 2}), Error);
}

// One resized axis by the definition: the weight of input i in output o.
double weight_of(const std::string& mode, bool align, double scale, int64_t in, int64_t o, int64_t i) {
  if (mode == "nearest") return i == std::min(in - 1, static_cast<int64_t>(std::floor(o * scale))) ? 1 : 0;
  if (mode == "nearest-exact")
    return i == std::min(in - 1, static_cast<int64_t>(std::floor((o + 0.5) * scale))) ? 1 : 0;
  double place = align ? o * scale : (o + 0.5) * scale - 0.5;
  if (mode == "linear") {
    place = std::clamp(place, 0.0, static_cast<double>(in - 1));
    return std::max(0.0, 1 - std::abs(place - static_cast<double>(i)));
  }
  const auto keys = [](double d) {
    constexpr double a = -0.75;
    d = std::abs(d);
    if (d <= 1) return (a + 2) * d * d * d - (a + 3) * d * d + 1;
    if (d < 2) return a * d * d * d - 5 * a * d * d + 8 * a * d - 4 * a;
    return 0.0;
  };
  double total = 0;  // places beyond the ends stand for the first and last element
  for (int64_t k = -3; k < in + 3; ++k)
    if (std::clamp<int64_t>(k, 0, in - 1) == i) total += keys(place - static_cast<double>(k));
  return total;
}

Tensor resizing_matrix(const std::string& mode, bool align, double scale, int64_t in, int64_t out) {
  const Tensor m = zeros({out, in}, f64);
  for (int64_t o = 0; o < out; ++o)
    for (int64_t i = 0; i < in; ++i) m.data<double>()[o * in + i] = weight_of(mode, align, scale, in, o, i);
  return m;
}

TEST(Interpolate, AgreesWithTheDefinition) {
  manual_seed(6);
  const Tensor x = random({2, 3, 6, 5});
  const auto expected = [&](const std::string& mode, bool align, const std::array<int64_t, 2>& size,
                            const std::array<double, 2>& scale) {
    return matmul(resizing_matrix(mode, align, scale[0], 6, size[0]),
                  matmul(x, resizing_matrix(mode, align, scale[1], 5, size[1]).t()));
  };
  for (const auto& size : {std::array<int64_t, 2>{9, 13}, {3, 2}, {1, 7}, {12, 5}}) {
    const std::array<double, 2> scale{6.0 / size[0], 5.0 / size[1]};
    const std::array<double, 2> aligned{size[0] > 1 ? 5.0 / (size[0] - 1) : 0, size[1] > 1 ? 4.0 / (size[1] - 1) : 0};
    const auto resized = [&](const std::string& mode, bool align) {
      return interpolate(x, {.size = {size[0], size[1]}, .mode = mode, .align_corners = align});
    };
    for (const char* mode : {"nearest", "nearest-exact"})
      expect_near(resized(mode, false), expected(mode, false, size, scale));
    for (const auto& [name, kind] : {std::pair{"bilinear", "linear"}, std::pair{"bicubic", "cubic"}}) {
      expect_near(resized(name, false), expected(kind, false, size, scale));
      expect_near(resized(name, true), expected(kind, true, size, aligned));
    }
    expect_near(resized("area", false), adaptive_avg_pool2d(x, size));
  }
  // A factor stands for itself unless it is computed again from the sizes, which are rounded down: 6 · 1.3 = 7.8.
  expect_near(interpolate(x, {.scale_factor = {1.3, 2}, .mode = "bilinear"}),
              expected("linear", false, {7, 10}, {1 / 1.3, 0.5}));
  expect_near(interpolate(x, {.scale_factor = {1.3, 2}, .mode = "bilinear", .recompute_scale_factor = true}),
              expected("linear", false, {7, 10}, {6.0 / 7, 0.5}));
  expect_near(interpolate(x, {.scale_factor = {2}}), expected("nearest", false, {12, 10}, {0.5, 0.5}));
  expect_near(interpolate(x[0], {.size = {8}, .mode = "linear"}),
              matmul(x[0], resizing_matrix("linear", false, 5.0 / 8, 5, 8).t()));
}

TEST(Interpolate, AnInfinityTouchesNothingElse) {
  Tensor x = ones({1, 1, 4}, f64);
  x.data<double>()[1] = std::numeric_limits<double>::infinity();
  const Tensor y = interpolate(x, {.size = {4}, .mode = "linear", .align_corners = true});
  EXPECT_EQ(y.to_vector(), x.to_vector());
}

TEST(ChannelDropout, DropsWholeChannels) {
  manual_seed(7);
  const Tensor x = ones({40, 30, 3, 2});
  const Tensor y = dropout2d(x, 0.4);
  const std::vector<double> sums = sum(y, {2, 3}).to_vector();
  int dropped = 0;
  for (const double total : sums) {
    EXPECT_TRUE(total == 0 || std::abs(total - 6 / 0.6) < 1e-5) << total;
    dropped += total == 0 ? 1 : 0;
  }
  EXPECT_NEAR(dropped / 1200.0, 0.4, 0.06);
  EXPECT_EQ(dropout1d(ones({30, 5}), 0.5).size(1), 5);  // [C, L]
  EXPECT_THROW(dropout1d(x, 0.5), Error);
  EXPECT_THROW(dropout2d(x, 1.5), Error);
}

TEST(AlphaDropout, KeepsMeanAndVariance) {
  manual_seed(8);
  const Tensor x = randn({200, 500});
  const Tensor y = alpha_dropout(x, 0.3);
  EXPECT_NEAR(mean(y).item(), 0, 0.02);
  EXPECT_NEAR(var(y).item(), 1, 0.02);
  EXPECT_EQ(amax(abs(alpha_dropout(x, 1))).item(), 0);
  EXPECT_THROW(alpha_dropout(x, -0.1), Error);
}

TEST(Images, WrongCallsAreRefused) {
  const Tensor image = ones({1, 4, 5, 6}), row = ones({1, 4, 6});
  const Tensor w2 = ones({4, 2, 3, 3}), w1 = ones({4, 2, 3});
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"channels", [&] { conv2d(image, w2); }},
      {"groups", [&] { conv2d(image, w2, {}, {.groups = 3}); }},
      {"no groups", [&] { conv2d(image, w2, {}, {.groups = 0}); }},
      {"stride 0",
       [&] {
         conv2d(image, w2, {}, {.stride = {0, 1}, .groups = 2});
       }},
      {"negative padding",
       [&] {
         conv2d(image, w2, {}, {.padding = {-1, 0}, .groups = 2});
       }},
      {"bias", [&] { conv2d(image, w2, ones({3}), {.groups = 2}); }},
      {"dtype", [&] { conv2d(image, w2.to(f64), {}, {.groups = 2}); }},
      {"integers", [&] { conv2d(image.to(i64), w2.to(i64), {}, {.groups = 2}); }},
      {"dimensions", [&] { conv2d(row.squeeze(0), w2); }},
      {"same with stride",
       [&] {
         conv2d(image, w2, {}, {.stride = {2, 1}, .groups = 2, .same_padding = true});
       }},
      {"kernel too large",
       [&] {
         conv2d(image, ones({4, 4, 6, 1}));
       }},
      {"conv1d of images", [&] { conv1d(image, w1); }},
      {"conv1d weight", [&] { conv1d(row, w2); }},
      {"transposed channels",
       [&] {
         conv_transpose2d(image, ones({3, 2, 2, 2}));
       }},
      {"output padding",
       [&] {
         conv_transpose2d(image, w2, {}, {.output_padding = {1, 0}});
       }},
      {"nothing left",
       [&] {
         conv_transpose2d(image, ones({4, 1, 1, 1}), {}, {.padding = {3, 0}});
       }},
      {"transposed bias", [&] { conv_transpose1d(row, w1, ones({4})); }},
      {"pool padding",
       [&] {
         max_pool2d(image, {.padding = {2, 0}});
       }},
      {"pool kernel",
       [&] {
         avg_pool2d(image, {.kernel = {0, 1}});
       }},
      {"dilated mean",
       [&] {
         avg_pool2d(image, {.dilation = {2, 1}});
       }},
      {"divisor", [&] { avg_pool2d(image, {.divisor_override = -1}); }},
      {"pool of a row", [&] { max_pool2d(row[0]); }},
      {"pool of integers", [&] { max_pool2d(image.to(i32)); }},
      {"adaptive size",
       [&] {
         adaptive_avg_pool2d(image, {-2, 1});
       }},
      {"adaptive of nothing",
       [&] {
         adaptive_avg_pool2d(ones({1, 4, 0, 6}), {1, 1});
       }},
      {"neither size nor factor", [&] { interpolate(image, {}); }},
      {"both",
       [&] {
         interpolate(image, {.size = {4, 4}, .scale_factor = {2}});
       }},
      {"sizes",
       [&] {
         interpolate(image, {.size = {4, 4, 4}});
       }},
      {"factors",
       [&] {
         interpolate(image, {.scale_factor = {1, 2, 3}});
       }},
      {"size 0",
       [&] {
         interpolate(image, {.size = {0, 4}});
       }},
      {"mode",
       [&] {
         interpolate(image, {.size = {4, 4}, .mode = "lanczos"});
       }},
      {"linear of images",
       [&] {
         interpolate(image, {.size = {4, 4}, .mode = "linear"});
       }},
      {"aligned nearest",
       [&] {
         interpolate(image, {.size = {4, 4}, .align_corners = true});
       }},
      {"window",
       [&] {
         im2col(image, {.kernel = {6, 1}});
       }},
      {"window of integers",
       [&] {
         im2col(image.to(i64), {.kernel = {2, 2}});
       }},
      {"rows of columns",
       [&] {
         col2im(ones({1, 5, 4}), {3, 3}, {.kernel = {2, 2}});
       }},
      {"number of columns",
       [&] {
         col2im(ones({1, 4, 5}), {3, 3}, {.kernel = {2, 2}});
       }},
  };
  for (const auto& [what, call] : calls) EXPECT_THROW(call(), Error) << what;
}

}  // namespace
}  // namespace weft
