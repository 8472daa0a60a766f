// Resizing on a device: a thread an element of the result, neighbouring threads neighbouring elements. Gradients are
// gathered: an element of the input adds up the outputs it has a part in, in their order.
#include "kernels/resample/resample.h"

#include "kernels/device_table.h"
#include "kernels/resample/resample_taps.h"
#include "kernels/simt/simt.h"

namespace weft::WEFT_DEVICE {
namespace {

constexpr int kThreads = 256;

// An element of [outer, axis, inner].
struct Place {
  int64_t outer, axis, inner;
};
__device__ __forceinline__ Place place_of(int64_t element, int64_t axis, int64_t inner) {
  const int64_t line = element / inner;
  return {line / axis, line % axis, element % inner};
}

template <class T>
__global__ void __launch_bounds__(kThreads) forward(ResampleShape s, const T* x, T* y) {
  const int64_t element = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (element >= s.outer * s.out * s.inner) return;
  const Place at = place_of(element, s.out, s.inner);
  const ResampleTaps taps = resample_taps(s, at.axis);
  const T* from = x + at.outer * s.in * s.inner + at.inner;
  if (taps.count == 1) {
    y[element] = from[taps.position(0) * s.inner];
    return;
  }
  T sum = 0;
  for (int k = 0; k < taps.count; ++k) sum += static_cast<T>(taps.weight[k]) * from[taps.position(k) * s.inner];
  y[element] = sum;
}

// An output at or before every one that element i has a part in, within two of the first: taps reach two elements.
__device__ __forceinline__ int64_t first_output(const ResampleShape& s, int64_t i) {
  if (i == 0 || s.scale <= 0) return 0;
  const double reach = s.mode == ResampleMode::cubic ? 2 : 1;
  const int64_t o = weft::detail::floor_of((static_cast<double>(i) - reach) / s.scale) - 2;
  return o < 0 ? 0 : o;
}
// The same from the other side.
__device__ __forceinline__ int64_t last_output(const ResampleShape& s, int64_t i) {
  if (i == s.in - 1 || s.scale <= 0) return s.out - 1;
  const double reach = s.mode == ResampleMode::cubic ? 2 : 1;
  const int64_t o = weft::detail::floor_of((static_cast<double>(i) + reach + 0.5) / s.scale) + 2;
  return o < s.out ? o : s.out - 1;
}

template <class T>
__global__ void __launch_bounds__(kThreads) backward(ResampleShape s, const T* dy, T* dx) {
  const int64_t element = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (element >= s.outer * s.in * s.inner) return;
  const Place at = place_of(element, s.in, s.inner);
  const T* from = dy + at.outer * s.out * s.inner + at.inner;
  T sum = 0;
  const int64_t last = last_output(s, at.axis);
  for (int64_t o = first_output(s, at.axis); o <= last; ++o) {
    const ResampleTaps taps = resample_taps(s, o);
    for (int k = 0; k < taps.count; ++k)
      if (taps.position(k) == at.axis) sum += static_cast<T>(taps.weight[k]) * from[o * s.inner];
  }
  dx[element] = sum;
}

dim3 grid(int64_t elements) { return dim3(static_cast<unsigned>((elements + kThreads - 1) / kThreads)); }

void resample_forward(Stream stream, DType dtype, const ResampleShape& s, const void* x, void* y) {
  visit_compute(dtype, "interpolate", [&](auto type) {
    using T = typename decltype(type)::type;
    const int64_t elements = s.outer * s.out * s.inner;
    if (elements > 0)
      launch(forward<T>, grid(elements), dim3(kThreads), 0, stream, s, static_cast<const T*>(x), static_cast<T*>(y));
  });
}

void resample_backward(Stream stream, DType dtype, const ResampleShape& s, const void* dy, void* dx) {
  visit_compute(dtype, "interpolate", [&](auto type) {
    using T = typename decltype(type)::type;
    const int64_t elements = s.outer * s.in * s.inner;
    if (elements > 0)
      launch(backward<T>, grid(elements), dim3(kThreads), 0, stream, s, static_cast<const T*>(dy), static_cast<T*>(dx));
  });
}

}  // namespace

extern constinit const ResampleKernels resample_kernels = {.forward = resample_forward, .backward = resample_backward};

}  // namespace weft::WEFT_DEVICE
