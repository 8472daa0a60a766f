#include "kernels/norm/norm.h"

#include <algorithm>
#include <cmath>

#include "kernels/base/parallel.h"
#include "kernels/base/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm/norm.cpp"
#include "kernels/base/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/base/simd_math-inl.h"

#ifndef WEFT_KERNELS_NORM_ONCE_
#define WEFT_KERNELS_NORM_ONCE_
namespace weft::cpu {

// One launch. mean is null for RMS norm, where it counts as 0.
template <class T>
struct NormForward {
  const T* x;
  const T* weight;
  const T* bias;
  T* y;
  T* mean;
  T* rstd;
  int64_t columns;
  double eps;
  bool center;  // layer norm
};

template <class T>
struct NormBackward {
  const T* dy;
  const T* x;
  const T* weight;
  const T* mean;
  const T* rstd;
  T* dx;
  int64_t columns;
  bool center;
};

}  // namespace weft::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

void norm_forward(const NormForward<float>& p, int64_t begin, int64_t end) {
  const FloatTag d;
  const auto n = static_cast<float>(p.columns);
  for (int64_t row = begin; row < end; ++row) {
    const float* x = p.x + row * p.columns;
    float* y = p.y + row * p.columns;
    float mean = 0;
    if (p.center) {
      auto sum = hn::Zero(d);
      for_row(d, p.columns, [&](auto load, auto, int64_t i) HWY_ATTR { sum = hn::Add(sum, load(x + i, 0.0f)); });
      mean = sum_lanes(d, sum) / n;
      p.mean[row] = mean;
    }
    const auto center = hn::Set(d, mean);
    auto squares = hn::Zero(d);
    for_row(d, p.columns, [&](auto load, auto, int64_t i) HWY_ATTR {
      const auto difference = hn::Sub(load(x + i, mean), center);
      squares = hn::MulAdd(difference, difference, squares);
    });
    const float rstd = 1.0f / std::sqrt(sum_lanes(d, squares) / n + static_cast<float>(p.eps));
    p.rstd[row] = rstd;
    const auto factor = hn::Set(d, rstd);
    for_row(d, p.columns, [&](auto load, auto store, int64_t i) HWY_ATTR {
      auto value = hn::Mul(hn::Sub(load(x + i, 0.0f), center), factor);
      if (p.weight != nullptr) value = hn::Mul(value, load(p.weight + i, 0.0f));
      if (p.bias != nullptr) value = hn::Add(value, load(p.bias + i, 0.0f));
      store(value, y + i);
    });
  }
}

