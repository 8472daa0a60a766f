#include "autograd/ops/conv.h"

#include "autograd/functional.h"
#include "autograd/ops/common.h"
#include "autograd/ops/ops.h"
#include "kernels/table.h"

namespace weft {
namespace {

Conv2dShape shape_of(const Shape& x, const Shape& w, const Conv2dOptions& o) {
  return {.batch = x[0],
          .in_channels = x[1],
          .in_height = x[2],
          .in_width = x[3],
          .out_channels = w[0],
          .kernel_height = w[2],
          .kernel_width = w[3],
          .stride_height = o.stride[0],
          .stride_width = o.stride[1],
          .padding_height = o.padding[0],
          .padding_width = o.padding[1],
          .dilation_height = o.dilation[0],
          .dilation_width = o.dilation[1],
          .groups = o.groups};
}

// Convolution is linear in each operand. It, and its two gradients, are each other's gradients, so double backward
// needs nothing more: y = C(x, w), dx = I(dy, w), dw = W(x, dy).
struct Convolution {
  Conv2dShape shape;
  Shape input, weight, output;
};

Tensor convolve(const Convolution& c, const Tensor& x, const Tensor& w, const Tensor& bias = {});
Tensor to_input(const Convolution& c, const Tensor& dy, const Tensor& w);
std::pair<Tensor, Tensor> to_weight(const Convolution& c, const Tensor& x, const Tensor& dy, bool with_bias);

Tensor bias_gradient(const Tensor& dy) { return sum(dy, {0, 2, 3}); }

Tensor convolve(const Convolution& c, const Tensor& x_, const Tensor& w_, const Tensor& bias_) {
  const Tensor x = x_.contiguous(), w = w_.contiguous();
  const Tensor bias = bias_.defined() ? bias_.contiguous() : bias_;
  Tensor y = empty(c.output, x.options());
  if (!y.is_meta() && y.numel() > 0)
    kernel_table(x.device().type, "conv2d")
        .conv.conv2d_forward(current_stream(x.device()), x.dtype(), c.shape, x.data(), w.data(),
                             bias.defined() ? bias.data() : nullptr, y.data());
  return record("conv2d", {x, w, bias}, y,
                [c, x = Saved(x), w = Saved(w)](Node& node, const Gradients& dy) -> Gradients {
                  Gradients result(3);
                  const bool bias = node.needs_input_grad(2);
                  if (node.needs_input_grad(0)) result[0] = to_input(c, dy[0], w.get(node));
                  if (node.needs_input_grad(1))
                    std::tie(result[1], result[2]) = to_weight(c, x.get(node), dy[0], bias);
                  else if (bias)
                    result[2] = bias_gradient(dy[0]);
                  return result;
                });
}

Tensor to_input(const Convolution& c, const Tensor& dy_, const Tensor& w_) {
  const Tensor dy = dy_.contiguous(), w = w_.contiguous();
  Tensor dx = empty(c.input, dy.options());
  if (!dx.is_meta() && dx.numel() > 0)
    kernel_table(dy.device().type, "conv2d")
        .conv.conv2d_backward_input(current_stream(dy.device()), dy.dtype(), c.shape, dy.data(), w.data(), dx.data());
  return record("conv2d_backward_input", {dy, w}, dx,
                [c, dy = Saved(dy), w = Saved(w)](Node& node, const Gradients& g) -> Gradients {
                  Gradients result(2);
                  if (node.needs_input_grad(0)) result[0] = convolve(c, g[0], w.get(node));
                  if (node.needs_input_grad(1)) result[1] = to_weight(c, g[0], dy.get(node), false).first;
                  return result;
                });
}

std::pair<Tensor, Tensor> to_weight(const Convolution& c, const Tensor& x_, const Tensor& dy_, bool with_bias) {
  const Tensor x = x_.contiguous(), dy = dy_.contiguous();
  Tensor dw = empty(c.weight, dy.options()), db;
  const bool fused_bias = with_bias && !GradMode::enabled();  // the bias's gradient must stay differentiable otherwise
  if (fused_bias) db = empty({c.weight[0]}, dy.options());
  if (!dw.is_meta())
    kernel_table(dy.device().type, "conv2d")
        .conv.conv2d_backward_weight(current_stream(dy.device()), dy.dtype(), c.shape, x.data(), dy.data(), dw.data(),
                                     fused_bias ? db.data() : nullptr);
  if (with_bias && !fused_bias) db = bias_gradient(dy);
  dw = record("conv2d_backward_weight", {x, dy}, dw,
              [c, x = Saved(x), dy = Saved(dy)](Node& node, const Gradients& g) -> Gradients {
                Gradients result(2);
                if (node.needs_input_grad(0)) result[0] = to_input(c, dy.get(node), g[0]);
                if (node.needs_input_grad(1)) result[1] = convolve(c, x.get(node), g[0]);
                return result;
              });
  return {dw, db};
}

struct Pooling {
  Pool2dShape shape;
  Shape output;
};

Pooling pooling_of(const char* op, const Tensor& x, const Pool2dOptions& o) {
  for (int i : {0, 1}) {
    const auto at = static_cast<size_t>(i);
    WEFT_CHECK(o.kernel[at] > 0 && o.stride[at] >= 0 && o.padding[at] >= 0 && o.dilation[at] > 0, op,
               "expected a positive kernel and dilation and no negative stride or padding; got kernel {}, stride {}, "
               "padding {}, dilation {}",
               o.kernel[at], o.stride[at], o.padding[at], o.dilation[at]);
    WEFT_CHECK(2 * o.padding[at] <= o.kernel[at], op, "padding {} is more than half of the kernel {}", o.padding[at],
               o.kernel[at]);
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
                      .count_include_pad = o.count_include_pad},
            .output = {}};
  WEFT_CHECK(x.size(2) + 2 * o.padding[0] >= o.dilation[0] * (o.kernel[0] - 1) + 1 &&
                 x.size(3) + 2 * o.padding[1] >= o.dilation[1] * (o.kernel[1] - 1) + 1,
             op, "the window {}×{} is larger than the padded input {}", o.kernel[0], o.kernel[1], describe(x));
  p.output = {x.size(0), x.size(1), p.shape.out_height(), p.shape.out_width()};
  return p;
}

// Adds the batch dimension to a single image and takes it away again.
template <class F>
auto batched(const char* op, const Tensor& x, F&& f) {
  WEFT_CHECK(x.dim() == 3 || x.dim() == 4, op, "expected [N, C, H, W] or [C, H, W], got {}", describe(x));
  return f(x.dim() == 3 ? x.unsqueeze(0) : x);
}
Tensor like_input(const Tensor& y, const Tensor& x) { return x.dim() == 3 ? y.squeeze(0) : y; }

// A copy of the elements at `indices` of each plane; the gradient of the gradient of max pooling.
Tensor pick(const Tensor& x, const Tensor& indices, const Shape& output) {
  const Tensor planes = x.reshape({x.size(0) * x.size(1), x.size(2) * x.size(3)});
  return gather(planes, 1, indices.reshape({planes.size(0), indices.numel() / std::max<int64_t>(planes.size(0), 1)}))
      .reshape(output);
}

Tensor unpool_max(const Pooling& p, const Shape& input, const Tensor& dy_, const Tensor& indices) {
  const Tensor dy = dy_.contiguous();
  Tensor dx = empty(input, dy.options());
  if (!dx.is_meta() && dx.numel() > 0)
    kernel_table(dy.device().type, "max_pool2d")
        .conv.max_pool2d_backward(current_stream(dy.device()), dy.dtype(), p.shape, dy.data(), indices.data<int64_t>(),
                                  dx.data());
  return record(
      "max_pool2d_backward", {dy}, dx,
      [indices, output = dy.shape()](Node&, const Gradients& g) -> Gradients { return {pick(g[0], indices, output)}; });
}

Tensor pool_mean(const Pooling& p, const Tensor& x);

Tensor unpool_mean(const Pooling& p, const Shape& input, const Tensor& dy_) {
  const Tensor dy = dy_.contiguous();
  Tensor dx = empty(input, dy.options());
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
  return record("avg_pool2d", {x}, y, [p, input = x.shape()](Node&, const Gradients& dy) -> Gradients {
    return {unpool_mean(p, input, dy[0])};
  });
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, Conv2dOptions options) {
  constexpr const char* op = "conv2d";
  if (const DType compute = detail::compute_dtype_of(x, op); compute != x.dtype())
    return conv2d(x.to(compute), weight.to(compute), bias.defined() ? bias.to(compute) : bias, options).to(x.dtype());
  return like_input(
      batched(op, x,
              [&](const Tensor& image) {
                detail::check_same_kind(op, x, weight);
                WEFT_CHECK(options.groups > 0 && weight.dim() == 4 && weight.size(0) % options.groups == 0 &&
                               image.size(1) == weight.size(1) * options.groups,
                           op, "input {} does not fit weight {} in {} groups: expected {} input channels", describe(x),
                           describe(weight), options.groups, weight.dim() == 4 ? weight.size(1) * options.groups : 0);
                WEFT_CHECK(!bias.defined() || bias.shape() == Shape({weight.size(0)}), op,
                           "expected a bias of shape [{}], got {}", weight.size(0), describe(bias));
                for (size_t i : {0u, 1u}) {
                  const auto d = static_cast<int64_t>(i) + 2;
                  WEFT_CHECK(options.stride[i] > 0 && options.padding[i] >= 0 && options.dilation[i] > 0, op,
                             "expected positive strides and dilations and no negative padding; got {}, {}, {}",
                             options.stride[i], options.dilation[i], options.padding[i]);
                  WEFT_CHECK(image.size(d) + 2 * options.padding[i] >= options.dilation[i] * (weight.size(d) - 1) + 1,
                             op, "the kernel {} is larger than the padded input {}", describe(weight), describe(x));
                }
                Convolution c{.shape = shape_of(image.shape(), weight.shape(), options),
                              .input = image.shape(),
                              .weight = weight.shape(),
                              .output = {}};
                c.output = {image.size(0), weight.size(0), c.shape.out_height(), c.shape.out_width()};
                return convolve(c, image, weight, bias);
              }),
      x);
}

std::pair<Tensor, Tensor> max_pool2d_with_indices(const Tensor& x_, Pool2dOptions options) {
  constexpr const char* op = "max_pool2d";
  if (const DType compute = detail::compute_dtype_of(x_, op); compute != x_.dtype()) {
    auto [y, indices] = max_pool2d_with_indices(x_.to(compute), options);
    return {y.to(x_.dtype()), indices};
  }
  auto [y, indices] = batched(op, x_, [&](const Tensor& image) {
    const Tensor x = image.contiguous();
    const Pooling p = pooling_of(op, x, options);
    Tensor y = empty(p.output, x.options());
    Tensor indices = empty(p.output, {.dtype = DType::i64, .device = x.device()});
    if (!y.is_meta() && y.numel() > 0)
      kernel_table(x.device().type, op)
          .conv.max_pool2d_forward(current_stream(x.device()), x.dtype(), p.shape, x.data(), y.data(),
                                   indices.data<int64_t>());
    y = record(op, {x}, y, [p, indices, input = x.shape()](Node&, const Gradients& dy) -> Gradients {
      return {unpool_max(p, input, dy[0], indices)};
    });
    return std::pair(y, indices);
  });
  return {like_input(y, x_), like_input(indices, x_)};
}

Tensor max_pool2d(const Tensor& x, Pool2dOptions options) { return max_pool2d_with_indices(x, options).first; }

Tensor avg_pool2d(const Tensor& x, Pool2dOptions options) {
  constexpr const char* op = "avg_pool2d";
  if (const DType compute = detail::compute_dtype_of(x, op); compute != x.dtype())
    return avg_pool2d(x.to(compute), options).to(x.dtype());
  WEFT_CHECK(options.dilation[0] == 1 && options.dilation[1] == 1, op, "average pooling has no dilation");
  return like_input(
      batched(op, x, [&](const Tensor& image) { return pool_mean(pooling_of(op, image, options), image); }), x);
}

}  // namespace weft
