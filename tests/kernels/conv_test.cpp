// Convolution and pooling against their definitions, with every option, odd sizes, and sizes of zero.
#include "kernels/conv/conv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/base/parallel.h"
#include "tests/support/nightly.h"

namespace weft {
namespace {

constexpr const ConvKernels& kernels = cpu::conv_kernels;
const Stream stream{};

template <class T>
std::vector<T> random_values(int64_t count, uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<T> values(count);
  for (T& value : values) value = static_cast<T>(uniform(engine));
  return values;
}

template <class T>
std::vector<T> poisoned(int64_t count) {
  return std::vector<T>(count, std::numeric_limits<T>::quiet_NaN());
}

// Calls f(input index, weight index, output index) for every product of the definition.
template <class F>
void for_each_product(const Conv2dShape& s, F&& f) {
  const int64_t in_group = s.in_channels / s.groups, out_group = s.out_channels / s.groups;
  for (int64_t n = 0; n < s.batch; ++n)
    for (int64_t o = 0; o < s.out_channels; ++o)
      for (int64_t y = 0; y < s.out_height(); ++y)
        for (int64_t x = 0; x < s.out_width(); ++x)
          for (int64_t c = 0; c < in_group; ++c)
            for (int64_t ky = 0; ky < s.kernel_height; ++ky)
              for (int64_t kx = 0; kx < s.kernel_width; ++kx) {
                const int64_t iy = y * s.stride_height - s.padding_height + ky * s.dilation_height;
                const int64_t ix = x * s.stride_width - s.padding_width + kx * s.dilation_width;
                if (iy < 0 || iy >= s.in_height || ix < 0 || ix >= s.in_width) continue;
                f(((n * s.in_channels + o / out_group * in_group + c) * s.in_height + iy) * s.in_width + ix,
                  ((o * in_group + c) * s.kernel_height + ky) * s.kernel_width + kx,
                  ((n * s.out_channels + o) * s.out_height() + y) * s.out_width() + x);
              }
}

template <class T>
void expect_near(const std::vector<T>& got, const std::vector<double>& expected, const char* what) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const double tolerance = (sizeof(T) == 4 ? 3e-5 : 1e-12) * (1 + std::abs(expected[i]));
    ASSERT_NEAR(got[i], expected[i], tolerance) << what << " at " << i;
  }
}

struct ConvArrays {
  int64_t input, weight, output;
  explicit ConvArrays(const Conv2dShape& s)
      : input(s.batch * s.in_channels * s.in_height * s.in_width),
        weight(s.out_channels * (s.in_channels / s.groups) * s.kernel_height * s.kernel_width),
        output(s.batch * s.out_channels * s.out_height() * s.out_width()) {}
};

template <class T>
void check_conv(const Conv2dShape& s) {
  SCOPED_TRACE(testing::Message() << "N " << s.batch << " C " << s.in_channels << " H " << s.in_height << " W "
                                  << s.in_width << " O " << s.out_channels << " k " << s.kernel_height << "x"
                                  << s.kernel_width << " s " << s.stride_height << "," << s.stride_width << " p "
                                  << s.padding_height << "," << s.padding_width << " d " << s.dilation_height << ","
                                  << s.dilation_width << " g " << s.groups);
  const ConvArrays sizes(s);
  const int64_t plane = s.out_height() * s.out_width();
  const auto x = random_values<T>(sizes.input, 1), w = random_values<T>(sizes.weight, 2);
  const auto b = random_values<T>(s.out_channels, 3), gy = random_values<T>(sizes.output, 4);
  std::vector<double> y_plain(sizes.output), y_bias(sizes.output), gx(sizes.input), gw(sizes.weight),
      gb(s.out_channels);
  for_each_product(s, [&](int64_t in, int64_t tap, int64_t out) {
    y_plain[out] += static_cast<double>(x[in]) * w[tap];
    gx[in] += static_cast<double>(gy[out]) * w[tap];
    gw[tap] += static_cast<double>(gy[out]) * x[in];
  });
  for (int64_t i = 0; i < sizes.output; ++i) {
    const int64_t channel = i / plane % s.out_channels;
    y_bias[i] = y_plain[i] + b[channel];
    gb[channel] += gy[i];
  }
  auto got = poisoned<T>(sizes.output);
  kernels.conv2d_forward(stream, dtype_of<T>, s, x.data(), w.data(), b.data(), got.data());
  expect_near(got, y_bias, "output");
  got = poisoned<T>(sizes.output);
  kernels.conv2d_forward(stream, dtype_of<T>, s, x.data(), w.data(), nullptr, got.data());
  expect_near(got, y_plain, "output without bias");
  got = poisoned<T>(sizes.input);
  kernels.conv2d_backward_input(stream, dtype_of<T>, s, gy.data(), w.data(), got.data());
  expect_near(got, gx, "grad_input");
  got = poisoned<T>(sizes.weight);
  auto got_bias = poisoned<T>(s.out_channels);
  kernels.conv2d_backward_weight(stream, dtype_of<T>, s, x.data(), gy.data(), got.data(), got_bias.data());
  expect_near(got, gw, "grad_weight");
  expect_near(got_bias, gb, "grad_bias");
  got = poisoned<T>(sizes.weight);
  kernels.conv2d_backward_weight(stream, dtype_of<T>, s, x.data(), gy.data(), got.data(), nullptr);
  expect_near(got, gw, "grad_weight without bias");
}

