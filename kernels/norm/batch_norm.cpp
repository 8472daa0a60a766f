// Batch norm on the CPU. A tile is a few channels: their statistics are taken and used while they are in the cache.
#include "kernels/norm/batch_norm.h"

#include <algorithm>
#include <cmath>

#include "kernels/base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm/batch_norm.cpp"
#include "kernels/base/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/base/simd_math-inl.h"

#ifndef WEFT_KERNELS_BATCH_NORM_ONCE_
#define WEFT_KERNELS_BATCH_NORM_ONCE_
namespace weft::cpu {

// One launch of forward (`training`) or apply.
template <class T>
struct BatchNormForward {
  BatchNormShape shape;
  const T* x;
  const T* weight;
  const T* bias;
  T* y;
  T* mean;
  T* rstd;
  T* running_mean;
  T* running_var;
  double momentum;
  double eps;
  bool training;

  void store_mean(int64_t channel, double sum) const {
    const double value = sum / static_cast<double>(shape.count());
    mean[channel] = static_cast<T>(value);
    if (running_mean) running_mean[channel] = moved(running_mean[channel], value);
  }
  // squares: the sum of squared distances from the mean
  void store_variance(int64_t channel, double squares) const {
    const auto count = static_cast<double>(shape.count());
    rstd[channel] = static_cast<T>(1 / std::sqrt(squares / count + eps));
    if (running_var) running_var[channel] = moved(running_var[channel], squares / (count - 1));
  }
  T scale(int64_t channel) const { return weight ? rstd[channel] * weight[channel] : rstd[channel]; }
  T shift(int64_t channel) const { return bias ? bias[channel] : T{0}; }
  T moved(T old, double value) const {
    return static_cast<T>((1 - momentum) * static_cast<double>(old) + momentum * value);
  }
};

template <class T>
struct BatchNormBackward {
  BatchNormShape shape;
  const T* dy;
  const T* x;
  const T* mean;
  const T* rstd;
  const T* weight;
  bool training;
  T* dx;
  T* dweight;
  T* dbias;

  bool needs_sums() const { return dweight || dbias || (dx && training); }
  void store_sums(int64_t channel, double sum, double sum_centred) const {
    if (dweight) dweight[channel] = static_cast<T>(sum_centred * static_cast<double>(rstd[channel]));
    if (dbias) dbias[channel] = static_cast<T>(sum);
  }
  // dx = scale · (dy - shift - slope · (x - mean))
  T scale(int64_t channel) const { return weight ? rstd[channel] * weight[channel] : rstd[channel]; }
  T shift(double sum) const { return static_cast<T>(training ? sum / static_cast<double>(shape.count()) : 0); }
  T slope(int64_t channel, double sum_centred) const {
    const double r = rstd[channel];
    return static_cast<T>(training ? r * r * sum_centred / static_cast<double>(shape.count()) : 0);
  }
};

constexpr int64_t kBatchNormColumns = 256;  // channels a tile at most, where a channel is a column (inner = 1)

}  // namespace weft::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

// --- a channel is `outer` runs of `inner` elements ----------------------------------------------------------------

// The sum over a channel of f(load, offset); runs are summed in f32, the sums of runs in f64.
template <class F>
HWY_INLINE double sum_of_channel(FloatTag d, const BatchNormShape& s, int64_t channel, F&& f) {
  double total = 0;
  for (int64_t n = 0; n < s.outer; ++n) {
    const int64_t run = (n * s.channels + channel) * s.inner;
    auto sum = hn::Zero(d);
    for_row(d, s.inner, [&](auto load, auto, int64_t i) HWY_ATTR { sum = hn::Add(sum, f(load, run + i)); });
    total += sum_lanes(d, sum);
  }
  return total;
}

