// The arithmetic of the reductions, compiled once a Highway target: structs with an accumulator type Acc and the
// functions of ReduceOp (walk.h) in typed form; Erased makes a ReduceOp of one.
#if defined(WEFT_KERNELS_REDUCE_REDUCE_OPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_REDUCE_REDUCE_OPS_INL_H_
#undef WEFT_KERNELS_REDUCE_REDUCE_OPS_INL_H_
#else
#define WEFT_KERNELS_REDUCE_REDUCE_OPS_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/base/simd.h"

#include <hwy/highway.h>

#include "kernels/base/simd_math-inl.h"
#include "kernels/reduce/walk.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
inline constexpr bool kFloating = std::is_floating_point_v<T>;

template <class T>
HWY_INLINE bool is_nan(T x) {
  if constexpr (kFloating<T>)
    return x != x;
  else
    return false;
}

template <class T, class Op>
struct Erased final : ReduceOp {
  using Acc = typename Op::Acc;
  static_assert(sizeof(Acc) <= 24);
  Op op;

  explicit Erased(const Op& o) : ReduceOp(sizeof(T), sizeof(Acc)), op(o) {}
  void identity(void* acc, int64_t n) const override { std::fill_n(static_cast<Acc*>(acc), n, op.identity()); }
  void run(void* acc, const void* x, int64_t n, int64_t stride, int64_t first) const override {
    op.run(*static_cast<Acc*>(acc), static_cast<const T*>(x), n, stride, first);
  }
  void rows(void* acc, int64_t width, const void* x, int64_t rows, int64_t stride, int64_t first) const override {
    op.rows(static_cast<Acc*>(acc), width, static_cast<const T*>(x), rows, stride, first);
  }
  void combine(void* acc, const void* later, int64_t n) const override {
    for (int64_t i = 0; i < n; ++i) op.combine(static_cast<Acc*>(acc)[i], static_cast<const Acc*>(later)[i]);
  }
  void emit(const void* acc, int64_t n, int64_t count, int64_t output) const override {
    for (int64_t i = 0; i < n; ++i) op.emit(static_cast<const Acc*>(acc)[i], count, output + i);
  }
};

template <class T, class Op>
void walk_op(const Op& op, const T* x, const ReduceLayout& layout) {
  walk(Erased<T, Op>(op), x, layout);
}

// i64 sums and products wrap around, as unsigned ones may.
template <class T>
using Wide = std::conditional_t<kFloating<T>, double, uint64_t>;

// --- sums --------------------------------------------------------------------------------------------------------

// The sum of n contiguous floats, n at most 128 vectors: 32 additions a lane, then the lanes.
HWY_INLINE double sum_block(const float* x, int64_t n) {
  const FloatTag d;
  const int64_t lanes = lanes_of(d);
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    s0 = hn::Add(s0, hn::LoadU(d, x + i));
    s1 = hn::Add(s1, hn::LoadU(d, x + i + lanes));
    s2 = hn::Add(s2, hn::LoadU(d, x + i + 2 * lanes));
    s3 = hn::Add(s3, hn::LoadU(d, x + i + 3 * lanes));
  }
  for (; i + lanes <= n; i += lanes) s0 = hn::Add(s0, hn::LoadU(d, x + i));
  if (i < n) s1 = hn::Add(s1, load_part(d, x + i, n - i, 0.0f));
  return sum_lanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
}

template <class T, bool mean>
struct SumOp {
  using Acc = Wide<T>;
  T* out;

