#include "autograd/ops/conv.h"

#include "autograd/node.h"
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

void check_options(const char* op, const std::array<int64_t, 2>& stride, const std::array<int64_t, 2>& padding,
                   const std::array<int64_t, 2>& dilation, int64_t groups) {
  WEFT_CHECK(groups > 0, op, "expected at least one group, got {}", groups);
  for (size_t i : {0u, 1u})
    WEFT_CHECK(
        stride[i] > 0 && padding[i] >= 0 && dilation[i] > 0, op,
        "expected positive strides and dilations and no negative padding; got stride {}, dilation {}, padding {}",
        stride[i], dilation[i], padding[i]);
}

void check_bias(const char* op, const Tensor& x, const Tensor& bias, int64_t channels) {
  if (!bias.defined()) return;
  WEFT_CHECK(bias.shape() == Shape({channels}), op, "expected a bias of shape [{}], got {}", channels, describe(bias));
  detail::check_same_kind(op, x, bias);
}

// What "same" padding needs, half of it at either end; an odd zero goes to the end, by padding x.
Tensor with_same_padding(const char* op, const Tensor& x, const Shape& weight, Conv2dOptions& options) {
  std::vector<int64_t> at_end(4, 0);
  for (size_t i : {0u, 1u}) {
    WEFT_CHECK(options.stride[i] == 1, op, "same padding needs stride 1, got {}", options.stride[i]);
    const int64_t total = options.dilation[i] * (weight[static_cast<int>(i) + 2] - 1);
    options.padding[i] = total / 2;
    at_end[i == 0 ? 3 : 1] = total % 2;
  }
  return at_end[1] + at_end[3] > 0 ? pad(x, at_end) : x;
}

// conv2d of x [N, C, H, W] in the dtype of the kernels.
Tensor convolve_images(const char* op, const Tensor& x_, const Tensor& weight, const Tensor& bias,
                       Conv2dOptions options) {
  detail::check_same_kind(op, x_, weight);
  check_options(op, options.stride, options.padding, options.dilation, options.groups);
  WEFT_CHECK(weight.dim() == 4 && weight.size(0) % options.groups == 0 && x_.size(1) == weight.size(1) * options.groups,
             op, "input {} does not fit weight {} in {} groups: expected {} input channels", describe(x_),
             describe(weight), options.groups, weight.dim() == 4 ? weight.size(1) * options.groups : 0);
  check_bias(op, x_, bias, weight.size(0));
  const Tensor x = options.same_padding ? with_same_padding(op, x_, weight.shape(), options) : x_;
  for (size_t i : {0u, 1u}) {
    const auto d = static_cast<int64_t>(i) + 2;
    WEFT_CHECK(x.size(d) + 2 * options.padding[i] >= options.dilation[i] * (weight.size(d) - 1) + 1, op,
               "the kernel {} is larger than the padded input {}", describe(weight), describe(x));
  }
  Convolution c{.shape = shape_of(x.shape(), weight.shape(), options),
                .input = x.shape(),
                .weight = weight.shape(),
                .output = {}};
  c.output = {x.size(0), weight.size(0), c.shape.out_height(), c.shape.out_width()};
  return convolve(c, x, weight, bias);
}