// Writes dx of rows [begin, end) and adds their part of the weight's and bias' gradients, where wanted.
void norm_backward(const NormBackward<float>& p, float* dweight, float* dbias, int64_t begin, int64_t end) {
  const FloatTag d;
  const float inverse = 1.0f / static_cast<float>(p.columns);
  for (int64_t row = begin; row < end; ++row) {
    const float* x = p.x + row * p.columns;
    const float* dy = p.dy + row * p.columns;
    const auto mean = hn::Set(d, p.center ? p.mean[row] : 0.0f);
    const float rstd = p.rstd[row];
    const auto factor = hn::Set(d, rstd);
    const auto shift = hn::Neg(hn::Mul(mean, factor));
    auto sum_g = hn::Zero(d);
    auto sum_gh = hn::Zero(d);
    for_row(d, p.columns, [&](auto load, auto store, int64_t i) HWY_ATTR {
      const auto grad = load(dy + i, 0.0f);
      const auto h = hn::MulAdd(load(x + i, 0.0f), factor, shift);  // (x - mean) · rstd
      const auto g = p.weight != nullptr ? hn::Mul(grad, load(p.weight + i, 0.0f)) : grad;
      sum_g = hn::Add(sum_g, g);
      sum_gh = hn::MulAdd(g, h, sum_gh);
      if (dweight != nullptr) store(hn::MulAdd(grad, h, load(dweight + i, 0.0f)), dweight + i);
      if (dbias != nullptr) store(hn::Add(grad, load(dbias + i, 0.0f)), dbias + i);
    });
    if (p.dx == nullptr) continue;
    float* dx = p.dx + row * p.columns;
    // dx = rstd · (g - mean(g) - b · (x - mean)), with rstd last: it is large where the others cancel.
    const auto mean_g = hn::Set(d, p.center ? inverse * sum_lanes(d, sum_g) : 0.0f);
    const auto b = hn::Set(d, rstd * inverse * sum_lanes(d, sum_gh));
    for_row(d, p.columns, [&](auto load, auto store, int64_t i) HWY_ATTR {
      const auto grad = load(dy + i, 0.0f);
      const auto g = p.weight != nullptr ? hn::Mul(grad, load(p.weight + i, 0.0f)) : grad;
      const auto centered = hn::Sub(load(x + i, 0.0f), mean);
      store(hn::Mul(factor, hn::NegMulAdd(b, centered, hn::Sub(g, mean_g))), dx + i);
    });
  }
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
namespace {

WEFT_EXPORT(norm_forward);
WEFT_EXPORT(norm_backward);

constexpr int64_t kTileElements = 16384;
constexpr int64_t kMaxParts = 32;  // partial sums of dweight and dbias at most

struct PartialSums;

void forward_rows(const NormForward<float>& p, int64_t begin, int64_t end) {
  WEFT_DISPATCH(norm_forward)(p, begin, end);
}
void backward_rows(const NormBackward<float>& p, float* dweight, float* dbias, int64_t begin, int64_t end) {
  WEFT_DISPATCH(norm_backward)(p, dweight, dbias, begin, end);
}

void forward_rows(const NormForward<double>& p, int64_t begin, int64_t end) {
  const int64_t n = p.columns;
  for (int64_t row = begin; row < end; ++row) {
    const double* x = p.x + row * n;
    double mean = 0;
    if (p.center) {
      for (int64_t i = 0; i < n; ++i) mean += x[i];
      p.mean[row] = mean /= static_cast<double>(n);
    }
    double squares = 0;
    for (int64_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const double rstd = 1 / std::sqrt(squares / static_cast<double>(n) + p.eps);
    p.rstd[row] = rstd;
    for (int64_t i = 0; i < n; ++i)
      p.y[row * n + i] = (x[i] - mean) * rstd * (p.weight ? p.weight[i] : 1) + (p.bias ? p.bias[i] : 0);
  }
}

void backward_rows(const NormBackward<double>& p, double* dweight, double* dbias, int64_t begin, int64_t end) {
  const int64_t n = p.columns;
  for (int64_t row = begin; row < end; ++row) {
    const double* x = p.x + row * n;
    const double* dy = p.dy + row * n;
    const double mean = p.center ? p.mean[row] : 0;
    const double rstd = p.rstd[row];
    double sum_g = 0, sum_gh = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double h = (x[i] - mean) * rstd;
      const double g = dy[i] * (p.weight ? p.weight[i] : 1);
      sum_g += g;
      sum_gh += g * h;
      if (dweight) dweight[i] += dy[i] * h;
      if (dbias) dbias[i] += dy[i];
    }
    if (!p.dx) continue;
    const double mean_g = p.center ? sum_g / static_cast<double>(n) : 0;
    const double mean_gh = sum_gh / static_cast<double>(n);
    for (int64_t i = 0; i < n; ++i) {
      const double g = dy[i] * (p.weight ? p.weight[i] : 1);
      p.dx[row * n + i] = rstd * (g - mean_g - (x[i] - mean) * rstd * mean_gh);
    }
  }
}

template <class T>
void run_forward(const NormForward<T>& p, int64_t rows) {
  if (p.columns == 0) return;
  parallel_for(rows, std::max<int64_t>(1, kTileElements / p.columns),
               [&](int64_t begin, int64_t end) { forward_rows(p, begin, end); });
}

// Each tile of rows sums into its own part; the parts are then added in order.
template <class T>
void run_backward(const NormBackward<T>& p, T* dweight, T* dbias, int64_t rows) {
  const int64_t n = p.columns;
  if (n == 0) return;
  const int64_t tile = std::max((rows + kMaxParts - 1) / kMaxParts, std::max<int64_t>(1, kTileElements / n));
  const int64_t parts = (rows + tile - 1) / tile;
  const int64_t sums = (dweight ? n : 0) + (dbias ? n : 0);
  T* partial = scratch<PartialSums, T>(parts * sums);
  parallel_for(rows, tile, [&](int64_t begin, int64_t end) {
    T* own = partial + begin / tile * sums;
    std::fill_n(own, sums, T(0));
    backward_rows(p, dweight ? own : nullptr, dbias ? own + (dweight ? n : 0) : nullptr, begin, end);
  });
  const auto combine = [&](T* result, const T* first) {
    if (result == nullptr) return;
    std::fill_n(result, n, T(0));
    for (int64_t part = 0; part < parts; ++part) {
      const T* own = first + part * sums;
      for (int64_t i = 0; i < n; ++i) result[i] += own[i];
    }
  };
  combine(dweight, partial);
  combine(dbias, partial + (dweight ? n : 0));
}

void layer_norm_forward(Stream, DType dtype, const void* x, const void* weight, const void* bias, void* y, void* mean,
                        void* rstd, int64_t rows, int64_t columns, double eps) {
  visit_compute(dtype, "layer_norm", [&](auto type) {
    using T = typename decltype(type)::type;
    run_forward(NormForward<T>{static_cast<const T*>(x), static_cast<const T*>(weight), static_cast<const T*>(bias),
                               static_cast<T*>(y), static_cast<T*>(mean), static_cast<T*>(rstd), columns, eps, true},
                rows);
  });
}

void layer_norm_backward(Stream, DType dtype, const void* dy, const void* x, const void* weight, const void* mean,
                         const void* rstd, void* dx, void* dweight, void* dbias, int64_t rows, int64_t columns) {
  visit_compute(dtype, "layer_norm", [&](auto type) {
    using T = typename decltype(type)::type;
    run_backward(
        NormBackward<T>{static_cast<const T*>(dy), static_cast<const T*>(x), static_cast<const T*>(weight),
                        static_cast<const T*>(mean), static_cast<const T*>(rstd), static_cast<T*>(dx), columns, true},
        static_cast<T*>(dweight), static_cast<T*>(dbias), rows);
  });
}

void rms_norm_forward(Stream, DType dtype, const void* x, const void* weight, void* y, void* rstd, int64_t rows,
                      int64_t columns, double eps) {
  visit_compute(dtype, "rms_norm", [&](auto type) {
    using T = typename decltype(type)::type;
    run_forward(NormForward<T>{static_cast<const T*>(x), static_cast<const T*>(weight), nullptr, static_cast<T*>(y),
                               nullptr, static_cast<T*>(rstd), columns, eps, false},
                rows);
  });
}

void rms_norm_backward(Stream, DType dtype, const void* dy, const void* x, const void* weight, const void* rstd,
                       void* dx, void* dweight, int64_t rows, int64_t columns) {
  visit_compute(dtype, "rms_norm", [&](auto type) {
    using T = typename decltype(type)::type;
    run_backward(NormBackward<T>{static_cast<const T*>(dy), static_cast<const T*>(x), static_cast<const T*>(weight),
                                 nullptr, static_cast<const T*>(rstd), static_cast<T*>(dx), columns, false},
                 static_cast<T*>(dweight), static_cast<T*>(nullptr), rows);
  });
}

}  // namespace

constinit const NormKernels norm_kernels{layer_norm_forward, layer_norm_backward, rms_norm_forward, rms_norm_backward};

}  // namespace weft::cpu
#endif  // HWY_ONCE