  Acc identity() const { return 0; }
  void run(Acc& acc, const T* x, int64_t n, int64_t stride, int64_t) const {
    if constexpr (std::is_same_v<T, float>) {
      if (stride == 1 && n >= 4) {
        const int64_t block = 128 * lanes_of(FloatTag());
        for (int64_t i = 0; i < n; i += block) acc += sum_block(x + i, std::min(block, n - i));
        return;
      }
    }
    Acc s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
      s0 += static_cast<Acc>(x[i * stride]);
      s1 += static_cast<Acc>(x[(i + 1) * stride]);
      s2 += static_cast<Acc>(x[(i + 2) * stride]);
      s3 += static_cast<Acc>(x[(i + 3) * stride]);
    }
    for (; i < n; ++i) s0 += static_cast<Acc>(x[i * stride]);
    acc += (s0 + s1) + (s2 + s3);
  }
  void rows(Acc* acc, int64_t width, const T* x, int64_t rows, int64_t stride, int64_t) const {
    if constexpr (std::is_same_v<T, float>) {
      HWY_ALIGN float sums[kMaxWidth];
      add_rows(sums, width, x, rows, stride);
      for (int64_t j = 0; j < width; ++j) acc[j] += static_cast<double>(sums[j]);
    } else {
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t j = 0; j < width; ++j) acc[j] += static_cast<Acc>(x[r * stride + j]);
    }
  }
  void combine(Acc& acc, const Acc& later) const { acc += later; }
  void emit(const Acc& acc, int64_t count, int64_t k) const {
    if constexpr (mean)
      out[k] = static_cast<T>(acc / static_cast<double>(count));
    else
      out[k] = static_cast<T>(acc);
  }

 private:
  // sums[j] = the sum of column j, in f32, four rows a pass: at most 8 + 2 additions deep.
  static void add_rows(float* HWY_RESTRICT sums, int64_t width, const float* x, int64_t rows, int64_t stride) {
    const FloatTag d;
    int64_t r = rows % 4;
    for_row(d, width, [&](auto load, auto store, int64_t j) HWY_ATTR {
      auto sum = hn::Zero(d);
      for (int64_t i = 0; i < r; ++i) sum = hn::Add(sum, load(x + i * stride + j, 0.0f));
      store(sum, sums + j);
    });
    for (; r < rows; r += 4) {
      const float* x0 = x + r * stride;
      const float* x1 = x0 + stride;
      const float* x2 = x1 + stride;
      const float* x3 = x2 + stride;
      for_row(d, width, [&](auto load, auto store, int64_t j) HWY_ATTR {
        const auto first = hn::Add(load(x0 + j, 0.0f), load(x1 + j, 0.0f));
        const auto second = hn::Add(load(x2 + j, 0.0f), load(x3 + j, 0.0f));
        store(hn::Add(load(sums + j, 0.0f), hn::Add(first, second)), sums + j);
      });
    }
  }
};

template <class T>
struct ProdOp {
  using Acc = Wide<T>;
  T* out;

  Acc identity() const { return 1; }
  void run(Acc& acc, const T* x, int64_t n, int64_t stride, int64_t) const {
    for (int64_t i = 0; i < n; ++i) acc *= static_cast<Acc>(x[i * stride]);
  }
  void rows(Acc* acc, int64_t width, const T* x, int64_t rows, int64_t stride, int64_t) const {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < width; ++j) acc[j] *= static_cast<Acc>(x[r * stride + j]);
  }
  void combine(Acc& acc, const Acc& later) const { acc *= later; }
  void emit(const Acc& acc, int64_t, int64_t k) const { out[k] = static_cast<T>(acc); }
};

// --- largest and smallest ----------------------------------------------------------------------------------------

// The value that wins: a NaN once there is one.
template <bool largest, class T>
HWY_INLINE T better_value(T acc, T x) {
  if constexpr (kFloating<T>) {
    if (acc != acc) return acc;
    if constexpr (largest)
      return acc >= x ? acc : x;
    else
      return acc <= x ? acc : x;
  } else {
    if constexpr (largest)
      return acc >= x ? acc : x;
    else
      return acc <= x ? acc : x;
  }
}

