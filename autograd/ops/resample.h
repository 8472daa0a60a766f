// Resizing sequences, images and volumes.
//
//   Tensor larger = interpolate(x, {.size = {56, 56}, .mode = "bilinear"});
//   Tensor doubled = interpolate(x, {.scale_factor = {2}});                  // nearest; all spatial dimensions
#pragma once
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace weft {

struct InterpolateOptions {
  Shape size{};                         // of the spatial dimensions; either this or
  std::vector<double> scale_factor{};   // their factors, one for all or one each: the new sizes are rounded down
  std::string mode = "nearest";         // see interpolate()
  bool align_corners = false;           // the centres of the corner elements coincide, else their outer borders do
  bool recompute_scale_factor = false;  // take the factors from the rounded sizes
};

// x [N, C, …] with one to three spatial dimensions, resized to [N, C, size…]. Modes:
//   "nearest"        the element at o · in / out, rounded down, for the output element o
//   "nearest-exact"  the one nearest to the centre, at (o + 1/2) · in / out
//   "linear", "bilinear", "trilinear"   two neighbours in each of the one, two or three dimensions
//   "bicubic"        four in each of two dimensions (Keys 1981, a = -0.75)
//   "area"           adaptive_avg_pool of one or two dimensions
// With a scale factor and without recompute_scale_factor, 1 / factor stands for in / out. f64, f32, f16 or bf16.
Tensor interpolate(const Tensor& x, InterpolateOptions options);

}  // namespace weft
