// Rows of convolution, pooling, resizing, and windows as columns.
#include "tests/autograd/op_cases.h"

namespace weft::testing {
namespace {

const char* const kEdges = "what an infinity touches depends on the algorithm of a convolution";

void add_row(std::vector<OpCase>& cases, std::string name, std::vector<std::string> covers, std::vector<OpInput> inputs,
             OpCall call, std::vector<std::vector<Shape>> also = {}) {
  cases.push_back({.name = std::move(name),
                   .covers = std::move(covers),
                   .inputs = std::move(inputs),
                   .call = std::move(call),
                   .also = std::move(also),
                   .tolerance = {1e-4, 1e-4}});
}

// Sums of many products: values below 1, so that what f16 and bf16 lose stays small.
OpInput small(Shape shape) { return real(std::move(shape), -1, 1); }

void add_convolutions(std::vector<OpCase>& cases) {
  const auto add = [&](std::string name, std::string covers, std::vector<OpInput> inputs, OpCall call,
                       std::vector<std::vector<Shape>> also = {}) {
    add_row(cases, std::move(name), {std::move(covers)}, std::move(inputs), std::move(call), std::move(also));
    cases.back().no_special = kEdges;
    cases.back().tolerance = {1e-4, 2e-3};  // a weight's gradient is a sum over all windows of all images
  };
  const std::vector<OpInput> images = {small({2, 2, 5, 6}), small({3, 2, 3, 2}), small({3})};
  add("conv2d", "conv2d", images, [](In in) { return conv2d(in[0], in[1], in[2]); },
      {{{2, 5, 6}, {3, 2, 3, 2}, {3}}, {{0, 2, 5, 6}, {3, 2, 3, 2}, {3}}, {{3, 8, 15, 16}, {16, 8, 3, 3}, {16}}});
  add("conv2d_spread", "conv2d", images, [](In in) {
    return conv2d(in[0], in[1], in[2], {.stride = {2, 1}, .padding = {1, 2}, .dilation = {1, 2}});
  });
  add("conv2d_grouped", "conv2d", {small({1, 4, 4, 4}), small({6, 2, 2, 2})}, [](In in) {
    return conv2d(in[0], in[1], {}, {.padding = {1, 0}, .groups = 2});
  });
  add("conv2d_same", "conv2d", images, [](In in) {
    return conv2d(in[0], in[1], in[2], {.dilation = {1, 3}, .same_padding = true});
  });
  const std::vector<OpInput> sequences = {small({2, 4, 7}), small({6, 2, 3}), small({6})};
  add("conv1d", "conv1d", sequences,
      [](In in) { return conv1d(in[0], in[1], in[2], {.stride = 2, .padding = 2, .dilation = 2, .groups = 2}); },
      {{{4, 7}, {6, 2, 3}, {6}}, {{0, 4, 7}, {6, 2, 3}, {6}}, {{3, 8, 70}, {16, 4, 5}, {16}}});
  add("conv1d_same", "conv1d", {small({2, 3, 6}), small({4, 3, 2})},
      [](In in) { return conv1d(in[0], in[1], {}, {.same_padding = true}); });
  add("conv_transpose2d", "conv_transpose2d", {small({2, 3, 3, 4}), small({3, 2, 3, 2}), small({2})},
      [](In in) { return conv_transpose2d(in[0], in[1], in[2]); },
      {{{3, 3, 4}, {3, 2, 3, 2}, {2}}, {{0, 3, 3, 4}, {3, 2, 3, 2}, {2}}, {{3, 8, 9, 10}, {8, 16, 3, 3}, {16}}});
  add("conv_transpose2d_spread", "conv_transpose2d", {small({2, 4, 3, 2}), small({4, 3, 3, 2}), small({6})}, [](In in) {
    return conv_transpose2d(
        in[0], in[1], in[2],
        {.stride = {2, 1}, .padding = {1, 0}, .output_padding = {1, 1}, .dilation = {1, 3}, .groups = 2});
  });
  cases.back().fixed_sizes = "the bias has as many elements as groups times the weight's second dimension";
  add("conv_transpose1d", "conv_transpose1d", {small({2, 4, 5}), small({4, 3, 3}), small({6})},
      [](In in) {
        return conv_transpose1d(in[0], in[1], in[2], {.stride = 3, .padding = 1, .output_padding = 2, .groups = 2});
      },
      {{{4, 5}, {4, 3, 3}, {6}}, {{0, 4, 5}, {4, 3, 3}, {6}}});
  cases.back().fixed_sizes = "the bias has as many elements as groups times the weight's second dimension";
}

void add_pools(std::vector<OpCase>& cases) {
  const std::vector<std::vector<Shape>> image_shapes = {{{2, 5, 6}}, {{0, 2, 5, 6}}, {{3, 4, 20, 21}}};
  const std::vector<std::vector<Shape>> sequence_shapes = {{{3, 8}}, {{0, 3, 8}}, {{3, 4, 70}}};
  add_row(
      cases, "max_pool2d", {"max_pool2d", "max_pool2d_with_indices"}, {distinct({2, 2, 5, 6})},
      [](In in) {
        std::vector<Tensor> all =
            listed(max_pool2d_with_indices(in[0], {.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 0}}));
        all.push_back(max_pool2d(in[0]));
        return all;
      },
      image_shapes);
  add_row(cases, "max_pool2d_dilated", {"max_pool2d"}, {distinct({1, 2, 6, 7})}, [](In in) {
    return max_pool2d(in[0], {.kernel = {2, 2}, .stride = {1, 2}, .dilation = {2, 3}, .ceil_mode = true});
  });
  add_row(
      cases, "max_pool1d", {"max_pool1d", "max_pool1d_with_indices"}, {distinct({2, 3, 8})},
      [](In in) {
        std::vector<Tensor> all =
            listed(max_pool1d_with_indices(in[0], {.kernel = 3, .stride = 2, .padding = 1, .ceil_mode = true}));
        all.push_back(max_pool1d(in[0], {.kernel = 2, .dilation = 2}));
        return all;
      },
      sequence_shapes);
  add_row(
      cases, "avg_pool2d", {"avg_pool2d"}, {real({2, 2, 5, 6})},
      [](In in) {
        return std::vector<Tensor>{
            avg_pool2d(in[0], {.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 1}, .ceil_mode = true}),
            avg_pool2d(in[0], {.kernel = {2, 2}, .padding = {1, 1}, .count_include_pad = false}),
            avg_pool2d(in[0], {.kernel = {2, 3}, .padding = {0, 1}, .divisor_override = 5})};
      },
      image_shapes);
  cases.back().no_special = kEdges;
  add_row(
      cases, "avg_pool1d", {"avg_pool1d"}, {real({2, 3, 8})},
      [](In in) {
        return std::vector<Tensor>{avg_pool1d(in[0], {.kernel = 3, .stride = 2, .padding = 1, .ceil_mode = true}),
                                   avg_pool1d(in[0], {.padding = 1, .count_include_pad = false})};
      },
      sequence_shapes);
  add_row(
      cases, "adaptive_avg_pool2d", {"adaptive_avg_pool2d"}, {real({2, 2, 5, 6})},
      [](In in) {
        return std::vector<Tensor>{adaptive_avg_pool2d(in[0], {3, 4}), adaptive_avg_pool2d(in[0], {1, -1}),
                                   adaptive_avg_pool2d(in[0], {7, 8})};
      },
      image_shapes);
  add_row(
      cases, "adaptive_avg_pool1d", {"adaptive_avg_pool1d"}, {real({2, 3, 8})},
      [](In in) { return adaptive_avg_pool1d(in[0], 3); }, sequence_shapes);
  add_row(
      cases, "adaptive_max_pool2d", {"adaptive_max_pool2d", "adaptive_max_pool2d_with_indices"},
      {distinct({2, 2, 5, 6})},
      [](In in) {
        std::vector<Tensor> all = listed(adaptive_max_pool2d_with_indices(in[0], {3, 4}));
        all.push_back(adaptive_max_pool2d(in[0], {-1, 1}));
        return all;
      },
      image_shapes);
  add_row(
      cases, "adaptive_max_pool1d", {"adaptive_max_pool1d"}, {distinct({2, 3, 8})},
      [](In in) { return adaptive_max_pool1d(in[0], 5); }, sequence_shapes);
}

