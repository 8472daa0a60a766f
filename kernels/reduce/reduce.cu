// Device reductions: which op for which entry and dtype. Accumulation is in f64 for all floats, so an f32 sum is off by at
// most half a unit in the last place plus n · 2^-53 · sum|x|. The kernels are in device_walk.h, the arithmetic in
// device_ops.h.
#include "kernels/reduce/reduce.h"

#include <cmath>
#include <limits>

#include "kernels/device_table.h"
#include "kernels/reduce/device_walk.h"

namespace weft::WEFT_DEVICE {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void check_floating(const char* op, DType dtype) {
  if (dtype != DType::f64 && dtype != DType::f32 && dtype != DType::bf16 && dtype != DType::f16)
    fail(ErrorCode::unsupported, op, "expected f64, f32, bf16 or f16, got {}", name(dtype));
}

ExtremeOp<double> extreme(bool largest, bool magnitude) {
  return {.largest = largest, .magnitude = magnitude, .start = largest ? -kInfinity : kInfinity};
}

void reduce(Stream stream, Reduction op, DType dtype, const void* x, const ReduceLayout& layout, void* out) {
  const ReduceOutput output{out, dtype, nullptr};
  const auto go = [&](const auto& with) { reduce_with(stream, with, dtype, x, layout, output); };
  if (dtype == DType::boolean && (op == Reduction::max || op == Reduction::min)) {
    const bool largest = op == Reduction::max;
    return go(ExtremeOp<int64_t>{.largest = largest, .magnitude = false, .start = largest ? 0 : 1});
  }
  if (dtype == DType::i64) {
    using Limits = std::numeric_limits<int64_t>;
    switch (op) {
      case Reduction::sum: return go(SumOp<int64_t>{.mean = false});
      case Reduction::prod: return go(ProductOp<int64_t>{});
      case Reduction::max: return go(ExtremeOp<int64_t>{.largest = true, .magnitude = false, .start = Limits::min()});
      case Reduction::min: return go(ExtremeOp<int64_t>{.largest = false, .magnitude = false, .start = Limits::max()});
      case Reduction::mean:
        fail(ErrorCode::unsupported, "mean", "expected a floating point dtype, got {}", name(dtype));
    }
  }
  check_floating("reduce", dtype);
  switch (op) {
    case Reduction::sum: return go(SumOp<double>{.mean = false});
    case Reduction::mean: return go(SumOp<double>{.mean = true});
    case Reduction::prod: return go(ProductOp<double>{});
    case Reduction::max: return go(extreme(true, false));
    case Reduction::min: return go(extreme(false, false));
  }
}

void arg_reduce(Stream stream, bool largest, DType dtype, const void* x, const ReduceLayout& layout, void* values,
                int64_t* indices) {
  const ReduceOutput output{values, dtype, indices};
  if (dtype == DType::i64) return reduce_with(stream, ArgOp<int64_t>{.largest = largest}, dtype, x, layout, output);
  check_floating(largest ? "argmax" : "argmin", dtype);
  reduce_with(stream, ArgOp<double>{.largest = largest}, dtype, x, layout, output);
}

void logsumexp(Stream stream, DType dtype, const void* x, const ReduceLayout& layout, void* out) {
  check_floating("logsumexp", dtype);
  reduce_with(stream, LogSumExpOp{.wide = dtype == DType::f64}, dtype, x, layout, {out, dtype, nullptr});
}

void norm(Stream stream, DType dtype, const void* x, const ReduceLayout& layout, double p, void* out) {
  check_floating("norm", dtype);
  const ReduceOutput output{out, dtype, nullptr};
  if (std::isinf(p)) return reduce_with(stream, extreme(p > 0, true), dtype, x, layout, output);
  const NormPower power = p == 0 ? NormPower::zero : p == 1 ? NormPower::one : p == 2 ? NormPower::two : NormPower::any;
  reduce_with(stream, NormOp{.power = power, .p = p}, dtype, x, layout, output);
}

void variance(Stream stream, DType dtype, const void* x, const ReduceLayout& layout, double correction, void* out) {
  check_floating("var", dtype);
  reduce_with(stream, VarianceOp{.correction = correction}, dtype, x, layout, {out, dtype, nullptr});
}

}  // namespace

extern constinit const ReduceKernels reduce_kernels = {
    .reduce = reduce,
    .arg_reduce = arg_reduce,
    .logsumexp = logsumexp,
    .norm = norm,
    .variance = variance,
    .scan = scan,
};

}  // namespace weft::WEFT_DEVICE
