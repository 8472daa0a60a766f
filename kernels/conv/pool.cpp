// Pooling: tiles of whole planes, each output visited once; so backward needs no atomics.
#include "kernels/conv/pool.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/base/parallel.h"

namespace weft::cpu {
namespace {

// Planes a tile: about 64 thousand elements.
int64_t planes_per_tile(const Pool2dShape& s) {
  return std::max<int64_t>(1, 65536 / std::max<int64_t>(1, s.in_height * s.in_width));
}

// The elements of window `o` of `outputs` windows that share `size` elements evenly; neighbours may overlap.
int64_t adaptive_begin(int64_t o, int64_t size, int64_t outputs) { return o * size / outputs; }
int64_t adaptive_end(int64_t o, int64_t size, int64_t outputs) { return ((o + 1) * size + outputs - 1) / outputs; }

// The largest element of one window and where it is. The first of equals wins, and a NaN over every number.
template <class T>
inline void max_of_window(const T* in, int64_t width, int64_t y_begin, int64_t y_end, int64_t y_step, int64_t x_begin,
                          int64_t x_end, int64_t x_step, T* out, int64_t* index) {
  T best = -std::numeric_limits<T>::infinity();
  int64_t where = y_begin * width + x_begin;
  for (int64_t y = y_begin; y < y_end; y += y_step)
    for (int64_t x = x_begin; x < x_end; x += x_step) {
      const T value = in[y * width + x];
      if (value > best || std::isnan(value)) {
        best = value;
        where = y * width + x;
      }
    }
  *out = best;
  *index = where;
}

template <class T>
void max_forward_plane(const Pool2dShape& s, const T* in, T* out, int64_t* index) {
  const int64_t out_height = s.out_height(), out_width = s.out_width();
  const int64_t extent_y = (s.kernel_height - 1) * s.dilation_height + 1;
  const int64_t extent_x = (s.kernel_width - 1) * s.dilation_width + 1;
  // First row or column of a window at or after the edge of the input, keeping the dilated grid.
  const auto clip = [](int64_t begin, int64_t step) {
    return begin >= 0 ? begin : begin + (-begin + step - 1) / step * step;
  };
  for (int64_t oy = 0; s.adaptive && oy < out_height; ++oy) {
    const int64_t y_begin = adaptive_begin(oy, s.in_height, out_height);
    const int64_t y_end = adaptive_end(oy, s.in_height, out_height);
    for (int64_t ox = 0; ox < out_width; ++ox, ++out, ++index)
      max_of_window(in, s.in_width, y_begin, y_end, 1, adaptive_begin(ox, s.in_width, out_width),
                    adaptive_end(ox, s.in_width, out_width), 1, out, index);
  }
  for (int64_t oy = 0; !s.adaptive && oy < out_height; ++oy) {
    const int64_t y = oy * s.stride_height - s.padding_height;
    const int64_t y_begin = clip(y, s.dilation_height), y_end = std::min(y + extent_y, s.in_height);
    for (int64_t ox = 0; ox < out_width; ++ox, ++out, ++index) {
      const int64_t x = ox * s.stride_width - s.padding_width;
      max_of_window(in, s.in_width, y_begin, y_end, s.dilation_height, clip(x, s.dilation_width),
                    std::min(x + extent_x, s.in_width), s.dilation_width, out, index);
    }
  }
}

// The common 2×2 window with stride 2, without branches in the inner loop.
template <class T>
void max_forward_plane_2x2(const Pool2dShape& s, const T* in, T* out, int64_t* index) {
  const int64_t out_height = s.out_height(), out_width = s.out_width();
  for (int64_t oy = 0; oy < out_height; ++oy, out += out_width, index += out_width) {
    const int64_t first = 2 * oy * s.in_width;
    const T *upper = in + first, *lower = upper + s.in_width;
    for (int64_t ox = 0; ox < out_width; ++ox) {
      T best = upper[2 * ox];
      int64_t where = 2 * ox;
      const auto take = [&](T value, int64_t position) {
        const bool better = !(value <= best) & (best == best || value != value);
        best = better ? value : best;
        where = better ? position : where;
      };
      take(upper[2 * ox + 1], 2 * ox + 1);
      take(lower[2 * ox], s.in_width + 2 * ox);
      take(lower[2 * ox + 1], s.in_width + 2 * ox + 1);
      out[ox] = best;
      index[ox] = first + where;
    }
  }
}

bool is_2x2(const Pool2dShape& s) {
  return s.kernel_height == 2 && s.kernel_width == 2 && s.stride_height == 2 && s.stride_width == 2 &&
         s.padding_height == 0 && s.padding_width == 0 && s.dilation_height == 1 && s.dilation_width == 1 &&
         !s.ceil_mode && !s.adaptive;
}

// Calls f(output, y_begin, y_end, x_begin, x_end, divisor) for each window of an average, clipped to the input.
template <class F>
void for_each_average(const Pool2dShape& s, F&& f) {
  const int64_t out_height = s.out_height(), out_width = s.out_width();
  for (int64_t oy = 0; s.adaptive && oy < out_height; ++oy) {
    const int64_t y_begin = adaptive_begin(oy, s.in_height, out_height);
    const int64_t y_end = adaptive_end(oy, s.in_height, out_height);
    for (int64_t ox = 0; ox < out_width; ++ox) {
      const int64_t x_begin = adaptive_begin(ox, s.in_width, out_width);
      const int64_t x_end = adaptive_end(ox, s.in_width, out_width);
      f(oy * out_width + ox, y_begin, y_end, x_begin, x_end, (y_end - y_begin) * (x_end - x_begin));
    }
  }
  for (int64_t oy = 0; !s.adaptive && oy < out_height; ++oy) {
    const int64_t y = oy * s.stride_height - s.padding_height;
    const int64_t y_padded_end = std::min(y + s.kernel_height, s.in_height + s.padding_height);
    const int64_t y_begin = std::max<int64_t>(y, 0), y_end = std::min(y_padded_end, s.in_height);
    for (int64_t ox = 0; ox < out_width; ++ox) {
      const int64_t x = ox * s.stride_width - s.padding_width;
      const int64_t x_padded_end = std::min(x + s.kernel_width, s.in_width + s.padding_width);
      const int64_t x_begin = std::max<int64_t>(x, 0), x_end = std::min(x_padded_end, s.in_width);
      int64_t divisor = s.divisor_override;
      if (divisor == 0)
        divisor = s.count_include_pad ? (y_padded_end - y) * (x_padded_end - x) : (y_end - y_begin) * (x_end - x_begin);
      f(oy * out_width + ox, y_begin, y_end, x_begin, x_end, divisor);
    }
  }
}

}  // namespace

void max_pool2d_forward(Stream, DType dtype, const Pool2dShape& s, const void* input, void* output, int64_t* indices) {
  visit_compute(dtype, "max_pool2d", [&](auto type) {
    using T = typename decltype(type)::type;
    const int64_t in_plane = s.in_height * s.in_width, out_plane = s.out_height() * s.out_width();
    parallel_for(s.planes, planes_per_tile(s), [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        const T* in = static_cast<const T*>(input) + plane * in_plane;
        T* out = static_cast<T*>(output) + plane * out_plane;
        if (is_2x2(s))
          max_forward_plane_2x2(s, in, out, indices + plane * out_plane);
        else
          max_forward_plane(s, in, out, indices + plane * out_plane);
      }
    });
  });
}

