// Which elements of the input an element of a resized axis is made of. constexpr, so that it can be called on either side.
#pragma once
#include <cstdint>

#include "kernels/resample/resample.h"

namespace weft {

// Output = sum over k < count of weight[k] · input[position(k)].
struct ResampleTaps {
  int64_t first = 0;
  int64_t last_of_input = 0;
  int count = 1;
  double weight[4] = {1, 0, 0, 0};

  // Beyond the ends the first and last elements repeat.
  constexpr int64_t position(int k) const {
    const int64_t p = first + k;
    return p < 0 ? 0 : p > last_of_input ? last_of_input : p;
  }
};

namespace detail {

template <class T>
constexpr int64_t floor_of(T x) {
  const auto truncated = static_cast<int64_t>(x);
  return static_cast<T>(truncated) > x ? truncated - 1 : truncated;
}

// Keys' kernel at a distance of at most 1, and between 1 and 2.
constexpr double cubic_near(double t) { return ((1.25 * t) - 2.25) * t * t + 1; }
constexpr double cubic_far(double t) { return ((-0.75 * t + 3.75) * t - 6) * t + 3; }

}  // namespace detail

constexpr ResampleTaps resample_taps(const ResampleShape& s, int64_t o) {
  ResampleTaps taps;
  taps.last_of_input = s.in - 1;
  if (s.mode == ResampleMode::nearest || s.mode == ResampleMode::nearest_exact) {
    // In f32: a rounding decides which element is taken, and it has to be the same one everywhere.
    const float offset = s.mode == ResampleMode::nearest ? 0.0f : 0.5f;
    taps.first = detail::floor_of((static_cast<float>(o) + offset) * static_cast<float>(s.scale));
    return taps;
  }
  const auto place = static_cast<double>(o);
  double at = s.align_corners ? place * s.scale : (place + 0.5) * s.scale - 0.5;
  if (s.mode == ResampleMode::linear) {
    if (at < 0) at = 0;
    taps.first = detail::floor_of(at);
    if (taps.first > s.in - 1) taps.first = s.in - 1;
    const double t = at - static_cast<double>(taps.first);
    if (t <= 0 || taps.first == s.in - 1) return taps;
    taps.count = 2;
    taps.weight[0] = 1 - t;
    taps.weight[1] = t;
    return taps;
  }
  const int64_t floor = detail::floor_of(at);
  const double t = at - static_cast<double>(floor);
  taps.first = floor - 1;
  taps.count = 4;
  taps.weight[0] = detail::cubic_far(t + 1);
  taps.weight[1] = detail::cubic_near(t);
  taps.weight[2] = detail::cubic_near(1 - t);
  taps.weight[3] = detail::cubic_far(2 - t);
  return taps;
}

}  // namespace weft
