#include "kernels/softmax/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/base/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/softmax/softmax.cpp"
#include "kernels/base/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/base/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

// Rows are contiguous: the passes over a row find it in the cache after the first.
void softmax_rows(const float* x, float* y, int64_t rows, int64_t size, bool log) {
  const FloatTag d;
  for (int64_t row = 0; row < rows; ++row, x += size, y += size) {
    const float largest = row_max(d, x, size);
    const auto shift = hn::Set(d, largest);
    auto sum = hn::Zero(d);
    if (log) {
      for_row(d, size, [&](auto load, auto, int64_t i) HWY_ATTR {
        // A lane behind the row's end holds -inf: its exp is 0 as long as the row's maximum is finite.
        const auto e = exp_at_most_88(d, hn::Sub(load(x + i, -std::numeric_limits<float>::infinity()), shift));
        sum = hn::Add(sum, e);
      });
      const auto log_sum = hn::Set(d, std::log(sum_lanes(d, sum)));
      for_row(d, size, [&](auto load, auto store, int64_t i) HWY_ATTR {
        store(hn::Sub(hn::Sub(load(x + i, 0.0f), shift), log_sum), y + i);
      });
    } else {
      for_row(d, size, [&](auto load, auto store, int64_t i) HWY_ATTR {
        const auto e = exp_at_most_88(d, hn::Sub(load(x + i, -std::numeric_limits<float>::infinity()), shift));
        sum = hn::Add(sum, e);
        store(e, y + i);
      });
      const auto factor = hn::Set(d, 1.0f / sum_lanes(d, sum));
      for_row(d, size,
              [&](auto load, auto store, int64_t i) HWY_ATTR { store(hn::Mul(load(y + i, 0.0f), factor), y + i); });
    }
  }
}

void softmax_backward_rows(const float* y, const float* dy, float* dx, int64_t rows, int64_t size, bool log) {
  const FloatTag d;
  for (int64_t row = 0; row < rows; ++row, y += size, dy += size, dx += size) {
    auto partial = hn::Zero(d);
    if (log) {
      for_row(d, size, [&](auto load, auto, int64_t i) HWY_ATTR { partial = hn::Add(partial, load(dy + i, 0.0f)); });
      const auto sum = hn::Set(d, sum_lanes(d, partial));
      for_row(d, size, [&](auto load, auto store, int64_t i) HWY_ATTR {
        store(hn::NegMulAdd(exp_at_most_88(d, load(y + i, 0.0f)), sum, load(dy + i, 0.0f)), dx + i);
      });
    } else {
      for_row(d, size, [&](auto load, auto, int64_t i) HWY_ATTR {
        partial = hn::MulAdd(load(y + i, 0.0f), load(dy + i, 0.0f), partial);
      });
      const auto sum = hn::Set(d, sum_lanes(d, partial));
      for_row(d, size, [&](auto load, auto store, int64_t i) HWY_ATTR {
        store(hn::Mul(load(y + i, 0.0f), hn::Sub(load(dy + i, 0.0f), sum)), dx + i);
      });
    }
  }
}

// f(0) + … + f(size - 1) in blocks, so that rounding errors do not grow with the length of a column.
template <class F>
HWY_INLINE FloatVector blocked_sum(FloatTag d, int64_t size, F&& f) {
  constexpr int64_t block = 32;
  auto sum = hn::Zero(d);
  for (int64_t begin = 0; begin < size; begin += block) {
    auto part = hn::Zero(d);
    for (int64_t i = begin; i < std::min(size, begin + block); ++i) part = hn::Add(part, f(i));
    sum = hn::Add(sum, part);
  }
  return sum;
}

// `width` neighbouring columns of [size, inner]: a lane is a column.
void softmax_columns(const float* x, float* y, int64_t size, int64_t inner, int64_t width, bool log) {
  const FloatTag d;
  for_row(d, width, [&](auto load, auto store, int64_t c) HWY_ATTR {
    auto shift = hn::Set(d, -std::numeric_limits<float>::infinity());
    for (int64_t i = 0; i < size; ++i) shift = hn::Max(shift, load(x + i * inner + c, 0.0f));
    const auto sum = blocked_sum(d, size, [&](int64_t i) HWY_ATTR {
      const auto e = exp_at_most_88(d, hn::Sub(load(x + i * inner + c, 0.0f), shift));
      if (!log) store(e, y + i * inner + c);
      return e;
    });
    if (log) {
      HWY_ALIGN float sums[HWY_MAX_BYTES / sizeof(float)];
      hn::Store(sum, d, sums);
      for (int64_t lane = 0; lane < lanes_of(d); ++lane) sums[lane] = std::log(sums[lane]);
      const auto log_sum = hn::Load(d, sums);
      for (int64_t i = 0; i < size; ++i)
        store(hn::Sub(hn::Sub(load(x + i * inner + c, 0.0f), shift), log_sum), y + i * inner + c);
    } else {
      const auto factor = hn::Div(hn::Set(d, 1.0f), sum);
      for (int64_t i = 0; i < size; ++i) store(hn::Mul(load(y + i * inner + c, 0.0f), factor), y + i * inner + c);
    }
  });
}

