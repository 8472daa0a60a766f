#include "kernels/loss/loss.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/loss/loss.cpp"
#include "kernels/base/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/base/simd_math-inl.h"

#ifndef WEFT_KERNELS_LOSS_ONCE_
#define WEFT_KERNELS_LOSS_ONCE_
namespace weft::cpu {

// What a row needs of the softmax. smooth = sum(w[c] · (max - x[c])), only with label smoothing.
template <class T>
struct RowSums {
  T max;
  T sum;
  T smooth;
};

// The gradient of a row before its target class is set apart: p · probability_factor - w[c] · weight_factor.
template <class T>
struct RowFactors {
  T max;
  T log_sum;
  T probability_factor;
  T weight_factor;
};

}  // namespace weft::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

RowSums<float> cross_entropy_sums(const float* x, const float* weight, int64_t classes, bool smoothing) {
  const FloatTag d;
  const float largest = row_max(d, x, classes);
  const auto shift = hn::Set(d, largest);
  auto sum = hn::Zero(d);
  for_row(d, classes, [&](auto load, auto, int64_t i) HWY_ATTR {
    const auto score = load(x + i, -std::numeric_limits<float>::infinity());
    sum = hn::Add(sum, exp_at_most_88(d, hn::Sub(score, shift)));
  });
  auto smooth = hn::Zero(d);
  if (smoothing) {
    for_row(d, classes, [&](auto load, auto, int64_t i) HWY_ATTR {
      const auto distance = hn::Sub(shift, load(x + i, largest));
      smooth = weight != nullptr ? hn::MulAdd(load(weight + i, 0.0f), distance, smooth) : hn::Add(smooth, distance);
    });
  }
  return {largest, sum_lanes(d, sum), sum_lanes(d, smooth)};
}