void max_pool2d_backward(Stream, DType dtype, const Pool2dShape& s, const void* grad_output, const int64_t* indices,
                         void* grad_input) {
  visit_compute(dtype, "max_pool2d", [&](auto type) {
    using T = typename decltype(type)::type;
    const int64_t in_plane = s.in_height * s.in_width, out_plane = s.out_height() * s.out_width();
    parallel_for(s.planes, planes_per_tile(s), [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        const T* out = static_cast<const T*>(grad_output) + plane * out_plane;
        const int64_t* where = indices + plane * out_plane;
        T* in = static_cast<T*>(grad_input) + plane * in_plane;
        std::fill_n(in, in_plane, T{0});
        for (int64_t i = 0; i < out_plane; ++i) in[where[i]] += out[i];
      }
    });
  });
}

void avg_pool2d_forward(Stream, DType dtype, const Pool2dShape& s, const void* input, void* output) {
  visit_compute(dtype, "avg_pool2d", [&](auto type) {
    using T = typename decltype(type)::type;
    const int64_t in_plane = s.in_height * s.in_width, out_plane = s.out_height() * s.out_width();
    parallel_for(s.planes, planes_per_tile(s), [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        const T* in = static_cast<const T*>(input) + plane * in_plane;
        T* out = static_cast<T*>(output) + plane * out_plane;
        for_each_average(
            s, [&](int64_t o, int64_t y_begin, int64_t y_end, int64_t x_begin, int64_t x_end, int64_t divisor) {
              T sum = 0;
              for (int64_t y = y_begin; y < y_end; ++y)
                for (int64_t x = x_begin; x < x_end; ++x) sum += in[y * s.in_width + x];
              // A window that holds nothing but padding gives 0.
              out[o] = y_begin < y_end && x_begin < x_end ? sum / static_cast<T>(divisor) : T{0};
            });
      }
    });
  });
}

void avg_pool2d_backward(Stream, DType dtype, const Pool2dShape& s, const void* grad_output, void* grad_input) {
  visit_compute(dtype, "avg_pool2d", [&](auto type) {
    using T = typename decltype(type)::type;
    const int64_t in_plane = s.in_height * s.in_width, out_plane = s.out_height() * s.out_width();
    parallel_for(s.planes, planes_per_tile(s), [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        const T* out = static_cast<const T*>(grad_output) + plane * out_plane;
        T* in = static_cast<T*>(grad_input) + plane * in_plane;
        std::fill_n(in, in_plane, T{0});
        for_each_average(
            s, [&](int64_t o, int64_t y_begin, int64_t y_end, int64_t x_begin, int64_t x_end, int64_t divisor) {
              if (y_begin >= y_end || x_begin >= x_end) return;
              const T share = out[o] / static_cast<T>(divisor);
              for (int64_t y = y_begin; y < y_end; ++y)
                for (int64_t x = x_begin; x < x_end; ++x) in[y * s.in_width + x] += share;
            });
      }
    });
  });
}

}  // namespace weft::cpu
