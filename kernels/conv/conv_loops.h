// Convolution as plain loops: for f64, where gradients are checked, and for shapes with a size of zero.
#pragma once
#include <algorithm>
#include <cstdint>

#include "kernels/base/parallel.h"
#include "kernels/conv/conv.h"

namespace weft::cpu::conv_loops {

// The outputs x for which 0 <= x · stride + offset < size, as [first, last).
struct Range {
  int64_t first, last;
};
inline Range inside(int64_t offset, int64_t stride, int64_t size, int64_t outputs) {
  const int64_t first = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
  const int64_t last = size <= offset ? 0 : (size - offset - 1) / stride + 1;
  return {first, std::min(last, outputs)};
}

// Calls f(weight_index, out_row, in_row, columns, offset) for each tap of the kernel between channels `out_channel` and
// `in_channel` (counted within the group) and each output row it reaches: rows are indices into their H×W planes, and
// out[out_row + x] meets in[in_row + x · stride_width + offset] for x in `columns`.
template <class F>
void for_each_tap(const Conv2dShape& s, F&& f) {
  const int64_t out_height = s.out_height(), out_width = s.out_width();
  for (int64_t ky = 0; ky < s.kernel_height; ++ky) {
    const int64_t offset_y = ky * s.dilation_height - s.padding_height;
    const Range rows = inside(offset_y, s.stride_height, s.in_height, out_height);
    for (int64_t kx = 0; kx < s.kernel_width; ++kx) {
      const int64_t offset_x = kx * s.dilation_width - s.padding_width;
      const Range columns = inside(offset_x, s.stride_width, s.in_width, out_width);
      for (int64_t y = rows.first; y < rows.last; ++y)
        f(ky * s.kernel_width + kx, y * out_width, (y * s.stride_height + offset_y) * s.in_width, columns, offset_x);
    }
  }
}

template <class T>
void forward(const Conv2dShape& s, const T* input, const T* weight, const T* bias, T* output) {
  const int64_t out_plane = s.out_height() * s.out_width(), in_plane = s.in_height * s.in_width;
  const int64_t taps = s.kernel_height * s.kernel_width;
  const int64_t in_group = s.in_channels / s.groups, out_group = s.out_channels / s.groups;
  parallel_for(s.batch * s.out_channels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const int64_t image = plane / s.out_channels, channel = plane % s.out_channels;
      T* out = output + plane * out_plane;
      std::fill_n(out, out_plane, bias ? bias[channel] : T{0});
      for (int64_t c = 0; c < in_group; ++c) {
        const T* in = input + (image * s.in_channels + channel / out_group * in_group + c) * in_plane;
        const T* w = weight + (channel * in_group + c) * taps;
        for_each_tap(s, [&](int64_t tap, int64_t out_row, int64_t in_row, Range columns, int64_t offset) {
          for (int64_t x = columns.first; x < columns.last; ++x)
            out[out_row + x] += w[tap] * in[in_row + x * s.stride_width + offset];
        });
      }
    }
  });
}

template <class T>
void backward_input(const Conv2dShape& s, const T* grad_output, const T* weight, T* grad_input) {
  const int64_t out_plane = s.out_height() * s.out_width(), in_plane = s.in_height * s.in_width;
  const int64_t taps = s.kernel_height * s.kernel_width;
  const int64_t in_group = s.in_channels / s.groups, out_group = s.out_channels / s.groups;
  parallel_for(s.batch * s.in_channels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const int64_t image = plane / s.in_channels, channel = plane % s.in_channels;
      T* in = grad_input + plane * in_plane;
      std::fill_n(in, in_plane, T{0});
      for (int64_t o = 0; o < out_group; ++o) {
        const int64_t out_channel = channel / in_group * out_group + o;
        const T* out = grad_output + (image * s.out_channels + out_channel) * out_plane;
        const T* w = weight + (out_channel * in_group + channel % in_group) * taps;
        for_each_tap(s, [&](int64_t tap, int64_t out_row, int64_t in_row, Range columns, int64_t offset) {
          for (int64_t x = columns.first; x < columns.last; ++x)
            in[in_row + x * s.stride_width + offset] += w[tap] * out[out_row + x];
        });
      }
    }
  });
}

template <class T>
void backward_weight(const Conv2dShape& s, const T* input, const T* grad_output, T* grad_weight, T* grad_bias) {
  const int64_t out_plane = s.out_height() * s.out_width(), in_plane = s.in_height * s.in_width;
  const int64_t taps = s.kernel_height * s.kernel_width;
  const int64_t in_group = s.in_channels / s.groups, out_group = s.out_channels / s.groups;
  parallel_for(s.out_channels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t channel = begin; channel < end; ++channel) {
      std::fill_n(grad_weight + channel * in_group * taps, in_group * taps, T{0});
      T bias_sum = 0;
      for (int64_t image = 0; image < s.batch; ++image) {
        const T* out = grad_output + (image * s.out_channels + channel) * out_plane;
        for (int64_t i = 0; i < out_plane; ++i) bias_sum += out[i];
        for (int64_t c = 0; c < in_group; ++c) {
          const T* in = input + (image * s.in_channels + channel / out_group * in_group + c) * in_plane;
          T* w = grad_weight + (channel * in_group + c) * taps;
          for_each_tap(s, [&](int64_t tap, int64_t out_row, int64_t in_row, Range columns, int64_t offset) {
            T sum = 0;
            for (int64_t x = columns.first; x < columns.last; ++x)
              sum += out[out_row + x] * in[in_row + x * s.stride_width + offset];
            w[tap] += sum;
          });
        }
      }
      if (grad_bias) grad_bias[channel] = bias_sum;
    }
  });
}

}  // namespace weft::cpu::conv_loops
