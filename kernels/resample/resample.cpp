#include "kernels/resample/resample.h"

#include <algorithm>

#include "kernels/base/parallel.h"
#include "kernels/base/scratch.h"
#include "kernels/resample/resample_taps.h"

namespace weft::cpu {
namespace {

constexpr int64_t kTileElements = 16384;

struct TapsTag;

// The taps of every output, computed once a launch.
const ResampleTaps* all_taps(const ResampleShape& s) {
  ResampleTaps* taps = scratch<TapsTag, ResampleTaps>(s.out);
  for (int64_t o = 0; o < s.out; ++o) taps[o] = resample_taps(s, o);
  return taps;
}

// y = weight · x or y += weight · x, over n elements.
template <class T>
void scaled_row(const T* x, T weight, bool add, T* y, int64_t n) {
  if (add)
    for (int64_t i = 0; i < n; ++i) y[i] += weight * x[i];
  else if (weight == T{1})
    std::copy_n(x, n, y);
  else
    for (int64_t i = 0; i < n; ++i) y[i] = weight * x[i];
}

template <class T>
void forward(const ResampleShape& s, const T* x, T* y) {
  const ResampleTaps* taps = all_taps(s);
  const int64_t tile = std::max<int64_t>(1, kTileElements / std::max<int64_t>(1, s.out * s.inner));
  parallel_for(s.outer, tile, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const T* from = x + n * s.in * s.inner;
      T* to = y + n * s.out * s.inner;
      for (int64_t o = 0; o < s.out; ++o, to += s.inner) {
        const ResampleTaps& t = taps[o];
        if (s.inner > 1) {
          for (int k = 0; k < t.count; ++k)
            scaled_row(from + t.position(k) * s.inner, static_cast<T>(t.weight[k]), k > 0, to, s.inner);
        } else if (t.count == 1) {
          *to = from[t.position(0)];
        } else {
          T sum = 0;
          for (int k = 0; k < t.count; ++k) sum += static_cast<T>(t.weight[k]) * from[t.position(k)];
          *to = sum;
        }
      }
    }
  });
}

template <class T>
void backward(const ResampleShape& s, const T* dy, T* dx) {
  const ResampleTaps* taps = all_taps(s);
  const int64_t tile = std::max<int64_t>(1, kTileElements / std::max<int64_t>(1, s.out * s.inner));
  parallel_for(s.outer, tile, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const T* from = dy + n * s.out * s.inner;
      T* to = dx + n * s.in * s.inner;
      std::fill_n(to, s.in * s.inner, T{0});
      for (int64_t o = 0; o < s.out; ++o, from += s.inner) {
        const ResampleTaps& t = taps[o];
        for (int k = 0; k < t.count; ++k)
          scaled_row(from, static_cast<T>(t.weight[k]), true, to + t.position(k) * s.inner, s.inner);
      }
    }
  });
}

void resample_forward(Stream, DType dtype, const ResampleShape& shape, const void* x, void* y) {
  visit_compute(dtype, "interpolate", [&](auto type) {
    using T = typename decltype(type)::type;
    forward(shape, static_cast<const T*>(x), static_cast<T*>(y));
  });
}

void resample_backward(Stream, DType dtype, const ResampleShape& shape, const void* dy, void* dx) {
  visit_compute(dtype, "interpolate", [&](auto type) {
    using T = typename decltype(type)::type;
    backward(shape, static_cast<const T*>(dy), static_cast<T*>(dx));
  });
}

}  // namespace

constinit const ResampleKernels resample_kernels{resample_forward, resample_backward};

}  // namespace weft::cpu
