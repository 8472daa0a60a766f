// Resizing along one axis; images and volumes are resized one axis after the other.
//
//   ResampleShape rows{.outer = 3, .in = 20, .out = 40, .inner = 30, .mode = ResampleMode::linear, .scale = 0.5};
//   cpu::resample_kernels.forward({}, f32, rows, x, y);   // x [3, 20, 30] → y [3, 40, 30]
//
// Arrays are dense, f32 or f64. Output o is a weighted sum of one, two or four neighbours of the input, those of
// resample_taps (resample_taps.h), the same on every device.
#pragma once
#include <cstdint>

#include "kernels/base/dtype.h"
#include "kernels/base/stream.h"

namespace weft {

enum class ResampleMode {
  nearest,        // the element at o · scale, rounded down
  nearest_exact,  // the one at (o + 1/2) · scale, rounded down
  linear,         // two neighbours
  cubic,          // four, Keys 1981 with a = -0.75
};

struct ResampleShape {
  int64_t outer = 1, in = 1, out = 1, inner = 1;
  ResampleMode mode = ResampleMode::nearest;
  bool align_corners = false;  // linear and cubic: the first and last elements coincide, else the borders do
  double scale = 1;            // steps in the input for one in the output
};

struct ResampleKernels {
  // x [outer, in, inner] → y [outer, out, inner]
  void (*forward)(Stream stream, DType dtype, const ResampleShape& shape, const void* x, void* y);
  // dy [outer, out, inner] → dx [outer, in, inner]
  void (*backward)(Stream stream, DType dtype, const ResampleShape& shape, const void* dy, void* dx);
};

namespace cpu {
extern const ResampleKernels resample_kernels;
}

}  // namespace weft
