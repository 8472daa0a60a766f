// Pooling on a device: a thread makes one element of the result, and neighbouring threads neighbouring elements.
#include "kernels/conv/pool_device.h"
#include "kernels/simt/row.h"

namespace weft::WEFT_DEVICE {
namespace {

constexpr int kThreads = 256;

// One of the two directions of a window: `kernel` taps, `dilation` apart, every `stride` elements.
struct Axis {
  int in, out, kernel, stride, padding, dilation;
  bool adaptive;  // `out` windows share the input evenly, and the four before do not count

  // The elements of window `o` that lie inside the input are begin, begin + dilation, … below end.
  __device__ __forceinline__ int begin(int o) const {
    if (adaptive) return static_cast<int>(static_cast<int64_t>(o) * in / out);
    const int first = o * stride - padding;
    return first >= 0 ? first : first + (-first + dilation - 1) / dilation * dilation;
  }
  __device__ __forceinline__ int end(int o) const {
    if (adaptive) return static_cast<int>((static_cast<int64_t>(o + 1) * in + out - 1) / out);
    const int last = o * stride - padding + (kernel - 1) * dilation + 1;
    return last < in ? last : in;
  }
  // Elements of the window with the padding, which ceil_mode may cut.
  __device__ __forceinline__ int padded_size(int o) const {
    const int first = o * stride - padding;
    const int last = first + kernel < in + padding ? first + kernel : in + padding;
    return last - first;
  }
  // The windows whose span covers element i are first_window(i) to last_window(i).
  __device__ __forceinline__ int first_window(int i) const {
    if (adaptive) return static_cast<int>(static_cast<int64_t>(i) * out / in);
    const int before = i + padding - (kernel - 1) * dilation;
    return before <= 0 ? 0 : (before + stride - 1) / stride;
  }
  __device__ __forceinline__ int last_window(int i) const {
    if (adaptive) return static_cast<int>((static_cast<int64_t>(i + 1) * out + in - 1) / in) - 1;
    const int last = (i + padding) / stride;
    return last < out ? last : out - 1;
  }
};

struct Pool {
  Axis y, x;
  int64_t in_plane, out_plane;
  int64_t inputs, outputs;  // elements of all planes
  bool count_include_pad;
  int64_t divisor_override;

