#include "kernels/optimizer/optimizer.h"

#include <algorithm>
#include <cmath>

#include "kernels/base/parallel.h"
#include "kernels/base/scratch.h"
#include "kernels/optimizer/adam_factors.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizer/optimizer.cpp"
#include "kernels/base/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/base/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

template <bool amsgrad>
HWY_INLINE void adam_row(const AdamFactors<float>& f, float* p, const float* g, float* m, float* v, float* v_max,
                         int64_t n) {
  const FloatTag d;
  const auto sign = hn::Set(d, f.sign);
  const auto keep = hn::Set(d, f.keep);
  const auto coupled = hn::Set(d, f.coupled);
  const auto one_less_beta1 = hn::Set(d, f.one_less_beta1);
  const auto beta2 = hn::Set(d, f.beta2);
  const auto one_less_beta2 = hn::Set(d, f.one_less_beta2);
  const auto step_size = hn::Set(d, f.step_size);
  const auto inverse_root = hn::Set(d, f.inverse_root);
  const auto eps = hn::Set(d, f.eps);
  for_row(d, n, [&](auto load, auto store, int64_t i) HWY_ATTR {
    const auto param = load(p + i, 0.0f);
    const auto grad = hn::MulAdd(load(g + i, 0.0f), sign, hn::Mul(coupled, param));
    const auto old_mean = load(m + i, 0.0f);
    const auto mean = hn::MulAdd(one_less_beta1, hn::Sub(grad, old_mean), old_mean);
    const auto square = hn::MulAdd(hn::Mul(one_less_beta2, grad), grad, hn::Mul(beta2, load(v + i, 0.0f)));
    store(mean, m + i);
    store(square, v + i);
    auto second = square;
    if (amsgrad) {
      second = hn::Max(square, load(v_max + i, 0.0f));
      store(second, v_max + i);
    }
    const auto denominator = hn::MulAdd(hn::Sqrt(second), inverse_root, eps);
    const auto update = hn::Mul(step_size, hn::Div(mean, denominator));
    const auto wanted = hn::IfThenZeroElse(hn::Eq(mean, hn::Zero(d)), update);
    store(hn::Sub(hn::Mul(param, keep), wanted), p + i);
  });
}

void adam_tile(const AdamFactors<float>& f, float* p, const float* g, float* m, float* v, float* v_max, int64_t n) {
  if (v_max != nullptr)
    adam_row<true>(f, p, g, m, v, v_max, n);
  else
    adam_row<false>(f, p, g, m, v, v_max, n);
}

void sgd_tile(const SgdOptions& o, float* p, const float* g, float* buffer, bool first, int64_t n) {
  const FloatTag d;
  const auto sign = hn::Set(d, o.maximize ? -1.0f : 1.0f);
  const auto decay = hn::Set(d, static_cast<float>(o.weight_decay));
  const auto momentum = hn::Set(d, static_cast<float>(o.momentum));
  const auto fresh = hn::Set(d, static_cast<float>(1 - o.dampening));
  const auto lr = hn::Set(d, static_cast<float>(o.lr));
  for_row(d, n, [&](auto load, auto store, int64_t i) HWY_ATTR {
    const auto param = load(p + i, 0.0f);
    auto step = hn::MulAdd(load(g + i, 0.0f), sign, hn::Mul(decay, param));
    if (buffer != nullptr) {
      const auto average = first ? step : hn::MulAdd(momentum, load(buffer + i, 0.0f), hn::Mul(fresh, step));
      store(average, buffer + i);
      step = o.nesterov ? hn::MulAdd(momentum, average, step) : average;
    }
    store(hn::NegMulAdd(lr, step, param), p + i);
  });
}

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

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
namespace {

WEFT_EXPORT(adam_tile);
WEFT_EXPORT(sgd_tile);
WEFT_EXPORT(square_tile);
WEFT_EXPORT(scale_tile);

constexpr int64_t kTile = 32768;  // elements

struct Offsets;
struct Partials;

// Lays the slices end to end, cuts that line into tiles and calls f(tile, slice, first element, length) for every piece
// of a slice in a tile, tiles in parallel.
template <class Slice, class F>
void for_pieces(const Slice* slices, int64_t count, F&& f) {
  int64_t* offsets = scratch<Offsets, int64_t>(count + 1);
  offsets[0] = 0;
  for (int64_t i = 0; i < count; ++i) offsets[i + 1] = offsets[i] + slices[i].size;
  const int64_t* end_of_offsets = offsets + count + 1;
  parallel_for(offsets[count], kTile, [&](int64_t begin, int64_t end) {
    int64_t index = std::upper_bound(static_cast<const int64_t*>(offsets), end_of_offsets, begin) - offsets - 1;
    const int64_t tile = begin / kTile;
    while (begin < end) {
      const int64_t stop = std::min(end, offsets[index + 1]);
      if (stop > begin) f(tile, slices[index], begin - offsets[index], stop - begin);
      begin = stop;
      ++index;
    }
  });
}

void adam_piece(const AdamFactors<float>& f, float* p, const float* g, float* m, float* v, float* v_max, int64_t n) {
  WEFT_DISPATCH(adam_tile)(f, p, g, m, v, v_max, n);
}
void adam_piece(const AdamFactors<double>& f, double* p, const double* g, double* m, double* v, double* v_max,
                int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const double grad = f.sign * g[i] + f.coupled * p[i];
    m[i] += f.one_less_beta1 * (grad - m[i]);
    v[i] = f.beta2 * v[i] + f.one_less_beta2 * grad * grad;
    if (v_max) v_max[i] = std::max(v[i], v_max[i]);
    const double denominator = std::sqrt(v_max ? v_max[i] : v[i]) * f.inverse_root + f.eps;
    p[i] = p[i] * f.keep - (m[i] == 0 ? 0 : f.step_size * (m[i] / denominator));
  }
}