Conv2dShape conv(int64_t batch, int64_t in_channels, int64_t height, int64_t width, int64_t out_channels,
                 int64_t kernel, int64_t stride = 1, int64_t padding = 0, int64_t dilation = 1, int64_t groups = 1) {
  Conv2dShape s;
  s.batch = batch;
  s.in_channels = in_channels;
  s.in_height = height;
  s.in_width = width;
  s.out_channels = out_channels;
  s.kernel_height = s.kernel_width = kernel;
  s.stride_height = s.stride_width = stride;
  s.padding_height = s.padding_width = padding;
  s.dilation_height = s.dilation_width = dilation;
  s.groups = groups;
  return s;
}

void check_both(const Conv2dShape& s) {
  check_conv<float>(s);
  check_conv<double>(s);
}

TEST(Conv2d, Shapes) {
  check_both(conv(1, 1, 5, 5, 1, 3));
  check_both(conv(3, 1, 28, 28, 32, 3, 1, 1));
  check_both(conv(5, 3, 17, 13, 10, 3, 2, 1));
  check_both(conv(33, 2, 8, 8, 4, 3, 1, 1));
  check_both(conv(7, 16, 9, 9, 32, 3, 1, 1));
  check_both(conv(4, 32, 14, 14, 64, 3));
  check_both(conv(3, 20, 7, 7, 24, 1));
  check_both(conv(2, 16, 7, 7, 16, 1, 2));
  check_both(conv(2, 8, 12, 11, 8, 5, 3, 2));
  check_both(conv(2, 4, 12, 11, 6, 3, 1, 2, 2));
  check_both(conv(2, 3, 16, 16, 4, 7, 2, 3));
  check_both(conv(1, 2, 2, 2, 3, 2, 1, 3));  // more padding than kernel
}

TEST(Conv2d, Groups) {
  check_both(conv(3, 4, 9, 9, 6, 3, 1, 1, 1, 2));
  check_both(conv(2, 32, 8, 8, 32, 3, 1, 1, 1, 32));
  check_both(conv(2, 6, 8, 8, 12, 3, 2, 1, 1, 6));
  check_both(conv(2, 32, 6, 6, 64, 1, 1, 0, 1, 2));
}

TEST(Conv2d, SidesThatDiffer) {
  Conv2dShape s = conv(3, 3, 10, 21, 5, 3);
  s.kernel_width = 5;
  s.stride_width = 2;
  s.padding_height = 2;
  s.padding_width = 1;
  s.dilation_height = 2;
  s.dilation_width = 3;
  check_both(s);
  Conv2dShape line = conv(4, 8, 1, 50, 12, 1);  // a 1-d convolution
  line.kernel_width = 4;
  line.padding_width = 2;
  check_both(line);
}

TEST(Conv2d, RandomShapes) {
  std::mt19937 engine(7);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine);
  };
  for (int round = 0; round < test::rounds(40, 600); ++round) {
    const int64_t groups = pick(0, 3) == 0 ? pick(2, 4) : 1;
    Conv2dShape s =
        conv(pick(1, 9), groups * pick(1, 18), pick(1, 14), pick(1, 14), groups * pick(1, 18), 1, 1, 0, 1, groups);
    s.kernel_height = pick(1, 4);
    s.kernel_width = pick(1, 4);
    s.stride_height = pick(1, 3);
    s.stride_width = pick(1, 3);
    s.dilation_height = pick(1, 2);
    s.dilation_width = pick(1, 2);
    s.padding_height = pick(0, 2);
    s.padding_width = pick(0, 2);
    if (s.in_height + 2 * s.padding_height < s.dilation_height * (s.kernel_height - 1) + 1) continue;
    if (s.in_width + 2 * s.padding_width < s.dilation_width * (s.kernel_width - 1) + 1) continue;
    check_both(s);
  }
}