// The same over n contiguous floats.
template <bool largest>
HWY_INLINE float extreme_block(const float* x, int64_t n) {
  constexpr float start = largest ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
  const FloatTag d;
  const int64_t lanes = lanes_of(d);
  const auto pick = [](FloatVector a, FloatVector b) HWY_ATTR {
    if constexpr (largest)
      return hn::Max(a, b);
    else
      return hn::Min(a, b);
  };
  auto m0 = hn::Set(d, start), m1 = m0;
  auto nan0 = hn::Zero(d), nan1 = nan0;  // a lane turns NaN where one was met
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto a = hn::LoadU(d, x + i);
    const auto b = hn::LoadU(d, x + i + lanes);
    m0 = pick(m0, a);
    m1 = pick(m1, b);
    nan0 = hn::IfThenElse(hn::IsNaN(a), a, nan0);
    nan1 = hn::IfThenElse(hn::IsNaN(b), b, nan1);
  }
  for (; i < n; i += lanes) {
    const auto a = i + lanes <= n ? hn::LoadU(d, x + i) : load_part(d, x + i, n - i, start);
    m0 = pick(m0, a);
    nan0 = hn::IfThenElse(hn::IsNaN(a), a, nan0);
  }
  const float nan = sum_lanes(d, hn::Add(nan0, nan1));
  if (nan != nan) return nan;
  return largest ? max_lanes(d, pick(m0, m1)) : hn::GetLane(hn::MinOfLanes(d, pick(m0, m1)));
}

// The largest (smallest) x, or |x| where `magnitude`.
template <class T, bool largest, bool magnitude = false>
struct ExtremeOp {
  using Acc = T;
  T* out;

  static T value(T x) {
    if constexpr (magnitude)
      return std::abs(x);
    else
      return x;
  }
  Acc identity() const {
    if constexpr (kFloating<T>)
      return largest ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::infinity();
    else
      return largest ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max();
  }
  void run(Acc& acc, const T* x, int64_t n, int64_t stride, int64_t) const {
    if constexpr (std::is_same_v<T, float> && !magnitude) {
      if (stride == 1) {
        acc = better_value<largest>(acc, extreme_block<largest>(x, n));
        return;
      }
    }
    for (int64_t i = 0; i < n; ++i) acc = better_value<largest>(acc, value(x[i * stride]));
  }
  void rows(Acc* HWY_RESTRICT acc, int64_t width, const T* x, int64_t rows, int64_t stride, int64_t) const {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < width; ++j) acc[j] = better_value<largest>(acc[j], value(x[r * stride + j]));
  }
  void combine(Acc& acc, const Acc& later) const { acc = better_value<largest>(acc, later); }
  void emit(const Acc& acc, int64_t count, int64_t k) const {
    if constexpr (magnitude)
      out[k] = count == 0 ? T(0) : acc;
    else
      out[k] = acc;
  }
};

template <class T, bool largest>
struct ArgOp {
  struct Acc {
    T value;
    int64_t index;  // -1: nothing yet
  };
  T* values;  // may be null
  int64_t* indices;

  static bool better(T x, const Acc& acc) {
    if (acc.index < 0) return true;
    if (is_nan(acc.value)) return false;
    return is_nan(x) || (largest ? x > acc.value : x < acc.value);
  }
  Acc identity() const { return {T(0), -1}; }
  void run(Acc& acc, const T* x, int64_t n, int64_t stride, int64_t first) const {
    if constexpr (std::is_same_v<T, float>) {
      if (stride == 1 && n >= 16) {
        // The extreme of a block first; only a block that beats all before is searched for the place.
        constexpr int64_t block = 1024;
        for (int64_t at = 0; at < n; at += block) {
          const int64_t size = std::min(block, n - at);
          const T extreme = extreme_block<largest>(x + at, size);
          if (!better(extreme, acc)) continue;
          int64_t i = at;
          while (!(x[i] == extreme || (is_nan(extreme) && is_nan(x[i])))) ++i;
          acc = {x[i], first + i};
        }
        return;
      }
    }
    for (int64_t i = 0; i < n; ++i)
      if (better(x[i * stride], acc)) acc = {x[i * stride], first + i};
  }
  void rows(Acc* acc, int64_t width, const T* x, int64_t rows, int64_t stride, int64_t first) const {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < width; ++j)
        if (better(x[r * stride + j], acc[j])) acc[j] = {x[r * stride + j], first + r};
  }
  void combine(Acc& acc, const Acc& later) const {
    if (later.index >= 0 && better(later.value, acc)) acc = later;
  }
  void emit(const Acc& acc, int64_t, int64_t k) const {
    if (values) values[k] = acc.value;
    indices[k] = acc.index;
  }
};

