// The arithmetic of the device reductions: an accumulator type Acc (a multiple of 8 bytes) and
//
//   identity()                          an accumulator that has seen nothing
//   add(acc, value, index, first)       one more element, the index-th; `first` is the value of element 0
//   merge(acc, other)                   two accumulators, in any order
//   emit(acc, count, out, k)            writes output k, of `count` elements
//
// Values are double for f64, f32, bf16 and f16, and int64_t for i64 and bool: a kernel a class, not a dtype.
#pragma once
#include <cmath>
#include <limits>

#include "kernels/copy/device_convert.h"
#include "kernels/simt/simt.h"

namespace weft::WEFT_DEVICE {
namespace {

struct ReduceOutput {
  void* values;  // may be null where there are indices
  DType dtype;
  int64_t* indices;
};

// Sums and products of i64 wrap around, as unsigned ones may.
template <class C>
using WideSum = std::conditional_t<std::is_same_v<C, double>, double, uint64_t>;

template <class C>
struct SumOp {
  using Value = C;
  using Acc = WideSum<C>;
  static constexpr bool kNeedsFirst = false;
  bool mean;

  __device__ Acc identity() const { return 0; }
  __device__ __forceinline__ void add(Acc& acc, C value, int64_t, C) const { acc += static_cast<Acc>(value); }
  __device__ void merge(Acc& acc, const Acc& other) const { acc += other; }
  __device__ void emit(const Acc& acc, int64_t count, const ReduceOutput& out, int64_t k) const {
    C result = static_cast<C>(acc);
    if constexpr (std::is_same_v<C, double>)
      if (mean) result /= static_cast<double>(count);
    store_as<C>(out.dtype, out.values, k, result);
  }
};

template <class C>
struct ProductOp {
  using Value = C;
  using Acc = WideSum<C>;
  static constexpr bool kNeedsFirst = false;

  __device__ Acc identity() const { return 1; }
  __device__ __forceinline__ void add(Acc& acc, C value, int64_t, C) const { acc *= static_cast<Acc>(value); }
  __device__ void merge(Acc& acc, const Acc& other) const { acc *= other; }
  __device__ void emit(const Acc& acc, int64_t, const ReduceOutput& out, int64_t k) const {
    store_as<C>(out.dtype, out.values, k, static_cast<C>(acc));
  }
};

// The largest (smallest) value, or absolute value where `magnitude`; a NaN once there is one.
template <class C>
struct ExtremeOp {
  using Value = C;
  using Acc = C;
  static constexpr bool kNeedsFirst = false;
  bool largest;
  bool magnitude;
  C start;  // the result over no elements

  __device__ Acc identity() const { return start; }
  __device__ __forceinline__ void add(Acc& acc, C value, int64_t, C) const {
    if (magnitude && value < 0) value = -value;
    merge(acc, value);
  }
  __device__ __forceinline__ void merge(Acc& acc, const Acc& other) const {
    if (acc != acc) return;
    const bool keep = largest ? acc >= other : acc <= other;
    if (!keep) acc = other;
  }
  __device__ void emit(const Acc& acc, int64_t count, const ReduceOutput& out, int64_t k) const {
    store_as<C>(out.dtype, out.values, k, magnitude && count == 0 ? C(0) : acc);
  }
};

// As ExtremeOp, with the lowest index that has the value.
template <class C>
struct ArgOp {
  using Value = C;
  struct Acc {
    C value;
    int64_t index;  // -1: nothing yet
  };
  static constexpr bool kNeedsFirst = false;
  bool largest;

  __device__ Acc identity() const { return {C(0), -1}; }
  __device__ __forceinline__ void add(Acc& acc, C value, int64_t index, C) const { merge(acc, {value, index}); }
  __device__ __forceinline__ void merge(Acc& acc, const Acc& other) const {
    if (other.index < 0) return;
    const bool nan = other.value != other.value, old_nan = acc.value != acc.value;
    bool better = largest ? other.value > acc.value : other.value < acc.value;
    if (nan || old_nan) better = nan && !old_nan;
    const bool equal = other.value == acc.value || (nan && old_nan);
    if (acc.index < 0 || better || (equal && other.index < acc.index)) acc = other;
  }
  __device__ void emit(const Acc& acc, int64_t, const ReduceOutput& out, int64_t k) const {
    if (out.values != nullptr) store_as<C>(out.dtype, out.values, k, acc.value);
    out.indices[k] = acc.index;
  }
};

// sum(exp(x)) as sum · exp(top) with the largest finite x so far; what is infinite or NaN goes to `special`.
struct LogSumExpOp {
  using Value = double;
  struct Acc {
    double top;
    double sum;
    double special;
  };
  static constexpr bool kNeedsFirst = false;
  bool wide;  // x is f64: exp in f64; in f32 it is faster

