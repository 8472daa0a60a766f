#include "autograd/ops/resample.h"

#include <cmath>

#include "autograd/node.h"
#include "autograd/ops/common.h"
#include "autograd/ops/ops.h"
#include "kernels/table.h"

namespace weft {
namespace {

constexpr const char* kOp = "interpolate";

struct Resampling {
  ResampleShape shape;
  Shape input, output;
};

// Both are linear and each other's gradients.
Tensor resample(const Resampling& r, const Tensor& x);

Tensor resample_adjoint(const Resampling& r, const Tensor& dy_) {
  const Tensor dy = dy_.contiguous();
  Tensor dx = empty(r.input, dy.options());
  if (!dx.is_meta() && dx.numel() > 0)
    kernel_table(dy.device().type, kOp)
        .resample.backward(current_stream(dy.device()), dy.dtype(), r.shape, dy.data(), dx.data());
  return record("interpolate_backward", {dy}, dx,
                [r](Node&, const Gradients& g) -> Gradients { return {resample(r, g[0])}; });
}

Tensor resample(const Resampling& r, const Tensor& x_) {
  const Tensor x = x_.contiguous();
  Tensor y = empty(r.output, x.options());
  if (!y.is_meta() && y.numel() > 0)
    kernel_table(x.device().type, kOp)
        .resample.forward(current_stream(x.device()), x.dtype(), r.shape, x.data(), y.data());
  return record(kOp, {x}, y, [r](Node&, const Gradients& dy) -> Gradients { return {resample_adjoint(r, dy[0])}; });
}

struct Mode {
  ResampleMode kind;
  int spatial;  // dimensions it is for; 0: any
};
Mode mode_of(const std::string& name) {
  if (name == "nearest") return {ResampleMode::nearest, 0};
  if (name == "nearest-exact") return {ResampleMode::nearest_exact, 0};
  if (name == "linear") return {ResampleMode::linear, 1};
  if (name == "bilinear") return {ResampleMode::linear, 2};
  if (name == "trilinear") return {ResampleMode::linear, 3};
  if (name == "bicubic") return {ResampleMode::cubic, 2};
  fail(ErrorCode::invalid_argument, kOp,
       "expected the mode nearest, nearest-exact, linear, bilinear, trilinear, bicubic or area, got {}", name);
}

// Steps in the input for one in the output. factor: 0 where the sizes alone count.
double scale_of(const Mode& mode, bool align_corners, int64_t in, int64_t out, double factor) {
  if (align_corners) return out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
  if (mode.kind == ResampleMode::nearest && out == 2 * in) return 0.5;
  return factor > 0 ? 1 / factor : static_cast<double>(in) / static_cast<double>(out);
}

// The new sizes of the spatial dimensions, and the factors that count (0: none).
struct Target {
  Shape size;
  std::vector<double> factor;
};
Target target_of(const Tensor& x, const InterpolateOptions& o) {
  const int spatial = x.dim() - 2;
  WEFT_CHECK(o.size.empty() != o.scale_factor.empty(), kOp, "expected either a size or a scale factor");
  Target target{o.size, std::vector<double>(static_cast<size_t>(spatial), 0)};
  if (o.scale_factor.empty()) {
    if (spatial > 1 && o.size.size() == 1) target.size = std::vector<int64_t>(static_cast<size_t>(spatial), o.size[0]);
  } else {
    WEFT_CHECK(o.scale_factor.size() == 1 || static_cast<int>(o.scale_factor.size()) == spatial, kOp,
               "expected one scale factor or {}, got {}", spatial, o.scale_factor.size());
    for (int d = 0; d < spatial; ++d) {
      const double factor = o.scale_factor[o.scale_factor.size() == 1 ? 0 : static_cast<size_t>(d)];
      WEFT_CHECK(factor > 0 && std::isfinite(factor), kOp, "expected a positive scale factor, got {}", factor);
      target.size.push_back(static_cast<int64_t>(std::floor(static_cast<double>(x.size(d + 2)) * factor)));
      if (!o.recompute_scale_factor) target.factor[static_cast<size_t>(d)] = factor;
    }
  }
  WEFT_CHECK(target.size.size() == spatial, kOp, "expected {} sizes for {}, got {}", spatial, describe(x), target.size);
  for (int d = 0; d < spatial; ++d)
    WEFT_CHECK(target.size[d] > 0 && x.size(d + 2) > 0, kOp, "cannot resize {} to {}", describe(x), target.size);
  return target;
}

Tensor resize_axis(const Tensor& x, int dim, int64_t out, ResampleMode kind, bool align_corners, double scale) {
  Resampling r{.shape = {.outer = 1,
                         .in = x.size(dim),
                         .out = out,
                         .inner = 1,
                         .mode = kind,
                         .align_corners = align_corners,
                         .scale = scale},
               .input = x.shape(),
               .output = x.shape()};
  for (int d = 0; d < dim; ++d) r.shape.outer *= x.size(d);
  for (int d = dim + 1; d < x.dim(); ++d) r.shape.inner *= x.size(d);
  r.output[dim] = out;
  return resample(r, x);
}

}  // namespace

Tensor interpolate(const Tensor& x, InterpolateOptions options) {
  detail::compute_dtype_of(x, kOp);  // checks that it is floating point
  WEFT_CHECK(x.dim() >= 3 && x.dim() <= 5, kOp, "expected x [N, C, …] with one to three spatial dimensions, got {}",
             describe(x));
  const Target target = target_of(x, options);
  if (options.mode == "area") {
    WEFT_CHECK(!options.align_corners, kOp, "align_corners is for linear and cubic modes, not {}", options.mode);
    WEFT_CHECK(x.dim() < 5, kOp, "mode area is for one or two spatial dimensions, got {}", describe(x));
    return x.dim() == 3 ? adaptive_avg_pool1d(x, target.size[0])
                        : adaptive_avg_pool2d(x, {target.size[0], target.size[1]});
  }
  const Mode mode = mode_of(options.mode);
  WEFT_CHECK(mode.spatial == 0 || mode.spatial == x.dim() - 2, kOp, "mode {} is for {} spatial dimensions, got {}",
             options.mode, mode.spatial, describe(x));
  const bool can_align = mode.kind == ResampleMode::linear || mode.kind == ResampleMode::cubic;
  WEFT_CHECK(can_align || !options.align_corners, kOp, "align_corners is for linear and cubic modes, not {}",
             options.mode);
  Tensor y = x.to(detail::statistics_dtype(x.dtype()));
  // The last dimension first.
  for (int d = x.dim() - 1; d >= 2; --d) {
    const int64_t in = x.size(d), out = target.size[d - 2];
    const double scale = scale_of(mode, options.align_corners, in, out, target.factor[static_cast<size_t>(d - 2)]);
    const bool by_size = mode.kind == ResampleMode::nearest || mode.kind == ResampleMode::linear;
    if (in == out && (by_size || scale == 1))
      continue;  // these two take equal sizes for no change, whatever the factor
    y = resize_axis(y, d, out, mode.kind, options.align_corners, scale);
  }
  return y.to(x.dtype());
}

}  // namespace weft
