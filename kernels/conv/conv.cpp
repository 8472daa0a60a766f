// Chooses between oneDNN (f32) and plain loops (f64, and shapes with a size of zero) for each convolution, and cuts a
// large one of a single image into tiles of channels.
#include "kernels/conv/conv.h"

#include <algorithm>

#include "kernels/base/parallel.h"
#include "kernels/base/scratch.h"
#include "kernels/conv/conv_loops.h"
#include "kernels/conv/conv_onednn.h"
#include "kernels/conv/pool.h"

namespace weft::cpu {
namespace {

struct ColumnsTag;

bool has_no_zero(const Conv2dShape& s) {
  return std::min({s.batch, s.in_channels, s.in_height, s.in_width, s.out_channels, s.kernel_height, s.kernel_width,
                   s.out_height(), s.out_width()}) > 0;
}

// Channels a tile of one image with enough work; all of them otherwise, as conv_onednn cuts a batch by images.
int64_t channels_per_tile(const Conv2dShape& s, int64_t channels) {
  constexpr int64_t block = 32, most_tiles = 16;
  constexpr double flops_worth_a_tile = 8e6;
  if (s.batch != 1 || s.groups != 1) return channels;
  const double flops = 2 * static_cast<double>(s.out_channels * s.out_height() * s.out_width()) *
                       static_cast<double>(s.in_channels * s.kernel_height * s.kernel_width);
  const auto worthwhile = static_cast<int64_t>(std::min(flops / flops_worth_a_tile, 1e6));
  const int64_t tiles = std::min({worthwhile, channels / block, most_tiles});
  if (tiles < 2) return channels;
  return ((channels + tiles - 1) / tiles + block - 1) / block * block;
}

// Each tile is a convolution with a part of the output channels: rows of the weight, planes of the output.
void forward_f32(const Conv2dShape& s, const float* x, const float* w, const float* b, float* y) {
  const int64_t filter = s.in_channels / s.groups * s.kernel_height * s.kernel_width;
  const int64_t plane = s.out_height() * s.out_width();
  parallel_for(s.out_channels, channels_per_tile(s, s.out_channels), [&](int64_t begin, int64_t end) {
    Conv2dShape part = s;
    part.out_channels = end - begin;
    conv_onednn::forward(part, x, w + begin * filter, b ? b + begin : nullptr, y + begin * plane);
  });
}

void backward_weight_f32(const Conv2dShape& s, const float* x, const float* dy, float* dw, float* db) {
  const int64_t filter = s.in_channels / s.groups * s.kernel_height * s.kernel_width;
  const int64_t plane = s.out_height() * s.out_width();
  parallel_for(s.out_channels, channels_per_tile(s, s.out_channels), [&](int64_t begin, int64_t end) {
    Conv2dShape part = s;
    part.out_channels = end - begin;
    conv_onednn::backward_weight(part, x, dy + begin * plane, dw + begin * filter, db ? db + begin : nullptr);
  });
}

// Here it is a part of the input channels: columns of the weight, which become an array of their own.
void backward_input_f32(const Conv2dShape& s, const float* dy, const float* w, float* dx) {
  const int64_t tile = channels_per_tile(s, s.in_channels);
  if (tile == s.in_channels) return conv_onednn::backward_input(s, dy, w, dx);
  const int64_t taps = s.kernel_height * s.kernel_width;
  const int64_t plane = s.in_height * s.in_width;
  parallel_for(s.in_channels, tile, [&](int64_t begin, int64_t end) {
    Conv2dShape part = s;
    part.in_channels = end - begin;
    const int64_t length = part.in_channels * taps;
    float* columns = scratch<ColumnsTag, float>(s.out_channels * length);
    for (int64_t o = 0; o < s.out_channels; ++o)
      std::copy_n(w + (o * s.in_channels + begin) * taps, length, columns + o * length);
    conv_onednn::backward_input(part, dy, columns, dx + begin * plane);
  });
}

void conv2d_forward(Stream, DType dtype, const Conv2dShape& shape, const void* input, const void* weight,
                    const void* bias, void* output) {
  visit_compute(dtype, "conv2d", [&](auto type) {
    using T = typename decltype(type)::type;
    const T *x = static_cast<const T*>(input), *w = static_cast<const T*>(weight), *b = static_cast<const T*>(bias);
    if constexpr (std::is_same_v<T, float>)
      if (has_no_zero(shape)) return forward_f32(shape, x, w, b, static_cast<T*>(output));
    conv_loops::forward(shape, x, w, b, static_cast<T*>(output));
  });
}

void conv2d_backward_input(Stream, DType dtype, const Conv2dShape& shape, const void* grad_output, const void* weight,
                           void* grad_input) {
  visit_compute(dtype, "conv2d", [&](auto type) {
    using T = typename decltype(type)::type;
    const T *g = static_cast<const T*>(grad_output), *w = static_cast<const T*>(weight);
    if constexpr (std::is_same_v<T, float>)
      if (has_no_zero(shape)) return backward_input_f32(shape, g, w, static_cast<T*>(grad_input));
    conv_loops::backward_input(shape, g, w, static_cast<T*>(grad_input));
  });
}

void conv2d_backward_weight(Stream, DType dtype, const Conv2dShape& shape, const void* input, const void* grad_output,
                            void* grad_weight, void* grad_bias) {
  visit_compute(dtype, "conv2d", [&](auto type) {
    using T = typename decltype(type)::type;
    const T *x = static_cast<const T*>(input), *g = static_cast<const T*>(grad_output);
    T *w = static_cast<T*>(grad_weight), *b = static_cast<T*>(grad_bias);
    if constexpr (std::is_same_v<T, float>)
      if (has_no_zero(shape)) return backward_weight_f32(shape, x, g, w, b);
    conv_loops::backward_weight(shape, x, g, w, b);
  });
}

}  // namespace

constinit const ConvKernels conv_kernels{conv2d_forward,     conv2d_backward_input, conv2d_backward_weight,
                                         max_pool2d_forward, max_pool2d_backward,   avg_pool2d_forward,
                                         avg_pool2d_backward};

}  // namespace weft::cpu