void add_windows(std::vector<OpCase>& cases) {
  add_row(cases, "im2col", {"im2col"}, {real({2, 3, 5, 6})},
          [](In in) {
            return std::vector<Tensor>{
                im2col(in[0], {.kernel = {2, 3}}),
                im2col(in[0], {.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 2}, .dilation = {1, 2}})};
          },
          {{{3, 5, 6}}, {{0, 3, 5, 6}}, {{2, 4, 20, 21}}});
  add_row(cases, "col2im", {"col2im"}, {real({2, 18, 21})},
          [](In in) {
            return col2im(in[0], {5, 6}, {.kernel = {3, 2}, .stride = {1, 1}, .padding = {1, 2}, .dilation = {2, 3}});
          },
          {{{18, 21}}, {{0, 18, 21}}});
  cases.back().fixed_sizes = "the number of columns follows from the size of the image";
}

void add_resizing(std::vector<OpCase>& cases) {
  const auto add = [&](std::string name, std::vector<OpInput> inputs, OpCall call,
                       std::vector<std::vector<Shape>> also = {}) {
    add_row(cases, "interpolate_" + name, {"interpolate"}, std::move(inputs), std::move(call), std::move(also));
  };
  const auto modes = [](In in, Shape size, const std::string& linear) {
    return std::vector<Tensor>{interpolate(in[0], {.size = size}),
                               interpolate(in[0], {.size = size, .mode = "nearest-exact"}),
                               interpolate(in[0], {.size = size, .mode = linear}),
                               interpolate(in[0], {.size = size, .mode = linear, .align_corners = true})};
  };
  const OpInput image = real({2, 2, 5, 6});
  add("sequence", {real({2, 3, 7})}, [=](In in) { return modes(in, {10}, "linear"); }, {{{0, 3, 7}}, {{2, 3, 1}}});
  add("larger", {image},
      [=](In in) {
        return modes(in, {7, 12}, "bilinear");
      },
      {{{0, 2, 5, 6}}, {{2, 3, 1, 1}}, {{1, 2, 40, 33}}});
  add("smaller", {image}, [=](In in) { return modes(in, {3, 1}, "bilinear"); });
  add("volume", {real({1, 2, 2, 3, 4})}, [=](In in) { return modes(in, {3, 2, 6}, "trilinear"); });
  add("cubic", {image},
      [](In in) {
        return std::vector<Tensor>{
            interpolate(in[0], {.size = {8, 4}, .mode = "bicubic"}),
            interpolate(in[0], {.scale_factor = {0.7, 2.3}, .mode = "bicubic", .align_corners = true})};
      },
      {{{1, 1, 2, 2}}, {{1, 2, 40, 33}}});
  add("by_factor", {image}, [](In in) {
    return std::vector<Tensor>{
        interpolate(in[0], {.scale_factor = {1.5}}),
        interpolate(in[0], {.scale_factor = {1.5, 0.6}, .mode = "bilinear"}),
        interpolate(in[0], {.scale_factor = {1.3, 2}, .mode = "bilinear", .recompute_scale_factor = true})};
  });
  add("area", {image}, [](In in) { return interpolate(in[0], {.size = {3, 4}, .mode = "area"}); });
}

}  // namespace

std::vector<OpCase> image_cases() {
  std::vector<OpCase> cases;
  add_convolutions(cases);
  add_pools(cases);
  add_windows(cases);
  add_resizing(cases);
  return cases;
}

}  // namespace weft::testing
