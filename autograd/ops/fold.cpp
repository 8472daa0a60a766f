#include "autograd/ops/fold.h"

#include "autograd/node.h"
#include "autograd/ops/common.h"
#include "autograd/ops/ops.h"

namespace weft {
namespace {

struct Windows {
  FoldOptions options;
  Shape image;            // [N, C, H, W]
  int64_t height, width;  // number of windows down and across

  Shape padded() const {
    return {image[0], image[1], image[2] + 2 * options.padding[0], image[3] + 2 * options.padding[1]};
  }
  Shape columns() const { return {image[0], image[1] * options.kernel[0] * options.kernel[1], height * width}; }
  // columns() with channel, kernel and window apart.
  Shape spread() const { return {image[0], image[1], options.kernel[0], options.kernel[1], height, width}; }
};

Windows windows_of(const char* op, const Shape& image, const FoldOptions& o) {
  int64_t count[2];
  for (size_t i : {0u, 1u}) {
    WEFT_CHECK(o.kernel[i] > 0 && o.stride[i] > 0 && o.padding[i] >= 0 && o.dilation[i] > 0, op,
               "expected a positive kernel, stride and dilation and no negative padding; got {}, {}, {}, {}",
               o.kernel[i], o.stride[i], o.dilation[i], o.padding[i]);
    const int64_t room = image[static_cast<int>(i) + 2] + 2 * o.padding[i] - o.dilation[i] * (o.kernel[i] - 1) - 1;
    WEFT_CHECK(room >= 0, op, "the window {}×{} is larger than the padded image {}", o.kernel[0], o.kernel[1], image);
    count[i] = room / o.stride[i] + 1;
  }
  return {o, image, count[0], count[1]};
}

// Both are linear and each other's gradients.
Tensor to_columns(const Windows& w, const Tensor& x);

Tensor to_image(const Windows& w, const Tensor& columns) {
  Tensor y;
  {
    NoGrad guard;
    const FoldOptions& o = w.options;
    const Tensor parts = columns.reshape(w.spread());
    const Tensor sums = zeros(w.padded(), columns.options());
    // One tap of the kernel after the other, for all windows at once.
    for (int64_t ky = 0; ky < o.kernel[0]; ++ky) {
      const int64_t top = ky * o.dilation[0];
      const Tensor rows = sums.slice(2, top, top + (w.height - 1) * o.stride[0] + 1, o.stride[0]);
      for (int64_t kx = 0; kx < o.kernel[1]; ++kx) {
        const int64_t left = kx * o.dilation[1];
        rows.slice(3, left, left + (w.width - 1) * o.stride[1] + 1, o.stride[1])
            .add_(parts.select(2, ky).select(2, kx));
      }
    }
    y = sums.narrow(2, o.padding[0], w.image[2]).narrow(3, o.padding[1], w.image[3]).contiguous();
  }
  return record("col2im", {columns}, y,
                [w](Node&, const Gradients& dy) -> Gradients { return {to_columns(w, dy[0])}; });
}

Tensor to_columns(const Windows& w, const Tensor& x) {
  Tensor y;
  {
    NoGrad guard;
    const FoldOptions& o = w.options;
    Tensor source = x.contiguous();
    if (o.padding[0] + o.padding[1] > 0)
      source = pad(source, {o.padding[1], o.padding[1], o.padding[0], o.padding[0]}).contiguous();
    if (source.numel() == 0) {
      y = zeros(w.columns(), x.options());
    } else {
      const int64_t row = source.size(3), plane = source.size(2) * row;
      y = as_strided(
              source, w.spread(),
              {source.size(1) * plane, plane, o.dilation[0] * row, o.dilation[1], o.stride[0] * row, o.stride[1]},
              source.offset())
              .reshape(w.columns());
    }
  }
  return record("im2col", {x}, y, [w](Node&, const Gradients& dy) -> Gradients { return {to_image(w, dy[0])}; });
}

}  // namespace

Tensor im2col(const Tensor& x, FoldOptions options) {
  constexpr const char* op = "im2col";
  WEFT_CHECK(x.dim() == 3 || x.dim() == 4, op, "expected [N, C, H, W] or [C, H, W], got {}", describe(x));
  detail::compute_dtype_of(x, op);  // checks that it is floating point
  // Sums of halves, in backward, are taken in f32.
  const Tensor wide = x.to(detail::statistics_dtype(x.dtype()));
  const Tensor image = x.dim() == 3 ? wide.unsqueeze(0) : wide;
  const Tensor y = to_columns(windows_of(op, image.shape(), options), image);
  return (x.dim() == 3 ? y.squeeze(0) : y).to(x.dtype());
}

Tensor col2im(const Tensor& columns, std::array<int64_t, 2> output_size, FoldOptions options) {
  constexpr const char* op = "col2im";
  WEFT_CHECK(columns.dim() == 2 || columns.dim() == 3, op, "expected [N, C · kh · kw, L] or [C · kh · kw, L], got {}",
             describe(columns));
  detail::compute_dtype_of(columns, op);
  const int64_t taps = options.kernel[0] * options.kernel[1];
  WEFT_CHECK(taps > 0 && columns.size(-2) % taps == 0, op, "{} is not a multiple of the {}×{} elements of a window",
             describe(columns), options.kernel[0], options.kernel[1]);
  const Tensor wide = columns.to(detail::statistics_dtype(columns.dtype()));
  const Tensor batch = columns.dim() == 2 ? wide.unsqueeze(0) : wide;
  const Windows w = windows_of(op, {batch.size(0), batch.size(1) / taps, output_size[0], output_size[1]}, options);
  WEFT_CHECK(batch.size(2) == w.height * w.width, op, "expected {}·{} windows for an output of {}×{}, got {}", w.height,
             w.width, output_size[0], output_size[1], describe(columns));
  const Tensor y = to_image(w, batch);
  return (columns.dim() == 2 ? y.squeeze(0) : y).to(columns.dtype());
}

}  // namespace weft
