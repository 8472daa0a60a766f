// Chooses between oneDNN (f32) and plain loops (f64, and shapes with a size of zero) for each convolution.
#include "kernels/conv/conv.h"

#include <algorithm>

#include "kernels/conv/conv_loops.h"
#include "kernels/conv/conv_onednn.h"
#include "kernels/conv/pool.h"

namespace weft::cpu {
namespace {

bool has_no_zero(const Conv2dShape& s) {
  return std::min({s.batch, s.in_channels, s.in_height, s.in_width, s.out_channels, s.kernel_height, s.kernel_width,
                   s.out_height(), s.out_width()}) > 0;
}

void conv2d_forward(Stream, DType dtype, const Conv2dShape& shape, const void* input, const void* weight,
                    const void* bias, void* output) {
  visit_compute(dtype, "conv2d", [&](auto type) {
    using T = typename decltype(type)::type;
    const T *x = static_cast<const T*>(input), *w = static_cast<const T*>(weight), *b = static_cast<const T*>(bias);
    if constexpr (std::is_same_v<T, float>)
      if (has_no_zero(shape)) return conv_onednn::forward(shape, x, w, b, static_cast<T*>(output));
    conv_loops::forward(shape, x, w, b, static_cast<T*>(output));
  });
}

void conv2d_backward_input(Stream, DType dtype, const Conv2dShape& shape, const void* grad_output, const void* weight,
                           void* grad_input) {
  visit_compute(dtype, "conv2d", [&](auto type) {
    using T = typename decltype(type)::type;
    const T *g = static_cast<const T*>(grad_output), *w = static_cast<const T*>(weight);
    if constexpr (std::is_same_v<T, float>)
      if (has_no_zero(shape)) return conv_onednn::backward_input(shape, g, w, static_cast<T*>(grad_input));
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
      if (has_no_zero(shape)) return conv_onednn::backward_weight(shape, x, g, w, b);
    conv_loops::backward_weight(shape, x, g, w, b);
  });
}

}  // namespace

constinit const ConvKernels conv_kernels{conv2d_forward,     conv2d_backward_input, conv2d_backward_weight,
                                         max_pool2d_forward, max_pool2d_backward,   avg_pool2d_forward,
                                         avg_pool2d_backward};

}  // namespace weft::cpu