void sgd_piece(const SgdOptions& o, float* p, const float* g, float* buffer, bool first, int64_t n) {
  WEFT_DISPATCH(sgd_tile)(o, p, g, buffer, first, n);
}
void sgd_piece(const SgdOptions& o, double* p, const double* g, double* buffer, bool first, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    double step = (o.maximize ? -g[i] : g[i]) + o.weight_decay * p[i];
    if (buffer) {
      buffer[i] = first ? step : o.momentum * buffer[i] + (1 - o.dampening) * step;
      step = o.nesterov ? step + o.momentum * buffer[i] : buffer[i];
    }
    p[i] -= o.lr * step;
  }
}

double square_piece(const float* x, int64_t n) { return WEFT_DISPATCH(square_tile)(x, n); }
double square_piece(const double* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
  return sum;
}

void scale_piece(float* x, int64_t n, double factor) { WEFT_DISPATCH(scale_tile)(x, n, static_cast<float>(factor)); }
void scale_piece(double* x, int64_t n, double factor) {
  for (int64_t i = 0; i < n; ++i) x[i] *= factor;
}

// The address of element `at` of an array that may be absent.
template <class T>
T* element(void* array, int64_t at) {
  return array ? static_cast<T*>(array) + at : nullptr;
}

void adam(Stream, DType dtype, const AdamOptions& options, const AdamSlice* slices, int64_t count) {
  visit_compute(dtype, "adam", [&](auto type) {
    using T = typename decltype(type)::type;
    for_pieces(slices, count, [&](int64_t, const AdamSlice& s, int64_t at, int64_t n) {
      adam_piece(AdamFactors<T>(options, s.step), element<T>(s.param, at), static_cast<const T*>(s.grad) + at,
                 element<T>(s.exp_avg, at), element<T>(s.exp_avg_sq, at), element<T>(s.max_exp_avg_sq, at), n);
    });
  });
}

void sgd(Stream, DType dtype, const SgdOptions& options, const SgdSlice* slices, int64_t count) {
  visit_compute(dtype, "sgd", [&](auto type) {
    using T = typename decltype(type)::type;
    for_pieces(slices, count, [&](int64_t, const SgdSlice& s, int64_t at, int64_t n) {
      T* buffer = options.momentum != 0 ? element<T>(s.momentum_buffer, at) : nullptr;
      sgd_piece(options, element<T>(s.param, at), static_cast<const T*>(s.grad) + at, buffer, s.first, n);
    });
  });
}

void sum_of_squares(Stream, DType dtype, const ConstSlice* slices, int64_t count, double* result) {
  visit_compute(dtype, "sum_of_squares", [&](auto type) {
    using T = typename decltype(type)::type;
    int64_t total = 0;
    for (int64_t i = 0; i < count; ++i) total += slices[i].size;
    const int64_t tiles = (total + kTile - 1) / kTile;
    double* partial = scratch<Partials, double>(tiles);
    std::fill_n(partial, tiles, 0.0);
    for_pieces(slices, count, [&](int64_t tile, const ConstSlice& s, int64_t at, int64_t n) {
      partial[tile] += square_piece(static_cast<const T*>(s.data) + at, n);
    });
    double sum = 0;
    for (int64_t tile = 0; tile < tiles; ++tile) sum += partial[tile];
    *result = sum;
  });
}

void scale(Stream, DType dtype, const MutableSlice* slices, int64_t count, double factor) {
  visit_compute(dtype, "scale", [&](auto type) {
    using T = typename decltype(type)::type;
    for_pieces(slices, count, [&](int64_t, const MutableSlice& s, int64_t at, int64_t n) {
      scale_piece(element<T>(s.data, at), n, factor);
    });
  });
}

}  // namespace

constinit const OptimizerKernels optimizer_kernels{adam, sgd, sum_of_squares, scale};

}  // namespace weft::cpu
#endif  // HWY_ONCE