void batch_norm_forward_runs(const BatchNormForward<float>& p, int64_t begin, int64_t end) {
  const FloatTag d;
  const BatchNormShape& s = p.shape;
  for (int64_t c = begin; c < end; ++c) {
    if (p.training)
      p.store_mean(c, sum_of_channel(d, s, c, [&](auto load, int64_t i) HWY_ATTR { return load(p.x + i, 0.0f); }));
    const float center = p.mean[c];
    const auto mean = hn::Set(d, center);
    if (p.training)
      p.store_variance(c, sum_of_channel(d, s, c, [&](auto load, int64_t i) HWY_ATTR {
                         const auto difference = hn::Sub(load(p.x + i, center), mean);
                         return hn::Mul(difference, difference);
                       }));
    const auto scale = hn::Set(d, p.scale(c)), shift = hn::Set(d, p.shift(c));
    for (int64_t n = 0; n < s.outer; ++n) {
      const int64_t run = (n * s.channels + c) * s.inner;
      for_row(d, s.inner, [&](auto load, auto store, int64_t i) HWY_ATTR {
        store(hn::MulAdd(hn::Sub(load(p.x + run + i, 0.0f), mean), scale, shift), p.y + run + i);
      });
    }
  }
}

void batch_norm_backward_runs(const BatchNormBackward<float>& p, int64_t begin, int64_t end) {
  const FloatTag d;
  const BatchNormShape& s = p.shape;
  for (int64_t c = begin; c < end; ++c) {
    const float center = p.mean[c];
    const auto mean = hn::Set(d, center);
    double sum = 0, sum_centred = 0;
    for (int64_t n = 0; n < s.outer && p.needs_sums(); ++n) {
      const int64_t run = (n * s.channels + c) * s.inner;
      auto part = hn::Zero(d), part_centred = part;
      for_row(d, s.inner, [&](auto load, auto, int64_t i) HWY_ATTR {
        const auto grad = load(p.dy + run + i, 0.0f);
        part = hn::Add(part, grad);
        part_centred = hn::MulAdd(grad, hn::Sub(load(p.x + run + i, center), mean), part_centred);
      });
      sum += sum_lanes(d, part);
      sum_centred += sum_lanes(d, part_centred);
    }
    p.store_sums(c, sum, sum_centred);
    if (!p.dx) continue;
    const auto scale = hn::Set(d, p.scale(c)), shift = hn::Set(d, p.shift(sum));
    const auto slope = hn::Set(d, p.slope(c, sum_centred));
    for (int64_t n = 0; n < s.outer; ++n) {
      const int64_t run = (n * s.channels + c) * s.inner;
      for_row(d, s.inner, [&](auto load, auto store, int64_t i) HWY_ATTR {
        auto grad = load(p.dy + run + i, 0.0f);
        if (p.training) grad = hn::NegMulAdd(slope, hn::Sub(load(p.x + run + i, center), mean), hn::Sub(grad, shift));
        store(hn::Mul(scale, grad), p.dx + run + i);
      });
    }
  }
}

// --- a channel is a column of [outer, channels] -------------------------------------------------------------------

// Adds to totals[i] the sum over all rows of f(load, row, i) for `width` neighbouring columns; blocks of rows are summed
// in f32, the blocks in f64.
template <class F>
HWY_INLINE void sum_of_columns(FloatTag d, int64_t rows, int64_t width, double* totals, F&& f) {
  constexpr int64_t block_rows = 64;
  std::fill_n(totals, width, 0.0);
  for (int64_t first = 0; first < rows; first += block_rows) {
    float block[kBatchNormColumns] = {};
    for (int64_t row = first; row < std::min(rows, first + block_rows); ++row)
      for_row(d, width, [&](auto load, auto store, int64_t i) HWY_ATTR {
        store(hn::Add(load(block + i, 0.0f), f(load, row, i)), block + i);
      });
    for (int64_t i = 0; i < width; ++i) totals[i] += block[i];
  }
}

void batch_norm_forward_columns(const BatchNormForward<float>& p, int64_t begin, int64_t end) {
  const FloatTag d;
  const int64_t rows = p.shape.outer, width = end - begin;
  double totals[kBatchNormColumns];
  const auto at = [&](int64_t row, int64_t i) { return row * p.shape.channels + begin + i; };
  if (p.training) {
    sum_of_columns(d, rows, width, totals,
                   [&](auto load, int64_t row, int64_t i) HWY_ATTR { return load(p.x + at(row, i), 0.0f); });
    for (int64_t i = 0; i < width; ++i) p.store_mean(begin + i, totals[i]);
    sum_of_columns(d, rows, width, totals, [&](auto load, int64_t row, int64_t i) HWY_ATTR {
      const auto difference = hn::Sub(load(p.x + at(row, i), 0.0f), load(p.mean + begin + i, 0.0f));
      return hn::Mul(difference, difference);
    });
    for (int64_t i = 0; i < width; ++i) p.store_variance(begin + i, totals[i]);
  }
  float scale[kBatchNormColumns], shift[kBatchNormColumns];
  for (int64_t i = 0; i < width; ++i) scale[i] = p.scale(begin + i);
  for (int64_t i = 0; i < width; ++i) shift[i] = p.shift(begin + i);
  for (int64_t row = 0; row < rows; ++row)
    for_row(d, width, [&](auto load, auto store, int64_t i) HWY_ATTR {
      const auto centred = hn::Sub(load(p.x + at(row, i), 0.0f), load(p.mean + begin + i, 0.0f));
      store(hn::MulAdd(centred, load(scale + i, 0.0f), load(shift + i, 0.0f)), p.y + at(row, i));
    });
}