  // What an average divides by.
  __device__ __forceinline__ int64_t divisor(int oy, int ox) const {
    if (divisor_override != 0) return divisor_override;
    if (count_include_pad && !y.adaptive) return static_cast<int64_t>(y.padded_size(oy)) * x.padded_size(ox);
    return static_cast<int64_t>(y.end(oy) - y.begin(oy)) * (x.end(ox) - x.begin(ox));
  }
};

// An element of [planes, height, width].
struct Place {
  int64_t plane;
  int y, x;
};
__device__ __forceinline__ Place place_of(int64_t element, int64_t plane_size, int width) {
  const auto rest = static_cast<int>(element % plane_size);
  return {element / plane_size, rest / width, rest % width};
}

__device__ __forceinline__ int64_t own_element() { return static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; }

template <class T>
__global__ void __launch_bounds__(kThreads) max_forward(Pool p, const T* input, T* output, int64_t* indices) {
  using C = ComputeType<T>;
  const int64_t element = own_element();
  if (element >= p.outputs) return;
  const Place at = place_of(element, p.out_plane, p.x.out);
  const T* in = input + at.plane * p.in_plane;
  const int y_end = p.y.end(at.y), x_begin = p.x.begin(at.x), x_end = p.x.end(at.x);
  C best = kNegativeInfinity<C>;
  int64_t where = static_cast<int64_t>(p.y.begin(at.y)) * p.x.in + x_begin;
  for (int y = p.y.begin(at.y); y < y_end; y += p.y.dilation) {
    for (int x = x_begin; x < x_end; x += p.x.dilation) {
      const int64_t position = static_cast<int64_t>(y) * p.x.in + x;
      const C value = widen(in[position]);
      if (value > best || value != value) {
        best = value;
        where = position;
      }
    }
  }
  output[element] = narrow<T>(best);
  indices[element] = where;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    max_backward(Pool p, const T* grad_output, const int64_t* indices, T* grad_input) {
  using C = ComputeType<T>;
  const int64_t element = own_element();
  if (element >= p.inputs) return;
  const Place at = place_of(element, p.in_plane, p.x.in);
  const int64_t position = static_cast<int64_t>(at.y) * p.x.in + at.x;
  C sum = 0;
  for (int oy = p.y.first_window(at.y); oy <= p.y.last_window(at.y); ++oy) {
    for (int ox = p.x.first_window(at.x); ox <= p.x.last_window(at.x); ++ox) {
      const int64_t o = at.plane * p.out_plane + static_cast<int64_t>(oy) * p.x.out + ox;
      if (indices[o] == position) sum += widen(grad_output[o]);
    }
  }
  grad_input[element] = narrow<T>(sum);
}

template <class T>
__global__ void __launch_bounds__(kThreads) avg_forward(Pool p, const T* input, T* output) {
  using C = ComputeType<T>;
  const int64_t element = own_element();
  if (element >= p.outputs) return;
  const Place at = place_of(element, p.out_plane, p.x.out);
  const T* in = input + at.plane * p.in_plane;
  const int y_begin = p.y.begin(at.y), y_end = p.y.end(at.y), x_begin = p.x.begin(at.x), x_end = p.x.end(at.x);
  C sum = 0;
  for (int y = y_begin; y < y_end; ++y)
    for (int x = x_begin; x < x_end; ++x) sum += widen(in[static_cast<int64_t>(y) * p.x.in + x]);
  // A window that holds nothing but padding gives 0.
  const bool empty = y_begin >= y_end || x_begin >= x_end;
  output[element] = narrow<T>(empty ? C(0) : sum / static_cast<C>(p.divisor(at.y, at.x)));
}

template <class T>
__global__ void __launch_bounds__(kThreads) avg_backward(Pool p, const T* grad_output, T* grad_input) {
  using C = ComputeType<T>;
  const int64_t element = own_element();
  if (element >= p.inputs) return;
  const Place at = place_of(element, p.in_plane, p.x.in);
  C sum = 0;
  for (int oy = p.y.first_window(at.y); oy <= p.y.last_window(at.y); ++oy) {
    for (int ox = p.x.first_window(at.x); ox <= p.x.last_window(at.x); ++ox) {
      const int64_t o = at.plane * p.out_plane + static_cast<int64_t>(oy) * p.x.out + ox;
      sum += widen(grad_output[o]) / static_cast<C>(p.divisor(oy, ox));
    }
  }
  grad_input[element] = narrow<T>(sum);
}

Axis axis(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation, bool adaptive) {
  const auto narrow_size = [](int64_t size) { return static_cast<int>(size); };
  return {narrow_size(in),       narrow_size(out), narrow_size(kernel), narrow_size(stride), narrow_size(padding),
          narrow_size(dilation), adaptive};
}

Pool describe(const char* op, const Pool2dShape& s, int64_t dilation_height, int64_t dilation_width) {
  const int64_t in_plane = s.in_height * s.in_width, out_plane = s.out_height() * s.out_width();
  const int64_t reach = std::max({(s.kernel_height - 1) * s.dilation_height + s.padding_height + s.in_height,
                                  (s.kernel_width - 1) * s.dilation_width + s.padding_width + s.in_width, in_plane,
                                  out_plane, s.stride_height * s.out_height(), s.stride_width * s.out_width()});
  WEFT_CHECK(reach < std::numeric_limits<int>::max() / 2, op, "planes or windows of {} elements are too large", reach);
  return {axis(s.in_height, s.out_height(), s.kernel_height, s.stride_height, s.padding_height, dilation_height,
               s.adaptive),
          axis(s.in_width, s.out_width(), s.kernel_width, s.stride_width, s.padding_width, dilation_width, s.adaptive),
          in_plane,
          out_plane,
          s.planes * in_plane,
          s.planes * out_plane,
          s.count_include_pad,
          s.divisor_override};
}

dim3 grid(int64_t elements) { return dim3(static_cast<unsigned>((elements + kThreads - 1) / kThreads)); }

}  // namespace

void max_pool2d_forward(Stream stream, DType dtype, const Pool2dShape& shape, const void* input, void* output,
                        int64_t* indices) {
  visit_device_floating(dtype, "max_pool2d", [&](auto type) {
    using T = typename decltype(type)::type;
    const Pool p = describe("max_pool2d", shape, shape.dilation_height, shape.dilation_width);
    if (p.outputs > 0)
      launch(max_forward<T>, grid(p.outputs), dim3(kThreads), 0, stream, p, static_cast<const T*>(input),
             static_cast<T*>(output), indices);
  });
}

void max_pool2d_backward(Stream stream, DType dtype, const Pool2dShape& shape, const void* grad_output,
                         const int64_t* indices, void* grad_input) {
  visit_device_floating(dtype, "max_pool2d", [&](auto type) {
    using T = typename decltype(type)::type;
    const Pool p = describe("max_pool2d", shape, shape.dilation_height, shape.dilation_width);
    if (p.inputs > 0)
      launch(max_backward<T>, grid(p.inputs), dim3(kThreads), 0, stream, p, static_cast<const T*>(grad_output), indices,
             static_cast<T*>(grad_input));
  });
}

void avg_pool2d_forward(Stream stream, DType dtype, const Pool2dShape& shape, const void* input, void* output) {
  visit_device_floating(dtype, "avg_pool2d", [&](auto type) {
    using T = typename decltype(type)::type;
    const Pool p = describe("avg_pool2d", shape, 1, 1);
    if (p.outputs > 0)
      launch(avg_forward<T>, grid(p.outputs), dim3(kThreads), 0, stream, p, static_cast<const T*>(input),
             static_cast<T*>(output));
  });
}

void avg_pool2d_backward(Stream stream, DType dtype, const Pool2dShape& shape, const void* grad_output,
                         void* grad_input) {
  visit_device_floating(dtype, "avg_pool2d", [&](auto type) {
    using T = typename decltype(type)::type;
    const Pool p = describe("avg_pool2d", shape, 1, 1);
    if (p.inputs > 0)
      launch(avg_backward<T>, grid(p.inputs), dim3(kThreads), 0, stream, p, static_cast<const T*>(grad_output),
             static_cast<T*>(grad_input));
  });
}

}  // namespace weft::WEFT_DEVICE