  __device__ __forceinline__ double exponential_of(double x) const {
    return wide ? std::exp(x) : static_cast<double>(std::exp(static_cast<float>(x)));
  }
  __device__ Acc identity() const { return {-INFINITY, 0, 0}; }
  __device__ __forceinline__ void add(Acc& acc, double x, int64_t, double) const {
    if (!(x < INFINITY)) {
      acc.special += x;
    } else if (x > acc.top) {
      acc.sum = acc.sum * exponential_of(acc.top - x) + 1;
      acc.top = x;
    } else if (x > -INFINITY) {
      acc.sum += exponential_of(x - acc.top);
    }
  }
  __device__ void merge(Acc& acc, const Acc& other) const {
    acc.special += other.special;
    if (other.sum == 0) return;
    const double top = acc.top > other.top ? acc.top : other.top;
    acc.sum = acc.sum * exponential_of(acc.top - top) + other.sum * exponential_of(other.top - top);
    acc.top = top;
  }
  __device__ void emit(const Acc& acc, int64_t, const ReduceOutput& out, int64_t k) const {
    double result = acc.special;
    if (result == 0) result = acc.sum == 0 ? -INFINITY : acc.top + std::log(acc.sum);
    store_as<double>(out.dtype, out.values, k, result);
  }
};

enum class NormPower { zero, one, two, any };

struct NormOp {
  using Value = double;
  using Acc = double;
  static constexpr bool kNeedsFirst = false;
  NormPower power;
  double p;

  __device__ Acc identity() const { return 0; }
  __device__ __forceinline__ void add(Acc& acc, double x, int64_t, double) const {
    switch (power) {
      case NormPower::zero: acc += x != 0 ? 1.0 : 0.0; return;
      case NormPower::one: acc += std::abs(x); return;
      case NormPower::two: acc += x * x; return;
      case NormPower::any: acc += std::pow(std::abs(x), p); return;
    }
  }
  __device__ void merge(Acc& acc, const Acc& other) const { acc += other; }
  __device__ void emit(const Acc& acc, int64_t, const ReduceOutput& out, int64_t k) const {
    double result = acc;
    if (power == NormPower::two) result = std::sqrt(acc);
    if (power == NormPower::any) result = std::pow(acc, 1 / p);
    store_as<double>(out.dtype, out.values, k, result);
  }
};

// Sums of x - first and of its square. sum((x - mean)²) is their difference, where little cancels: by as much as the
// first element is off, the variance is large (relative error at most a few n · 2^-53).
struct VarianceOp {
  using Value = double;
  struct Acc {
    double sum;
    double squares;
  };
  static constexpr bool kNeedsFirst = true;
  double correction;

  __device__ Acc identity() const { return {0, 0}; }
  __device__ __forceinline__ void add(Acc& acc, double x, int64_t, double first) const {
    const double shifted = x - first;
    acc.sum += shifted;
    acc.squares += shifted * shifted;
  }
  __device__ void merge(Acc& acc, const Acc& other) const {
    acc.sum += other.sum;
    acc.squares += other.squares;
  }
  __device__ void emit(const Acc& acc, int64_t count, const ReduceOutput& out, int64_t k) const {
    const double n = static_cast<double>(count);
    double squares = count == 0 ? 0 : acc.squares - acc.sum * acc.sum / n;
    if (squares < 0) squares = 0;
    const double degrees = n - correction;
    store_as<double>(out.dtype, out.values, k, squares / (degrees > 0 ? degrees : 0));
  }
};

}  // namespace
}  // namespace weft::WEFT_DEVICE