void softmax_backward_columns(const float* y, const float* dy, float* dx, int64_t size, int64_t inner, int64_t width,
                              bool log) {
  const FloatTag d;
  for_row(d, width, [&](auto load, auto store, int64_t c) HWY_ATTR {
    const auto sum = blocked_sum(d, size, [&](int64_t i) HWY_ATTR {
      const auto g = load(dy + i * inner + c, 0.0f);
      return log ? g : hn::Mul(load(y + i * inner + c, 0.0f), g);
    });
    for (int64_t i = c; i < size * inner; i += inner) {
      const auto out = load(y + i, 0.0f);
      const auto g = load(dy + i, 0.0f);
      store(log ? hn::NegMulAdd(exp_at_most_88(d, out), sum, g) : hn::Mul(out, hn::Sub(g, sum)), dx + i);
    }
  });
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
namespace {

WEFT_EXPORT(softmax_rows);
WEFT_EXPORT(softmax_backward_rows);
WEFT_EXPORT(softmax_columns);
WEFT_EXPORT(softmax_backward_columns);

constexpr int64_t kTileElements = 16384;  // about what pays for waking a thread
constexpr int64_t kColumns = 64;          // neighbouring columns a tile takes when the axis is not the last

void softmax_forward_f64(const double* x, double* y, int64_t size, int64_t inner, bool log) {
  double largest = -std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < size; ++i) largest = std::max(largest, x[i * inner]);
  double sum = 0;
  for (int64_t i = 0; i < size; ++i) sum += std::exp(x[i * inner] - largest);
  const double log_sum = std::log(sum);
  for (int64_t i = 0; i < size; ++i) {
    const double shifted = x[i * inner] - largest;
    y[i * inner] = log ? shifted - log_sum : std::exp(shifted) / sum;
  }
}

void softmax_backward_f64(const double* y, const double* dy, double* dx, int64_t size, int64_t inner, bool log) {
  double sum = 0;
  for (int64_t i = 0; i < size; ++i) sum += log ? dy[i * inner] : y[i * inner] * dy[i * inner];
  for (int64_t i = 0; i < size * inner; i += inner) dx[i] = log ? dy[i] - std::exp(y[i]) * sum : y[i] * (dy[i] - sum);
}

// Calls rows(first element, row count) where the axis is the last, and columns(first element, width) where it is not.
template <class Rows, class Columns>
void for_tiles(int64_t outer, int64_t size, int64_t inner, Rows&& rows, Columns&& columns) {
  if (size == 0 || inner == 0) return;
  if (inner == 1) {
    parallel_for(outer, std::max<int64_t>(1, kTileElements / size),
                 [&](int64_t begin, int64_t end) { rows(begin * size, end - begin); });
    return;
  }
  const int64_t blocks = (inner + kColumns - 1) / kColumns;
  const int64_t block_elements = size * std::min(inner, kColumns);
  parallel_for(outer * blocks, std::max<int64_t>(1, kTileElements / block_elements), [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t column = block % blocks * kColumns;
      columns(block / blocks * size * inner + column, std::min(kColumns, inner - column));
    }
  });
}

void forward(Stream, DType dtype, const void* x, void* y, int64_t outer, int64_t size, int64_t inner, bool log) {
  if (dtype == DType::f32) {
    const auto* in = static_cast<const float*>(x);
    auto* out = static_cast<float*>(y);
    const auto rows = WEFT_DISPATCH(softmax_rows);
    const auto columns = WEFT_DISPATCH(softmax_columns);
    for_tiles(
        outer, size, inner, [&](int64_t at, int64_t count) { rows(in + at, out + at, count, size, log); },
        [&](int64_t at, int64_t width) { columns(in + at, out + at, size, inner, width, log); });
    return;
  }
  WEFT_CHECK(dtype == DType::f64, "softmax", "expected f32 or f64, got {}", dtype);
  const auto* in = static_cast<const double*>(x);
  auto* out = static_cast<double*>(y);
  for_tiles(
      outer, size, inner,
      [&](int64_t at, int64_t count) {
        for (int64_t i = 0; i < count; ++i) softmax_forward_f64(in + at + i * size, out + at + i * size, size, 1, log);
      },
      [&](int64_t at, int64_t width) {
        for (int64_t i = 0; i < width; ++i) softmax_forward_f64(in + at + i, out + at + i, size, inner, log);
      });
}

void backward(Stream, DType dtype, const void* y, const void* dy, void* dx, int64_t outer, int64_t size, int64_t inner,
              bool log) {
  if (dtype == DType::f32) {
    const auto* out = static_cast<const float*>(y);
    const auto* grad = static_cast<const float*>(dy);
    auto* result = static_cast<float*>(dx);
    const auto rows = WEFT_DISPATCH(softmax_backward_rows);
    const auto columns = WEFT_DISPATCH(softmax_backward_columns);
    for_tiles(
        outer, size, inner,
        [&](int64_t at, int64_t count) { rows(out + at, grad + at, result + at, count, size, log); },
        [&](int64_t at, int64_t width) { columns(out + at, grad + at, result + at, size, inner, width, log); });
    return;
  }
  WEFT_CHECK(dtype == DType::f64, "softmax", "expected f32 or f64, got {}", dtype);
  const auto* out = static_cast<const double*>(y);
  const auto* grad = static_cast<const double*>(dy);
  auto* result = static_cast<double*>(dx);
  for_tiles(
      outer, size, inner,
      [&](int64_t at, int64_t count) {
        for (int64_t i = at; i < at + count * size; i += size)
          softmax_backward_f64(out + i, grad + i, result + i, size, 1, log);
      },
      [&](int64_t at, int64_t width) {
        for (int64_t i = at; i < at + width; ++i) softmax_backward_f64(out + i, grad + i, result + i, size, inner, log);
      });
}

}  // namespace

constinit const SoftmaxKernels softmax_kernels{forward, backward};

}  // namespace weft::cpu
#endif  // HWY_ONCE