// The same for conv_transpose2d.
Tensor transpose_images(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose2dOptions& options) {
  detail::check_same_kind(op, x, weight);
  check_options(op, options.stride, options.padding, options.dilation, options.groups);
  WEFT_CHECK(weight.dim() == 4 && x.size(1) == weight.size(0) && x.size(1) % options.groups == 0, op,
             "input {} does not fit weight {} in {} groups: expected {} input channels", describe(x), describe(weight),
             options.groups, weight.dim() == 4 ? weight.size(0) : 0);
  const int64_t channels = weight.size(1) * options.groups;
  check_bias(op, x, bias, channels);
  std::array<int64_t, 2> size{};
  std::vector<int64_t> beyond(4, 0);
  for (size_t i : {0u, 1u}) {
    const auto d = static_cast<int64_t>(i) + 2;
    const int64_t stride = options.stride[i], dilation = options.dilation[i];
    int64_t extra = options.output_padding[i];
    WEFT_CHECK(extra >= 0 && (extra < stride || extra < dilation), op,
               "expected an output padding below the stride {} or the dilation {}, got {}", stride, dilation, extra);
    // What is more than a stride would be another window of the convolution: it gets nothing but zeros.
    beyond[i == 0 ? 3 : 1] = std::max<int64_t>(0, extra - (stride - 1));
    extra = std::min(extra, stride - 1);
    size[i] = (x.size(d) - 1) * stride - 2 * options.padding[i] + dilation * (weight.size(d) - 1) + extra + 1;
    WEFT_CHECK(x.size(d) > 0 && size[i] > 0, op, "{} with weight {} and padding {} leaves nothing", describe(x),
               describe(weight), options.padding[i]);
  }
  Convolution c{
      .shape = {}, .input = {x.size(0), channels, size[0], size[1]}, .weight = weight.shape(), .output = x.shape()};
  c.shape = shape_of(
      c.input, c.weight,
      {.stride = options.stride, .padding = options.padding, .dilation = options.dilation, .groups = options.groups});
  Tensor y = to_input(c, x, weight);
  if (beyond[1] + beyond[3] > 0) y = pad(y, beyond);
  return bias.defined() ? y + bias.reshape({channels, 1, 1}) : y;
}

// Calls f with x [N, C, H, W], weight and bias in the dtype of the kernels; a single image gets a batch dimension.
template <class F>
Tensor on_images(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias, F&& f) {
  WEFT_CHECK(x.dim() == 3 || x.dim() == 4, op, "expected [N, C, H, W] or [C, H, W], got {}", describe(x));
  const DType compute = detail::compute_dtype_of(x, op);
  WEFT_CHECK(weight.dtype() == x.dtype(), op, "dtypes differ: {} and {}", describe(x), describe(weight));
  WEFT_CHECK(!bias.defined() || bias.dtype() == x.dtype(), op, "dtypes differ: {} and {}", describe(x), describe(bias));
  const Tensor image = x.to(compute);
  const Tensor y =
      f(x.dim() == 3 ? image.unsqueeze(0) : image, weight.to(compute), bias.defined() ? bias.to(compute) : bias);
  return (x.dim() == 3 ? y.squeeze(0) : y).to(x.dtype());
}

void check_1d(const char* op, const Tensor& x, const Tensor& weight) {
  WEFT_CHECK(x.dim() == 2 || x.dim() == 3, op, "expected [N, C, L] or [C, L], got {}", describe(x));
  WEFT_CHECK(weight.dim() == 3, op, "expected a weight of three dimensions, got {}", describe(weight));
}

Tensor conv_of(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias,
               const Conv2dOptions& options) {
  return on_images(op, x, weight, bias, [&](const Tensor& image, const Tensor& w, const Tensor& b) {
    return convolve_images(op, image, w, b, options);
  });
}
Tensor conv_transpose_of(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias,
                         const ConvTranspose2dOptions& options) {
  return on_images(op, x, weight, bias, [&](const Tensor& image, const Tensor& w, const Tensor& b) {
    return transpose_images(op, image, w, b, options);
  });
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, Conv2dOptions options) {
  return conv_of("conv2d", x, weight, bias, options);
}

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, Conv1dOptions o) {
  constexpr const char* op = "conv1d";
  check_1d(op, x, weight);
  // Images of height 1.
  return conv_of(op, x.unsqueeze(-2), weight.unsqueeze(-2), bias,
                 {.stride = {1, o.stride},
                  .padding = {0, o.padding},
                  .dilation = {1, o.dilation},
                  .groups = o.groups,
                  .same_padding = o.same_padding})
      .squeeze(-2);
}

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias, ConvTranspose2dOptions options) {
  return conv_transpose_of("conv_transpose2d", x, weight, bias, options);
}

Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias, ConvTranspose1dOptions o) {
  constexpr const char* op = "conv_transpose1d";
  check_1d(op, x, weight);
  return conv_transpose_of(op, x.unsqueeze(-2), weight.unsqueeze(-2), bias,
                           {.stride = {1, o.stride},
                            .padding = {0, o.padding},
                            .output_padding = {0, o.output_padding},
                            .dilation = {1, o.dilation},
                            .groups = o.groups})
      .squeeze(-2);
}

}  // namespace weft