// --- logsumexp ---------------------------------------------------------------------------------------------------

// sum(exp(x)) as sum · exp(shift), with a finite shift (-inf while there is nothing); an infinite or NaN sum stays.
struct ExpSum {
  double shift;
  double sum;

  void add(double other_shift, double other_sum) {
    if (other_sum == 0) return;
    if (!std::isfinite(sum) || !std::isfinite(other_sum)) {
      sum += other_sum;
      shift = 0;
      return;
    }
    const double top = std::max(shift, other_shift);
    sum = sum * std::exp(shift - top) + other_sum * std::exp(other_shift - top);
    shift = top;
  }
};

template <class T>
struct LogSumExpOp {
  using Acc = ExpSum;
  T* out;

  Acc identity() const { return {-std::numeric_limits<double>::infinity(), 0}; }
  void run(Acc& acc, const T* x, int64_t n, int64_t stride, int64_t) const {
    constexpr int64_t block = 4096;
    for (int64_t i = 0; i < n; i += block) add_block(acc, x + i * stride, std::min(block, n - i), stride);
  }
  void rows(Acc* acc, int64_t width, const T* x, int64_t rows, int64_t stride, int64_t) const {
    T top[kMaxWidth];
    double sum[kMaxWidth];
    std::fill_n(top, width, -std::numeric_limits<T>::infinity());
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < width; ++j) top[j] = x[r * stride + j] > top[j] ? x[r * stride + j] : top[j];
    for (int64_t j = 0; j < width; ++j) top[j] = std::isfinite(top[j]) ? top[j] : T(0);
    std::fill_n(sum, width, 0.0);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < width; ++j) sum[j] += std::exp(x[r * stride + j] - top[j]);
    for (int64_t j = 0; j < width; ++j) acc[j].add(top[j], sum[j]);
  }
  void combine(Acc& acc, const Acc& later) const { acc.add(later.shift, later.sum); }
  void emit(const Acc& acc, int64_t, int64_t k) const {
    out[k] = static_cast<T>(acc.sum == 0 ? -std::numeric_limits<double>::infinity() : acc.shift + std::log(acc.sum));
  }

 private:
  static void add_block(Acc& acc, const T* x, int64_t n, int64_t stride) {
    if constexpr (std::is_same_v<T, float>) {
      if (stride == 1 && n >= 8) {
        const FloatTag d;
        const float top = row_max(d, x, n);
        if (std::isfinite(top)) {
          const auto shift = hn::Set(d, top);
          auto sum = hn::Zero(d);
          for_row(d, n, [&](auto load, auto, int64_t i) HWY_ATTR {
            sum = hn::Add(sum, exp_at_most_88(d, hn::Sub(load(x + i, -std::numeric_limits<float>::infinity()), shift)));
          });
          acc.add(top, sum_lanes(d, sum));
          return;
        }
      }
    }
    T top = -std::numeric_limits<T>::infinity();
    for (int64_t i = 0; i < n; ++i) top = x[i * stride] > top ? x[i * stride] : top;
    const T shift = std::isfinite(top) ? top : T(0);
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i * stride] - shift);
    acc.add(shift, sum);
  }
};

// --- norms and variance ------------------------------------------------------------------------------------------

enum class Power { zero, one, two, any };

template <class T, Power power>
struct NormOp {
  using Acc = double;
  T* out;
  double p;