// Work enough to be cut into tiles of channels; the last tile is a smaller one.
TEST(Conv2d, OneLargeImage) {
  check_conv<float>(conv(1, 72, 14, 15, 104, 3, 1, 1));
  check_conv<float>(conv(1, 150, 12, 12, 70, 5, 2));
  check_conv<float>(conv(1, 160, 28, 28, 96, 1));
}

TEST(Conv2d, SizesOfZero) {
  check_both(conv(0, 3, 8, 8, 4, 3));
  check_both(conv(2, 0, 8, 8, 4, 3));
  check_both(conv(2, 3, 8, 8, 0, 3));
}

void check_bits_by_threads(const Conv2dShape& s) {
  const ConvArrays sizes(s);
  const auto x = random_values<float>(sizes.input, 1), w = random_values<float>(sizes.weight, 2);
  const auto gy = random_values<float>(sizes.output, 3);
  std::vector<std::vector<float>> results;
  const int before = num_threads();
  for (int threads : {1, 2, 3}) {
    set_num_threads(threads);
    std::vector<float> y(sizes.output), gx(sizes.input), gw(sizes.weight), gb(s.out_channels);
    kernels.conv2d_forward(stream, f32, s, x.data(), w.data(), nullptr, y.data());
    kernels.conv2d_backward_input(stream, f32, s, gy.data(), w.data(), gx.data());
    kernels.conv2d_backward_weight(stream, f32, s, x.data(), gy.data(), gw.data(), gb.data());
    for (const auto* part : {&gx, &gw, &gb}) y.insert(y.end(), part->begin(), part->end());
    results.push_back(y);
  }
  set_num_threads(before);
  for (const auto& other : results)
    EXPECT_EQ(std::memcmp(results[0].data(), other.data(), other.size() * sizeof(float)), 0);
}

TEST(Conv2d, BitsDoNotDependOnTheNumberOfThreads) {
  check_bits_by_threads(conv(37, 16, 14, 14, 24, 3, 1, 1));
  check_bits_by_threads(conv(1, 96, 16, 16, 96, 3, 1, 1));
}

TEST(Conv2d, RanksAsThreadsShareTheCompiledKernels) {
  const Conv2dShape s = conv(6, 8, 10, 10, 8, 3, 1, 1);
  const ConvArrays sizes(s);
  const auto x = random_values<float>(sizes.input, 1), w = random_values<float>(sizes.weight, 2);
  std::vector<std::vector<float>> outputs(4, std::vector<float>(sizes.output));
  std::vector<std::thread> ranks;
  for (auto& y : outputs)
    ranks.emplace_back([&] {
      for (int round = 0; round < 20; ++round)
        kernels.conv2d_forward(stream, f32, s, x.data(), w.data(), nullptr, y.data());
    });
  for (auto& rank : ranks) rank.join();
  for (const auto& y : outputs) EXPECT_EQ(y, outputs[0]);
}