void cross_entropy_gradient(const float* x, const float* weight, int64_t classes, const RowFactors<float>& f,
                            float* dx) {
  const FloatTag d;
  const auto shift = hn::Set(d, f.max);
  const auto log_sum = hn::Set(d, f.log_sum);
  const auto factor = hn::Set(d, f.probability_factor);
  const auto even = hn::Set(d, f.weight_factor);
  for_row(d, classes, [&](auto load, auto store, int64_t i) HWY_ATTR {
    const auto p = exp_at_most_88(d, hn::Sub(hn::Sub(load(x + i, 0.0f), shift), log_sum));
    const auto spread = weight != nullptr ? hn::Mul(even, load(weight + i, 0.0f)) : even;
    store(hn::MulSub(p, factor, spread), dx + i);
  });
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
namespace {

WEFT_EXPORT(cross_entropy_sums);
WEFT_EXPORT(cross_entropy_gradient);

constexpr int64_t kTileElements = 16384;

RowSums<float> row_sums(const float* x, const float* weight, int64_t classes, bool smoothing) {
  return WEFT_DISPATCH(cross_entropy_sums)(x, weight, classes, smoothing);
}
void row_gradient(const float* x, const float* weight, int64_t classes, const RowFactors<float>& f, float* dx) {
  WEFT_DISPATCH(cross_entropy_gradient)(x, weight, classes, f, dx);
}

RowSums<double> row_sums(const double* x, const double* weight, int64_t classes, bool smoothing) {
  RowSums<double> sums{-std::numeric_limits<double>::infinity(), 0, 0};
  for (int64_t c = 0; c < classes; ++c) sums.max = std::max(sums.max, x[c]);
  for (int64_t c = 0; c < classes; ++c) sums.sum += std::exp(x[c] - sums.max);
  for (int64_t c = 0; smoothing && c < classes; ++c) sums.smooth += (weight ? weight[c] : 1) * (sums.max - x[c]);
  return sums;
}
void row_gradient(const double* x, const double* weight, int64_t classes, const RowFactors<double>& f, double* dx) {
  for (int64_t c = 0; c < classes; ++c) {
    const double p = std::exp((x[c] - f.max) - f.log_sum);
    dx[c] = p * f.probability_factor - (weight ? weight[c] : 1) * f.weight_factor;
  }
}

template <class T>
T total_weight(const T* weight, int64_t classes) {
  if (weight == nullptr) return static_cast<T>(classes);
  double total = 0;
  for (int64_t c = 0; c < classes; ++c) total += weight[c];
  return static_cast<T>(total);
}

void check_targets(const CrossEntropyOptions& options, const int64_t* targets, int64_t rows) {
  for (int64_t row = 0; row < rows; ++row) {
    WEFT_CHECK((targets[row] >= 0 && targets[row] < options.classes) || targets[row] == options.ignore_index,
               "cross_entropy", "target {} of row {} is no class: expected 0 to {}, or {} for rows to ignore",
               targets[row], row, options.classes - 1, options.ignore_index);
  }
}

template <class T>
void forward_rows(const CrossEntropyOptions& options, const T* logits, const int64_t* targets, int64_t rows, T* loss,
                  T* row_max, T* log_sum, T* row_weight) {
  const int64_t classes = options.classes;
  const auto* weight = static_cast<const T*>(options.weight);
  const bool smoothing = options.label_smoothing != 0;
  const T hard = static_cast<T>(1 - options.label_smoothing);
  const T even = static_cast<T>(options.label_smoothing / static_cast<double>(classes));
  const T all_weights = smoothing ? total_weight(weight, classes) : T(0);
  parallel_for(rows, std::max<int64_t>(1, kTileElements / std::max<int64_t>(1, classes)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row) {
                   const int64_t target = targets[row];
                   if (target == options.ignore_index) {
                     loss[row] = row_max[row] = log_sum[row] = row_weight[row] = T(0);
                     continue;
                   }
                   const T* x = logits + row * classes;
                   const RowSums<T> sums = row_sums(x, weight, classes, smoothing);
                   const T target_weight = weight ? weight[target] : T(1);
                   const T log = std::log(sums.sum);
                   T value = hard * target_weight * ((sums.max - x[target]) + log);
                   if (smoothing) value += even * (sums.smooth + all_weights * log);
                   loss[row] = value;
                   row_max[row] = sums.max;
                   log_sum[row] = log;
                   row_weight[row] = target_weight;
                 }
               });
}

template <class T>
void backward_rows(const CrossEntropyOptions& options, const T* logits, const int64_t* targets, int64_t rows,
                   const T* row_max, const T* log_sum, const T* scale, int64_t scale_stride, T* dlogits) {
  const int64_t classes = options.classes;
  const auto* weight = static_cast<const T*>(options.weight);
  const T hard = static_cast<T>(1 - options.label_smoothing);
  const T even = static_cast<T>(options.label_smoothing / static_cast<double>(classes));
  const T spread = even * total_weight(weight, classes);
  parallel_for(
      rows, std::max<int64_t>(1, kTileElements / std::max<int64_t>(1, classes)), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          const int64_t target = targets[row];
          T* dx = dlogits + row * classes;
          if (target == options.ignore_index) {
            std::fill_n(dx, classes, T(0));
            continue;
          }
          const T factor = scale[row * scale_stride];
          const T target_part = factor * hard * (weight ? weight[target] : T(1));
          row_gradient(logits + row * classes, weight, classes,
                       RowFactors<T>{row_max[row], log_sum[row], target_part + factor * spread, factor * even}, dx);
          dx[target] -= target_part;
        }
      });
}

void forward(Stream, DType dtype, const CrossEntropyOptions& options, const void* logits, const int64_t* targets,
             int64_t rows, void* loss, void* row_max, void* log_sum, void* row_weight) {
  check_targets(options, targets, rows);
  visit_compute(dtype, "cross_entropy", [&](auto type) {
    using T = typename decltype(type)::type;
    forward_rows(options, static_cast<const T*>(logits), targets, rows, static_cast<T*>(loss), static_cast<T*>(row_max),
                 static_cast<T*>(log_sum), static_cast<T*>(row_weight));
  });
}

void backward(Stream, DType dtype, const CrossEntropyOptions& options, const void* logits, const int64_t* targets,
              int64_t rows, const void* row_max, const void* log_sum, const void* scale, int64_t scale_stride,
              void* dlogits) {
  check_targets(options, targets, rows);  // the caller may have changed them since the forward pass
  visit_compute(dtype, "cross_entropy", [&](auto type) {
    using T = typename decltype(type)::type;
    backward_rows(options, static_cast<const T*>(logits), targets, rows, static_cast<const T*>(row_max),
                  static_cast<const T*>(log_sum), static_cast<const T*>(scale), scale_stride, static_cast<T*>(dlogits));
  });
}

}  // namespace

constinit const LossKernels loss_kernels{forward, backward};

}  // namespace weft::cpu
#endif  // HWY_ONCE
