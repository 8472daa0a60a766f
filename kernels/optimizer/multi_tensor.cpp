#include "kernels/optimizer/multi_tensor.h"

#include <cmath>

#include "kernels/optimizer/pieces.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizer/multi_tensor.cpp"
#include "kernels/base/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/base/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

// In f64: two chains a vector of floats.
double square_tile(const float* x, int64_t n) {
  const hn::ScalableTag<double> dd;
  const hn::Rebind<float, decltype(dd)> df;
  const auto lanes = static_cast<int64_t>(hn::Lanes(dd));
  auto s0 = hn::Zero(dd), s1 = s0, s2 = s0, s3 = s0;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    const auto a = hn::PromoteTo(dd, hn::LoadU(df, x + i));
    const auto b = hn::PromoteTo(dd, hn::LoadU(df, x + i + lanes));
    const auto c = hn::PromoteTo(dd, hn::LoadU(df, x + i + 2 * lanes));
    const auto e = hn::PromoteTo(dd, hn::LoadU(df, x + i + 3 * lanes));
    s0 = hn::MulAdd(a, a, s0);
    s1 = hn::MulAdd(b, b, s1);
    s2 = hn::MulAdd(c, c, s2);
    s3 = hn::MulAdd(e, e, s3);
  }
  double sum = hn::GetLane(hn::SumOfLanes(dd, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
  for (; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

void scale_tile(float* x, int64_t n, float factor) {
  const FloatTag d;
  const auto scale = hn::Set(d, factor);
  for_row(d, n, [&](auto load, auto store, int64_t i) HWY_ATTR { store(hn::Mul(load(x + i, 0.0f), scale), x + i); });
}

// True if all results are finite: 0 times anything else is NaN.
bool unscale_tile(float* x, int64_t n, float factor) {
  const FloatTag d;
  const auto scale = hn::Set(d, factor);
  auto zeros = hn::Zero(d);
  for_row(d, n, [&](auto load, auto store, int64_t i) HWY_ATTR {
    const auto scaled = hn::Mul(load(x + i, 0.0f), scale);
    zeros = hn::MulAdd(scaled, hn::Zero(d), zeros);
    store(scaled, x + i);
  });
  return sum_lanes(d, zeros) == 0;
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
namespace {

WEFT_EXPORT(square_tile);
WEFT_EXPORT(scale_tile);
WEFT_EXPORT(unscale_tile);

struct Partials;

double square_piece(const float* x, int64_t n) { return WEFT_DISPATCH(square_tile)(x, n); }
double square_piece(const double* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
  return sum;
}

double larger(double a, double b) { return a > b || std::isnan(a) ? a : b; }

// The sum of |x|^p, or the largest |x|.
template <class C>
double power_piece(double p, const C* x, int64_t n) {
  if (p == 2) return square_piece(x, n);
  double sum = 0;
  const auto each = [&](auto f) {
    for (int64_t i = 0; i < n; ++i) sum += f(std::abs(static_cast<double>(x[i])));
  };
  if (std::isinf(p))
    for (int64_t i = 0; i < n; ++i) sum = larger(sum, std::abs(static_cast<double>(x[i])));
  else if (p == 1)
    each([](double a) { return a; });
  else if (p == 0)
    each([](double a) { return std::isnan(a) ? a : static_cast<double>(a != 0); });
  else
    each([p](double a) { return std::pow(a, p); });
  return sum;
}
double power_piece(double p, const void* data, DType dtype, int64_t at, int64_t n) {
  double sum = 0;
  visit_parameter(dtype, "norm", [&](auto type) {
    using T = typename decltype(type)::type;
    const T* x = static_cast<const T*>(data) + at;
    if constexpr (std::is_same_v<T, ComputeOf<T>>) {
      sum = power_piece(p, x, n);
    } else {
      float block[kHalfBlock];
      for (int64_t i = 0; i < n; i += kHalfBlock) {
        const int64_t m = std::min(kHalfBlock, n - i);
        widen(x + i, block, m);
        const double part = power_piece(p, static_cast<const float*>(block), m);
        sum = std::isinf(p) ? larger(sum, part) : sum + part;
      }
    }
  });
  return sum;
}

bool unscale_piece(float* x, int64_t n, double factor) {
  return WEFT_DISPATCH(unscale_tile)(x, n, static_cast<float>(factor));
}
bool unscale_piece(double* x, int64_t n, double factor) {
  double zeros = 0;
  for (int64_t i = 0; i < n; ++i) zeros += 0 * (x[i] *= factor);
  return zeros == 0;
}
void scale_piece(float* x, int64_t n, double factor) { WEFT_DISPATCH(scale_tile)(x, n, static_cast<float>(factor)); }
void scale_piece(double* x, int64_t n, double factor) {
  for (int64_t i = 0; i < n; ++i) x[i] *= factor;
}

// f(C* x, m) for n elements from `at` on, in the type they are computed in; changes are written back.
template <class F>
void in_compute_type(DType dtype, void* data, int64_t at, int64_t n, F&& f) {
  visit_parameter(dtype, "scale", [&](auto type) {
    using T = typename decltype(type)::type;
    T* x = static_cast<T*>(data) + at;
    if constexpr (std::is_same_v<T, ComputeOf<T>>) {
      f(x, n);
    } else {
      float block[kHalfBlock];
      for (int64_t i = 0; i < n; i += kHalfBlock) {
        const int64_t m = std::min(kHalfBlock, n - i);
        widen(x + i, block, m);
        f(static_cast<float*>(block), m);
        narrow(static_cast<const float*>(block), x + i, m);
      }
    }
  });
}

}  // namespace

void power_sum(Stream, DType dtype, double p, const ConstSlice* slices, int64_t count, double* result) {
  visit_parameter(dtype, "norm", [](auto) {});
  int64_t total = 0;
  for (int64_t i = 0; i < count; ++i) total += slices[i].size;
  const int64_t tiles = (total + kOptimizerTile - 1) / kOptimizerTile;
  double* partial = scratch<Partials, double>(tiles);
  std::fill_n(partial, tiles, 0.0);
  const auto add = [p](double a, double b) { return std::isinf(p) ? larger(a, b) : a + b; };
  for_pieces(slices, count, [&](int64_t tile, const ConstSlice& s, int64_t at, int64_t n) {
    partial[tile] = add(partial[tile], power_piece(p, s.data, dtype, at, n));
  });
  double sum = 0;
  for (int64_t tile = 0; tile < tiles; ++tile) sum = add(sum, partial[tile]);
  *result = sum;
}

void squares(Stream stream, DType dtype, const ConstSlice* slices, int64_t count, double* results) {
  for (int64_t i = 0; i < count; ++i) power_sum(stream, dtype, 2, slices + i, 1, results + i);
}

void scale(Stream, DType dtype, const MutableSlice* slices, int64_t count, double factor) {
  visit_parameter(dtype, "scale", [](auto) {});
  for_pieces(slices, count, [&](int64_t, const MutableSlice& s, int64_t at, int64_t n) {
    in_compute_type(dtype, s.data, at, n, [factor](auto* x, int64_t m) { scale_piece(x, m, factor); });
  });
}

void unscale(Stream, DType dtype, const MutableSlice* slices, int64_t count, double factor, float* found_inf) {
  visit_parameter(dtype, "unscale_", [](auto) {});
  int64_t total = 0;
  for (int64_t i = 0; i < count; ++i) total += slices[i].size;
  const int64_t tiles = (total + kOptimizerTile - 1) / kOptimizerTile;
  double* bad = scratch<Partials, double>(tiles);  // a flag a tile: tiles run in parallel
  std::fill_n(bad, tiles, 0.0);
  for_pieces(slices, count, [&](int64_t tile, const MutableSlice& s, int64_t at, int64_t n) {
    in_compute_type(dtype, s.data, at, n, [&](auto* x, int64_t m) {
      if (!unscale_piece(x, m, factor)) bad[tile] = 1;
    });
  });
  if (std::any_of(bad, bad + tiles, [](double flag) { return flag != 0; })) *found_inf = 1;
}

}  // namespace weft::cpu
#endif  // HWY_ONCE
