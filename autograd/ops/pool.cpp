#include "autograd/ops/pool.h"

#include "autograd/node.h"
#include "autograd/ops/common.h"
#include "autograd/ops/ops.h"
#include "kernels/table.h"

namespace weft {
namespace {

struct Pooling {
  Pool2dShape shape;
  Shape input, output;
};

Pooling pooling_of(const char* op, const Tensor& x, const Pool2dOptions& o) {
  for (size_t at : {0u, 1u}) {
    WEFT_CHECK(o.kernel[at] > 0 && o.stride[at] >= 0 && o.padding[at] >= 0 && o.dilation[at] > 0, op,
               "expected a positive kernel and dilation and no negative stride or padding; got kernel {}, stride {}, "
               "padding {}, dilation {}",
               o.kernel[at], o.stride[at], o.padding[at], o.dilation[at]);
    WEFT_CHECK(2 * o.padding[at] <= o.kernel[at], op, "padding {} is more than half of the kernel {}", o.padding[at],
               o.kernel[at]);
    const int64_t stride = o.stride[at] ? o.stride[at] : o.kernel[at];
    const int64_t room =
        x.size(static_cast<int64_t>(at) + 2) + 2 * o.padding[at] - o.dilation[at] * (o.kernel[at] - 1) - 1;
    WEFT_CHECK(room + (o.ceil_mode ? stride - 1 : 0) >= 0, op, "the window {}×{} is larger than the padded input {}",
               o.kernel[0], o.kernel[1], describe(x));
  }
  const auto stride = [&](size_t i) { return o.stride[i] ? o.stride[i] : o.kernel[i]; };
  Pooling p{.shape = {.planes = x.size(0) * x.size(1),
                      .in_height = x.size(2),
                      .in_width = x.size(3),
                      .kernel_height = o.kernel[0],
                      .kernel_width = o.kernel[1],
                      .stride_height = stride(0),
                      .stride_width = stride(1),
                      .padding_height = o.padding[0],
                      .padding_width = o.padding[1],
                      .dilation_height = o.dilation[0],
                      .dilation_width = o.dilation[1],
                      .ceil_mode = o.ceil_mode,
                      .count_include_pad = o.count_include_pad,
                      .divisor_override = o.divisor_override},
            .input = x.shape(),
            .output = {}};
  p.output = {x.size(0), x.size(1), p.shape.out_height(), p.shape.out_width()};
  return p;
}

Pooling adaptive_pooling(const char* op, const Tensor& x, std::array<int64_t, 2> size) {
  for (size_t at : {0u, 1u}) {
    const int64_t in = x.size(static_cast<int64_t>(at) + 2);
    WEFT_CHECK(size[at] >= -1, op, "expected an output size, or -1 for that of the input, got {}", size[at]);
    if (size[at] < 0) size[at] = in;
    WEFT_CHECK(in > 0 || size[at] == 0, op, "an input without elements cannot be pooled to {}: {}", size[at],
               describe(x));
  }
  return {.shape = {.planes = x.size(0) * x.size(1),
                    .in_height = x.size(2),
                    .in_width = x.size(3),
                    .adaptive = true,
                    .adaptive_height = size[0],
                    .adaptive_width = size[1]},
          .input = x.shape(),
          .output = {x.size(0), x.size(1), size[0], size[1]}};
}

// Calls f with x [N, C, H, W] in the dtype of the kernels: a single image gets a batch dimension.
template <class F>
auto with_batch(const char* op, const Tensor& x, F&& f) {
  WEFT_CHECK(x.dim() == 3 || x.dim() == 4, op, "expected [N, C, H, W] or [C, H, W], got {}", describe(x));
  const Tensor image = x.to(detail::compute_dtype_of(x, op));
  return f((image.dim() == 3 ? image.unsqueeze(0) : image).contiguous());
}
Tensor without_batch(const Tensor& y, const Tensor& x) { return x.dim() == 3 ? y.squeeze(0) : y; }

// [N, C, L] as images of height 1, and back.
Tensor as_image(const char* op, const Tensor& x) {
  WEFT_CHECK(x.dim() == 2 || x.dim() == 3, op, "expected [N, C, L] or [C, L], got {}", describe(x));
  return x.unsqueeze(-2);
}
Pool2dOptions in_2d(const Pool1dOptions& o) {
  return {.kernel = {1, o.kernel},
          .stride = {1, o.stride},
          .padding = {0, o.padding},
          .dilation = {1, o.dilation},
          .ceil_mode = o.ceil_mode,
          .count_include_pad = o.count_include_pad};
}

// A copy of the elements at `indices` of each plane; the gradient of the gradient of max pooling.
Tensor pick(const Tensor& x, const Tensor& indices, const Shape& output) {
  const Tensor planes = x.reshape({x.size(0) * x.size(1), x.size(2) * x.size(3)});
  return gather(planes, 1, indices.reshape({planes.size(0), indices.numel() / std::max<int64_t>(planes.size(0), 1)}))
      .reshape(output);
}

Tensor unpool_max(const Pooling& p, const Tensor& dy_, const Tensor& indices) {
  const Tensor dy = dy_.contiguous();
  Tensor dx = empty(p.input, dy.options());
  if (!dx.is_meta() && dx.numel() > 0)
    kernel_table(dy.device().type, "max_pool2d")
        .conv.max_pool2d_backward(current_stream(dy.device()), dy.dtype(), p.shape, dy.data(), indices.data<int64_t>(),
                                  dx.data());
  return record("max_pool2d_backward", {dy}, dx, [indices, output = p.output](Node&, const Gradients& g) -> Gradients {
    return {pick(g[0], indices, output)};
  });
}

std::pair<Tensor, Tensor> pool_max(const Pooling& p, const Tensor& x) {
  Tensor y = empty(p.output, x.options());
  const Tensor indices = empty(p.output, {.dtype = DType::i64, .device = x.device()});
  if (!y.is_meta() && y.numel() > 0)
    kernel_table(x.device().type, "max_pool2d")
        .conv.max_pool2d_forward(current_stream(x.device()), x.dtype(), p.shape, x.data(), y.data(),
                                 indices.data<int64_t>());
  y = record("max_pool2d", {x}, y,
             [p, indices](Node&, const Gradients& dy) -> Gradients { return {unpool_max(p, dy[0], indices)}; });
  return {y, indices};
}

// Average pooling is linear: it and its gradient are each other's gradients.
Tensor pool_mean(const Pooling& p, const Tensor& x);

Tensor unpool_mean(const Pooling& p, const Tensor& dy_) {
  const Tensor dy = dy_.contiguous();
  Tensor dx = empty(p.input, dy.options());
  if (!dx.is_meta() && dx.numel() > 0)
    kernel_table(dy.device().type, "avg_pool2d")
        .conv.avg_pool2d_backward(current_stream(dy.device()), dy.dtype(), p.shape, dy.data(), dx.data());
  return record("avg_pool2d_backward", {dy}, dx,
                [p](Node&, const Gradients& g) -> Gradients { return {pool_mean(p, g[0])}; });
}

Tensor pool_mean(const Pooling& p, const Tensor& x_) {
  const Tensor x = x_.contiguous();
  Tensor y = empty(p.output, x.options());
  if (!y.is_meta() && y.numel() > 0)
    kernel_table(x.device().type, "avg_pool2d")
        .conv.avg_pool2d_forward(current_stream(x.device()), x.dtype(), p.shape, x.data(), y.data());
  return record("avg_pool2d", {x}, y, [p](Node&, const Gradients& dy) -> Gradients { return {unpool_mean(p, dy[0])}; });
}

// Max pooling of x as `pooling(images)` describes it.
template <class F>
std::pair<Tensor, Tensor> pooled_max(const char* op, const Tensor& x, F&& pooling) {
  const auto [y, indices] = with_batch(op, x, [&](const Tensor& image) { return pool_max(pooling(image), image); });
  return {without_batch(y, x).to(x.dtype()), without_batch(indices, x)};
}
template <class F>
Tensor pooled_mean(const char* op, const Tensor& x, F&& pooling) {
  const Tensor y = with_batch(op, x, [&](const Tensor& image) { return pool_mean(pooling(image), image); });
  return without_batch(y, x).to(x.dtype());
}

std::pair<Tensor, Tensor> max_pool_of(const char* op, const Tensor& x, const Pool2dOptions& options) {
  return pooled_max(op, x, [&](const Tensor& image) { return pooling_of(op, image, options); });
}

Tensor avg_pool_of(const char* op, const Tensor& x, const Pool2dOptions& options) {
  WEFT_CHECK(options.dilation[0] == 1 && options.dilation[1] == 1, op, "average pooling has no dilation");
  WEFT_CHECK(options.divisor_override >= 0, op, "expected a divisor above 0, or 0 for none, got {}",
             options.divisor_override);
  return pooled_mean(op, x, [&](const Tensor& image) { return pooling_of(op, image, options); });
}

}  // namespace

std::pair<Tensor, Tensor> max_pool2d_with_indices(const Tensor& x, Pool2dOptions options) {
  return max_pool_of("max_pool2d", x, options);
}

Tensor max_pool2d(const Tensor& x, Pool2dOptions options) { return max_pool2d_with_indices(x, options).first; }

std::pair<Tensor, Tensor> max_pool1d_with_indices(const Tensor& x, Pool1dOptions options) {
  constexpr const char* op = "max_pool1d";
  const auto [y, indices] = max_pool_of(op, as_image(op, x), in_2d(options));
  return {y.squeeze(-2), indices.squeeze(-2)};
}

Tensor max_pool1d(const Tensor& x, Pool1dOptions options) { return max_pool1d_with_indices(x, options).first; }

Tensor avg_pool2d(const Tensor& x, Pool2dOptions options) { return avg_pool_of("avg_pool2d", x, options); }

Tensor avg_pool1d(const Tensor& x, Pool1dOptions options) {
  constexpr const char* op = "avg_pool1d";
  return avg_pool_of(op, as_image(op, x), in_2d(options)).squeeze(-2);
}

Tensor adaptive_avg_pool2d(const Tensor& x, std::array<int64_t, 2> output_size) {
  constexpr const char* op = "adaptive_avg_pool2d";
  detail::compute_dtype_of(x, op);  // checks that it is floating point
  // One window is a reduction, which has faster kernels.
  if (output_size[0] == 1 && output_size[1] == 1 && (x.dim() == 3 || x.dim() == 4) && x.size(-1) > 0 && x.size(-2) > 0)
    return mean(x, {-2, -1}, true);
  return pooled_mean(op, x, [&](const Tensor& image) { return adaptive_pooling(op, image, output_size); });
}

Tensor adaptive_avg_pool1d(const Tensor& x, int64_t output_size) {
  constexpr const char* op = "adaptive_avg_pool1d";
  const std::array<int64_t, 2> size{1, output_size};
  return pooled_mean(op, as_image(op, x), [&](const Tensor& image) { return adaptive_pooling(op, image, size); })
      .squeeze(-2);
}

std::pair<Tensor, Tensor> adaptive_max_pool2d_with_indices(const Tensor& x, std::array<int64_t, 2> output_size) {
  constexpr const char* op = "adaptive_max_pool2d";
  return pooled_max(op, x, [&](const Tensor& image) { return adaptive_pooling(op, image, output_size); });
}

Tensor adaptive_max_pool2d(const Tensor& x, std::array<int64_t, 2> output_size) {
  return adaptive_max_pool2d_with_indices(x, output_size).first;
}

Tensor adaptive_max_pool1d(const Tensor& x, int64_t output_size) {
  constexpr const char* op = "adaptive_max_pool1d";
  const std::array<int64_t, 2> size{1, output_size};
  return pooled_max(op, as_image(op, x), [&](const Tensor& image) { return adaptive_pooling(op, image, size); })
      .first.squeeze(-2);
}

}  // namespace weft
