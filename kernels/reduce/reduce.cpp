// f32 sums, extremes, logsumexp and 2-norms have vector code, compiled for every Highway target; the rest is compiled
// once, for the baseline.
#include "kernels/reduce/reduce.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce/reduce.cpp"
#include "kernels/base/simd.h"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/base/parallel.h"
#include "kernels/reduce/reduce_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

template <class T>
void reduce_typed(Reduction op, const T* x, const ReduceLayout& layout, T* out) {
  switch (op) {
    case Reduction::sum: return walk_op(SumOp<T, false>{out}, x, layout);
    case Reduction::mean:
      if constexpr (kFloating<T>) return walk_op(SumOp<T, true>{out}, x, layout);
      break;
    case Reduction::prod: return walk_op(ProdOp<T>{out}, x, layout);
    case Reduction::max: return walk_op(ExtremeOp<T, true>{out}, x, layout);
    case Reduction::min: return walk_op(ExtremeOp<T, false>{out}, x, layout);
  }
  fail(ErrorCode::unsupported, "mean", "expected a floating point dtype, got {}", dtype_of<T>);
}

template <class T>
void arg_reduce_typed(bool largest, const T* x, const ReduceLayout& layout, T* values, int64_t* indices) {
  if (largest)
    walk_op(ArgOp<T, true>{values, indices}, x, layout);
  else
    walk_op(ArgOp<T, false>{values, indices}, x, layout);
}

template <class T>
void logsumexp_typed(const T* x, const ReduceLayout& layout, T* out) {
  walk_op(LogSumExpOp<T>{out}, x, layout);
}

template <class T>
void norm_2_typed(const T* x, const ReduceLayout& layout, T* out) {
  walk_op(NormOp<T, Power::two>{out, 2}, x, layout);
}