template <class T>
void check_pools(const Pool2dShape& s, bool average) {
  SCOPED_TRACE(testing::Message() << "planes " << s.planes << " H " << s.in_height << " W " << s.in_width << " k "
                                  << s.kernel_height << "x" << s.kernel_width << " s " << s.stride_height << ","
                                  << s.stride_width << " p " << s.padding_height << "," << s.padding_width << " d "
                                  << s.dilation_height << " ceil " << s.ceil_mode);
  const int64_t in_plane = s.in_height * s.in_width, out_height = s.out_height(), out_width = s.out_width();
  const int64_t outputs = s.planes * out_height * out_width;
  auto x = random_values<T>(s.planes * in_plane, 1);
  for (size_t i = 0; i < x.size(); i += 5) x[i] = T{2};  // equals: the first must win
  const auto gy = random_values<T>(outputs, 2);
  std::vector<double> largest(outputs), mean(outputs), max_gradient(x.size()), mean_gradient(x.size());
  std::vector<int64_t> where(outputs);
  for (int64_t o = 0; o < outputs; ++o) {
    const int64_t plane = o / (out_height * out_width), oy = o / out_width % out_height, ox = o % out_width;
    double best = -std::numeric_limits<double>::infinity(), sum = 0;
    int64_t found = 0, padded = 0;
    std::vector<int64_t> seen;
    for (int64_t ky = 0; ky < s.kernel_height; ++ky)
      for (int64_t kx = 0; kx < s.kernel_width; ++kx) {
        const int64_t y = oy * s.stride_height - s.padding_height + ky * s.dilation_height;
        const int64_t c = ox * s.stride_width - s.padding_width + kx * s.dilation_width;
        if (y < s.in_height + s.padding_height && c < s.in_width + s.padding_width) ++padded;
        if (y < 0 || y >= s.in_height || c < 0 || c >= s.in_width) continue;
        const int64_t index = plane * in_plane + y * s.in_width + c;
        seen.push_back(index);
        sum += x[index];
        if (x[index] > best) {
          best = x[index];
          found = index;
        }
      }
    const double divisor = s.divisor_override    ? static_cast<double>(s.divisor_override)
                           : s.count_include_pad ? static_cast<double>(padded)
                                                 : static_cast<double>(seen.size());
    largest[o] = best;
    where[o] = found - plane * in_plane;
    mean[o] = seen.empty() ? 0 : sum / divisor;
    max_gradient[found] += gy[o];
    for (int64_t index : seen) mean_gradient[index] += gy[o] / divisor;
  }
  auto y = poisoned<T>(outputs), gx = poisoned<T>(s.planes * in_plane);
  if (average) {
    kernels.avg_pool2d_forward(stream, dtype_of<T>, s, x.data(), y.data());
    expect_near(y, mean, "average");
    kernels.avg_pool2d_backward(stream, dtype_of<T>, s, gy.data(), gx.data());
    expect_near(gx, mean_gradient, "gradient of the average");
  } else {
    std::vector<int64_t> indices(outputs, -1);
    kernels.max_pool2d_forward(stream, dtype_of<T>, s, x.data(), y.data(), indices.data());
    expect_near(y, largest, "maximum");
    EXPECT_EQ(indices, where);
    kernels.max_pool2d_backward(stream, dtype_of<T>, s, gy.data(), indices.data(), gx.data());
    expect_near(gx, max_gradient, "gradient of the maximum");
  }
}

TEST(Pool2d, AllOptions) {
  for (int64_t planes : {0, 1, 70})
    for (int64_t kernel : {1, 2, 3})
      for (int64_t stride : {1, 2, 3})
        for (int64_t padding = 0; padding <= kernel / 2; ++padding)
          for (bool ceil_mode : {false, true}) {
            Pool2dShape s;
            s.planes = planes;
            s.in_height = 9;
            s.in_width = 12;
            s.kernel_height = s.kernel_width = kernel;
            s.stride_height = s.stride_width = stride;
            s.padding_height = s.padding_width = padding;
            s.ceil_mode = ceil_mode;
            check_pools<float>(s, false);
            check_pools<double>(s, false);
            for (bool include : {true, false}) {
              s.count_include_pad = include;
              check_pools<float>(s, true);
              check_pools<double>(s, true);
            }
            s.divisor_override = 3;
            check_pools<float>(s, true);
            s.dilation_height = s.dilation_width = 2;
            check_pools<float>(s, false);
          }
}

TEST(Pool2d, OneRow) {
  Pool2dShape s;
  s.planes = 3;
  s.in_width = 11;
  s.kernel_width = 4;
  s.stride_width = 3;
  s.padding_width = 2;
  s.ceil_mode = true;
  check_pools<float>(s, false);
  check_pools<float>(s, true);
}

TEST(Pool2d, NaNWinsAndInfinitiesHavePositions) {
  for (int64_t kernel : {2, 3}) {
    Pool2dShape s;
    s.in_height = s.in_width = 4;
    s.kernel_height = s.kernel_width = kernel;
    s.stride_height = s.stride_width = 2;
    const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> x(16, -infinity), y(s.out_height() * s.out_width());
    std::vector<int64_t> indices(y.size());
    kernels.max_pool2d_forward(stream, f32, s, x.data(), y.data(), indices.data());
    EXPECT_EQ(y[0], -infinity);
    EXPECT_EQ(indices[0], 0);
    for (int64_t position : {0, 1, 4, 5}) {
      std::fill(x.begin(), x.end(), 1.0f);
      x[1] = infinity;
      x[position] = nan;
      kernels.max_pool2d_forward(stream, f32, s, x.data(), y.data(), indices.data());
      EXPECT_TRUE(std::isnan(y[0])) << position;
      EXPECT_EQ(indices[0], position);
    }
  }
}

TEST(Conv2d, OtherDtypesAreErrors) {
  const Conv2dShape s = conv(1, 1, 3, 3, 1, 3);
  EXPECT_THROW(kernels.conv2d_forward(stream, bf16, s, nullptr, nullptr, nullptr, nullptr), Error);
}

}  // namespace
}  // namespace weft