void batch_norm_backward_columns(const BatchNormBackward<float>& p, int64_t begin, int64_t end) {
  const FloatTag d;
  const int64_t rows = p.shape.outer, width = end - begin;
  double sums[kBatchNormColumns] = {}, sums_centred[kBatchNormColumns] = {};
  const auto at = [&](int64_t row, int64_t i) { return row * p.shape.channels + begin + i; };
  if (p.needs_sums()) {
    sum_of_columns(d, rows, width, sums,
                   [&](auto load, int64_t row, int64_t i) HWY_ATTR { return load(p.dy + at(row, i), 0.0f); });
    sum_of_columns(d, rows, width, sums_centred, [&](auto load, int64_t row, int64_t i) HWY_ATTR {
      const auto centred = hn::Sub(load(p.x + at(row, i), 0.0f), load(p.mean + begin + i, 0.0f));
      return hn::Mul(load(p.dy + at(row, i), 0.0f), centred);
    });
  }
  float scale[kBatchNormColumns], shift[kBatchNormColumns], slope[kBatchNormColumns];
  for (int64_t i = 0; i < width; ++i) {
    p.store_sums(begin + i, sums[i], sums_centred[i]);
    scale[i] = p.scale(begin + i);
    shift[i] = p.shift(sums[i]);
    slope[i] = p.slope(begin + i, sums_centred[i]);
  }
  for (int64_t row = 0; row < rows && p.dx; ++row)
    for_row(d, width, [&](auto load, auto store, int64_t i) HWY_ATTR {
      auto grad = load(p.dy + at(row, i), 0.0f);
      if (p.training) {
        const auto centred = hn::Sub(load(p.x + at(row, i), 0.0f), load(p.mean + begin + i, 0.0f));
        grad = hn::NegMulAdd(load(slope + i, 0.0f), centred, hn::Sub(grad, load(shift + i, 0.0f)));
      }
      store(hn::Mul(load(scale + i, 0.0f), grad), p.dx + at(row, i));
    });
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
namespace {

WEFT_EXPORT(batch_norm_forward_runs);
WEFT_EXPORT(batch_norm_backward_runs);
WEFT_EXPORT(batch_norm_forward_columns);
WEFT_EXPORT(batch_norm_backward_columns);

void forward_channels(const BatchNormForward<float>& p, int64_t begin, int64_t end) {
  if (p.shape.inner == 1)
    WEFT_DISPATCH(batch_norm_forward_columns)(p, begin, end);
  else
    WEFT_DISPATCH(batch_norm_forward_runs)(p, begin, end);
}
void backward_channels(const BatchNormBackward<float>& p, int64_t begin, int64_t end) {
  if (p.shape.inner == 1)
    WEFT_DISPATCH(batch_norm_backward_columns)(p, begin, end);
  else
    WEFT_DISPATCH(batch_norm_backward_runs)(p, begin, end);
}

// Calls f(i) for each element of a channel.
template <class F>
void for_channel(const BatchNormShape& s, int64_t channel, F&& f) {
  for (int64_t n = 0; n < s.outer; ++n)
    for (int64_t k = 0; k < s.inner; ++k) f((n * s.channels + channel) * s.inner + k);
}

void forward_channels(const BatchNormForward<double>& p, int64_t begin, int64_t end) {
  for (int64_t c = begin; c < end; ++c) {
    if (p.training) {
      double sum = 0, squares = 0;
      for_channel(p.shape, c, [&](int64_t i) { sum += p.x[i]; });
      p.store_mean(c, sum);
      for_channel(p.shape, c, [&](int64_t i) { squares += (p.x[i] - p.mean[c]) * (p.x[i] - p.mean[c]); });
      p.store_variance(c, squares);
    }
    const double mean = p.mean[c], scale = p.scale(c), shift = p.shift(c);
    for_channel(p.shape, c, [&](int64_t i) { p.y[i] = (p.x[i] - mean) * scale + shift; });
  }
}

void backward_channels(const BatchNormBackward<double>& p, int64_t begin, int64_t end) {
  for (int64_t c = begin; c < end; ++c) {
    const double mean = p.mean[c];
    double sum = 0, sum_centred = 0;
    if (p.needs_sums())
      for_channel(p.shape, c, [&](int64_t i) {
        sum += p.dy[i];
        sum_centred += p.dy[i] * (p.x[i] - mean);
      });
    p.store_sums(c, sum, sum_centred);
    if (!p.dx) continue;
    const double scale = p.scale(c), shift = p.shift(sum), slope = p.slope(c, sum_centred);
    for_channel(p.shape, c, [&](int64_t i) {
      p.dx[i] = scale * (p.training ? p.dy[i] - shift - slope * (p.x[i] - mean) : p.dy[i]);
    });
  }
}

// About 16 thousand elements, or a strip of columns: wide, for a row of it is what comes from memory in one piece, but
// four at least where there are as many as 256 columns.
int64_t channels_per_tile(const BatchNormShape& s) {
  if (s.inner == 1) return std::clamp<int64_t>((s.channels / 4 + 63) / 64 * 64, 64, kBatchNormColumns);
  return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, s.count()));
}