void reduce_f32(Reduction op, const float* x, const ReduceLayout& layout, float* out) {
  reduce_typed(op, x, layout, out);
}
void arg_reduce_f32(bool largest, const float* x, const ReduceLayout& layout, float* values, int64_t* indices) {
  arg_reduce_typed(largest, x, layout, values, indices);
}
void logsumexp_f32(const float* x, const ReduceLayout& layout, float* out) { logsumexp_typed(x, layout, out); }
void norm_2_f32(const float* x, const ReduceLayout& layout, float* out) { norm_2_typed(x, layout, out); }

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
namespace {

namespace baseline = HWY_NAMESPACE;
WEFT_EXPORT(reduce_f32);
WEFT_EXPORT(arg_reduce_f32);
WEFT_EXPORT(logsumexp_f32);
WEFT_EXPORT(norm_2_f32);

void reduce(Stream, Reduction op, DType dtype, const void* x, const ReduceLayout& layout, void* out) {
  const auto walk_bool = [&](auto&& any_or_all) { baseline::walk_op(any_or_all, static_cast<const bool*>(x), layout); };
  switch (dtype) {
    case DType::f32:
      return WEFT_DISPATCH(reduce_f32)(op, static_cast<const float*>(x), layout, static_cast<float*>(out));
    case DType::f64:
      return baseline::reduce_typed(op, static_cast<const double*>(x), layout, static_cast<double*>(out));
    case DType::i64:
      return baseline::reduce_typed(op, static_cast<const int64_t*>(x), layout, static_cast<int64_t*>(out));
    case DType::boolean:
      if (op == Reduction::max) return walk_bool(baseline::ExtremeOp<bool, true>{static_cast<bool*>(out)});
      if (op == Reduction::min) return walk_bool(baseline::ExtremeOp<bool, false>{static_cast<bool*>(out)});
      break;
    default: break;
  }
  fail(ErrorCode::unsupported, "reduce", "no kernel for dtype {}", dtype);
}

void arg_reduce(Stream, bool largest, DType dtype, const void* input, const ReduceLayout& layout, void* out,
                int64_t* indices) {
  if (dtype == DType::i64) {
    baseline::arg_reduce_typed(largest, static_cast<const int64_t*>(input), layout, static_cast<int64_t*>(out),
                               indices);
    return;
  }
  visit_compute(dtype, largest ? "argmax" : "argmin", [&](auto type) {
    using T = typename decltype(type)::type;
    const T* x = static_cast<const T*>(input);
    if constexpr (std::is_same_v<T, float>)
      WEFT_DISPATCH(arg_reduce_f32)(largest, x, layout, static_cast<T*>(out), indices);
    else
      baseline::arg_reduce_typed(largest, x, layout, static_cast<T*>(out), indices);
  });
}

void logsumexp(Stream, DType dtype, const void* input, const ReduceLayout& layout, void* out) {
  visit_compute(dtype, "logsumexp", [&](auto type) {
    using T = typename decltype(type)::type;
    const T* x = static_cast<const T*>(input);
    if constexpr (std::is_same_v<T, float>)
      WEFT_DISPATCH(logsumexp_f32)(x, layout, static_cast<T*>(out));
    else
      baseline::logsumexp_typed(x, layout, static_cast<T*>(out));
  });
}

void norm(Stream, DType dtype, const void* input, const ReduceLayout& layout, double p, void* output) {
  visit_compute(dtype, "norm", [&](auto type) {
    using T = typename decltype(type)::type;
    using baseline::Power;
    const T* x = static_cast<const T*>(input);
    T* out = static_cast<T*>(output);
    if (p == 2) {
      if constexpr (std::is_same_v<T, float>)
        WEFT_DISPATCH(norm_2_f32)(x, layout, out);
      else
        baseline::norm_2_typed(x, layout, out);
    } else if (p == 1) {
      baseline::walk_op(baseline::NormOp<T, Power::one>{out, p}, x, layout);
    } else if (p == 0) {
      baseline::walk_op(baseline::NormOp<T, Power::zero>{out, p}, x, layout);
    } else if (std::isinf(p) && p > 0) {
      baseline::walk_op(baseline::ExtremeOp<T, true, true>{out}, x, layout);
    } else if (std::isinf(p)) {
      baseline::walk_op(baseline::ExtremeOp<T, false, true>{out}, x, layout);
    } else {
      baseline::walk_op(baseline::NormOp<T, Power::any>{out, p}, x, layout);
    }
  });
}

void variance(Stream, DType dtype, const void* x, const ReduceLayout& layout, double correction, void* out) {
  visit_compute(dtype, "var", [&](auto type) {
    using T = typename decltype(type)::type;
    baseline::walk_op(baseline::VarianceOp<T>{static_cast<T*>(out), correction}, static_cast<const T*>(x), layout);
  });
}

template <class T>
void scan_typed(Scan op, const T* x, T* out, int64_t outer, int64_t size, int64_t inner) {
  using Acc = baseline::Wide<T>;
  constexpr int64_t width = 64;
  const int64_t tiles = (inner + width - 1) / width;
  const int64_t work = std::max<int64_t>(1, size * std::min(width, inner));
  parallel_for(outer * tiles, std::max<int64_t>(1, kGrain / work), [&](int64_t begin, int64_t end) {
    Acc acc[width];
    for (int64_t i = begin; i < end; ++i) {
      const int64_t column = i % tiles * width;
      const int64_t n = std::min(width, inner - column);
      const int64_t base = i / tiles * size * inner + column;
      std::fill_n(acc, n, op == Scan::sum ? Acc(0) : Acc(1));
      for (int64_t r = 0; r < size; ++r) {
        for (int64_t j = 0; j < n; ++j) {
          const Acc value = static_cast<Acc>(x[base + r * inner + j]);
          acc[j] = op == Scan::sum ? acc[j] + value : acc[j] * value;
          out[base + r * inner + j] = static_cast<T>(acc[j]);
        }
      }
    }
  });
}

void scan(Stream, Scan op, DType dtype, const void* x, void* out, int64_t outer, int64_t size, int64_t inner) {
  if (dtype == DType::i64)
    return scan_typed(op, static_cast<const int64_t*>(x), static_cast<int64_t*>(out), outer, size, inner);
  visit_compute(dtype, op == Scan::sum ? "cumsum" : "cumprod", [&](auto type) {
    using T = typename decltype(type)::type;
    scan_typed(op, static_cast<const T*>(x), static_cast<T*>(out), outer, size, inner);
  });
}

}  // namespace

const ReduceKernels reduce_kernels = {
    .reduce = reduce,
    .arg_reduce = arg_reduce,
    .logsumexp = logsumexp,
    .norm = norm,
    .variance = variance,
    .scan = scan,
};

}  // namespace weft::cpu
#endif