  double term(T x) const {
    const double v = static_cast<double>(x);
    if constexpr (power == Power::zero) return v != 0 ? 1.0 : 0.0;
    if constexpr (power == Power::one) return std::abs(v);
    if constexpr (power == Power::two) return v * v;
    return std::pow(std::abs(v), p);
  }
  Acc identity() const { return 0; }
  void run(Acc& acc, const T* x, int64_t n, int64_t stride, int64_t) const {
    int64_t i = 0;
    if constexpr (std::is_same_v<T, float> && power == Power::two) {
      if (stride == 1) {
        const hn::ScalableTag<double> d;
        const hn::Rebind<float, decltype(d)> narrow;
        const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
        auto s0 = hn::Zero(d), s1 = s0;
        for (; i + 2 * lanes <= n; i += 2 * lanes) {
          const auto a = hn::PromoteTo(d, hn::LoadU(narrow, x + i));
          const auto b = hn::PromoteTo(d, hn::LoadU(narrow, x + i + lanes));
          s0 = hn::MulAdd(a, a, s0);
          s1 = hn::MulAdd(b, b, s1);
        }
        acc += hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, s1)));
      }
    }
    double s0 = 0, s1 = 0;
    for (; i + 2 <= n; i += 2) {
      s0 += term(x[i * stride]);
      s1 += term(x[(i + 1) * stride]);
    }
    if (i < n) s0 += term(x[i * stride]);
    acc += s0 + s1;
  }
  void rows(Acc* HWY_RESTRICT acc, int64_t width, const T* x, int64_t rows, int64_t stride, int64_t) const {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < width; ++j) acc[j] += term(x[r * stride + j]);
  }
  void combine(Acc& acc, const Acc& later) const { acc += later; }
  void emit(const Acc& acc, int64_t, int64_t k) const {
    if constexpr (power == Power::two)
      out[k] = static_cast<T>(std::sqrt(acc));
    else if constexpr (power == Power::any)
      out[k] = static_cast<T>(std::pow(acc, 1 / p));
    else
      out[k] = static_cast<T>(acc);
  }
};

struct Moments {
  double count;
  double mean;
  double squares;  // sum of (x - mean)^2

  void add(double n, double other_mean, double other_squares) {
    if (n == 0) return;
    const double total = count + n;
    const double delta = other_mean - mean;
    mean += delta * (n / total);
    squares += other_squares + delta * delta * (count * n / total);
    count = total;
  }
};

template <class T>
struct VarianceOp {
  using Acc = Moments;
  T* out;
  double correction;

  Acc identity() const { return {0, 0, 0}; }
  void run(Acc& acc, const T* x, int64_t n, int64_t stride, int64_t) const {
    constexpr int64_t block = 1024;
    for (int64_t i = 0; i < n; i += block) {
      const int64_t size = std::min(block, n - i);
      const T* b = x + i * stride;
      const double mean =
          sum(size, [&](int64_t j) { return static_cast<double>(b[j * stride]); }) / static_cast<double>(size);
      const double squares = sum(size, [&](int64_t j) {
        const double delta = static_cast<double>(b[j * stride]) - mean;
        return delta * delta;
      });
      acc.add(static_cast<double>(size), mean, squares);
    }
  }
  void rows(Acc* acc, int64_t width, const T* x, int64_t rows, int64_t stride, int64_t) const {
    double mean[kMaxWidth] = {};
    double squares[kMaxWidth] = {};
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < width; ++j) mean[j] += static_cast<double>(x[r * stride + j]);
    for (int64_t j = 0; j < width; ++j) mean[j] /= static_cast<double>(rows);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t j = 0; j < width; ++j) {
        const double delta = static_cast<double>(x[r * stride + j]) - mean[j];
        squares[j] += delta * delta;
      }
    }
    for (int64_t j = 0; j < width; ++j) acc[j].add(static_cast<double>(rows), mean[j], squares[j]);
  }
  void combine(Acc& acc, const Acc& later) const { acc.add(later.count, later.mean, later.squares); }
  void emit(const Acc& acc, int64_t, int64_t k) const {
    out[k] = static_cast<T>(acc.squares / std::max(0.0, acc.count - correction));
  }

 private:
  template <class F>
  static double sum(int64_t n, F&& term) {
    double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
      s0 += term(i);
      s1 += term(i + 1);
      s2 += term(i + 2);
      s3 += term(i + 3);
    }
    for (; i < n; ++i) s0 += term(i);
    return (s0 + s1) + (s2 + s3);
  }
};

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