template <class T>
void run_forward(const BatchNormForward<T>& p) {
  parallel_for(p.shape.channels, channels_per_tile(p.shape),
               [&](int64_t begin, int64_t end) { forward_channels(p, begin, end); });
}

void batch_norm_forward(Stream, DType dtype, const BatchNormShape& shape, const void* x, const void* weight,
                        const void* bias, void* y, void* mean, void* rstd, void* running_mean, void* running_var,
                        double momentum, double eps) {
  visit_compute(dtype, "batch_norm", [&](auto type) {
    using T = typename decltype(type)::type;
    run_forward(BatchNormForward<T>{shape, static_cast<const T*>(x), static_cast<const T*>(weight),
                                    static_cast<const T*>(bias), static_cast<T*>(y), static_cast<T*>(mean),
                                    static_cast<T*>(rstd), static_cast<T*>(running_mean), static_cast<T*>(running_var),
                                    momentum, eps, true});
  });
}

void batch_norm_apply(Stream, DType dtype, const BatchNormShape& shape, const void* x, const void* mean,
                      const void* rstd, const void* weight, const void* bias, void* y) {
  visit_compute(dtype, "batch_norm", [&](auto type) {
    using T = typename decltype(type)::type;
    // Only read where `training` is false.
    T *given_mean = const_cast<T*>(static_cast<const T*>(mean)),
      *given_rstd = const_cast<T*>(static_cast<const T*>(rstd));
    run_forward(BatchNormForward<T>{shape, static_cast<const T*>(x), static_cast<const T*>(weight),
                                    static_cast<const T*>(bias), static_cast<T*>(y), given_mean, given_rstd, nullptr,
                                    nullptr, 0, 0, false});
  });
}

void batch_norm_backward(Stream, DType dtype, const BatchNormShape& shape, const void* dy, const void* x,
                         const void* mean, const void* rstd, const void* weight, bool training, void* dx, void* dweight,
                         void* dbias) {
  visit_compute(dtype, "batch_norm", [&](auto type) {
    using T = typename decltype(type)::type;
    const BatchNormBackward<T> p{shape,
                                 static_cast<const T*>(dy),
                                 static_cast<const T*>(x),
                                 static_cast<const T*>(mean),
                                 static_cast<const T*>(rstd),
                                 static_cast<const T*>(weight),
                                 training,
                                 static_cast<T*>(dx),
                                 static_cast<T*>(dweight),
                                 static_cast<T*>(dbias)};
    parallel_for(shape.channels, channels_per_tile(shape),
                 [&](int64_t begin, int64_t end) { backward_channels(p, begin, end); });
  });
}

}  // namespace

constinit const BatchNormKernels batch_norm_kernels{batch_norm_forward, batch_norm_apply, batch_norm_backward};

}  // namespace weft::cpu
#endif  // HWY_ONCE
