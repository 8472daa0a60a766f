// Random tensors: uniform, normal, whole numbers, permutations, choices.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tensor/distributions.h"

namespace weft {
namespace {

// The generator is the CPU's: values are drawn there and moved, so that a seed gives the same ones on every device.
Device drawn_on(Device device) { return device.type == DeviceType::meta ? device : cpu_device; }

Generator& or_default(Generator* generator) { return generator ? *generator : default_generator(); }

// The bits of a uniform draw by type: as many as its significand holds, so that no draw rounds up to 1.
template <class T>
constexpr int kUniformBits = 0;
template <>
constexpr int kUniformBits<Half> = 11;
template <>
constexpr int kUniformBits<BFloat16> = 8;

template <class Fill>
Tensor drawn(const char* op, const Shape& shape, const TensorOptions& options, Fill&& fill) {
  WEFT_CHECK(is_floating(options.dtype) && size_of(options.dtype) > 1, op, "expected f64, f32, f16 or bf16, got {}",
             options.dtype);
  Tensor result = empty(shape, {.dtype = options.dtype, .device = drawn_on(options.device)});
  if (!result.is_meta()) fill(result);
  result = detail::moved_to(result, options.device);
  if (options.requires_grad) result.requires_grad_();
  return result;
}

void fill_normal(const Tensor& result, double mean, double std, Generator& source) {
  const int64_t count = result.numel();
  if (result.dtype() == f64) {
    source.fill_normal(result.data<double>(), count, mean, std);
  } else if (result.dtype() == f32) {
    source.fill_normal(result.data<float>(), count, mean, std);
  } else {
    const Tensor wide = empty(result.shape(), {.dtype = f32});
    source.fill_normal(wide.data<float>(), count, mean, std);
    result.copy_(wide);
  }
}

void fill_uniform(const Tensor& result, double low, double high, Generator& source) {
  const int64_t count = result.numel();
  visit_all(result.dtype(), "uniform", [&](auto type) {
    using T = typename decltype(type)::type;
    T* out = result.data<T>();
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
      source.fill_uniform(out, count, low, high);
    } else if constexpr (kUniformBits<T> != 0) {
      constexpr uint32_t values = 1u << kUniformBits<T>;
      const auto start = static_cast<float>(low), range = static_cast<float>(high - low);
      for (int64_t i = 0; i < count; ++i)
        out[i] = T(static_cast<float>(source.next_u32() & (values - 1)) / static_cast<float>(values) * range + start);
    }
  });
}

// The weights of one row, checked: no negative or infinite ones and NaN, and `needed` of them above 0.
void check_weights(const double* row, int64_t n, int64_t needed, const Tensor& weights) {
  int64_t possible = 0;
  for (int64_t i = 0; i < n; ++i) {
    WEFT_CHECK(row[i] >= 0 && std::isfinite(row[i]), "multinomial",
               "expected finite weights of at least 0, got {} in {}", row[i], describe(weights));
    if (row[i] > 0) ++possible;
  }
  WEFT_CHECK(possible >= needed, "multinomial", "expected at least {} weights above 0 in a row of {}, got {}", needed,
             describe(weights), possible);
}

void choose_with_replacement(const double* row, int64_t n, Generator& source, int64_t* out, int64_t samples) {
  std::vector<double> rising(static_cast<size_t>(n));
  std::partial_sum(row, row + n, rising.begin());
  // Rounding may take a draw up to the total: it belongs to the last category that can be drawn.
  const auto last = std::lower_bound(rising.begin(), rising.end(), rising.back());
  for (int64_t i = 0; i < samples; ++i)
    out[i] = std::upper_bound(rising.begin(), last, source.uniform_f64() * rising.back()) - rising.begin();
}

void choose_without_replacement(const double* row, int64_t n, Generator& source, int64_t* out, int64_t samples) {
  std::vector<double> key(static_cast<size_t>(n));
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  // A category that cannot be drawn has a key below all others.
  for (int64_t i = 0; i < n; ++i) {
    const double draw = source.exponential();
    key[static_cast<size_t>(i)] = row[i] > 0 ? row[i] / draw : -1;
  }
  std::partial_sort(order.begin(), order.begin() + samples, order.end(), [&](int64_t a, int64_t b) {
    const double first = key[static_cast<size_t>(a)], second = key[static_cast<size_t>(b)];
    return first != second ? first > second : a < b;
  });
  std::copy_n(order.begin(), samples, out);
}

}  // namespace

Tensor randn(const Shape& shape, TensorOptions options, Generator* generator) {
  return drawn("randn", shape, options,
               [&](const Tensor& result) { fill_normal(result, 0, 1, or_default(generator)); });
}

Tensor rand(const Shape& shape, TensorOptions options, Generator* generator) {
  return drawn("rand", shape, options,
               [&](const Tensor& result) { fill_uniform(result, 0, 1, or_default(generator)); });
}

Tensor normal(double mean, double std, const Shape& shape, TensorOptions options, Generator* generator) {
  WEFT_CHECK(std >= 0, "normal", "expected a standard deviation of at least 0, got {}", std);
  return drawn("normal", shape, options,
               [&](const Tensor& result) { fill_normal(result, mean, std, or_default(generator)); });
}

Tensor uniform(double low, double high, const Shape& shape, TensorOptions options, Generator* generator) {
  WEFT_CHECK(low <= high && std::isfinite(high - low), "uniform",
             "expected finite bounds with low <= high, got {} and {}", low, high);
  return drawn("uniform", shape, options,
               [&](const Tensor& result) { fill_uniform(result, low, high, or_default(generator)); });
}

Tensor bernoulli(const Tensor& p, Generator* generator) {
  constexpr const char* op = "bernoulli";
  return drawn(op, p.shape(), {.dtype = p.dtype(), .device = p.device()}, [&](const Tensor& result) {
    const Tensor wide = empty(p.shape(), {.dtype = f64});
    detail::copy_elements(p, wide);
    Generator& source = or_default(generator);
    double* values = wide.data<double>();
    for (int64_t i = 0; i < p.numel(); ++i) {
      WEFT_CHECK(values[i] >= 0 && values[i] <= 1, op, "expected probabilities from 0 to 1, got {} in {}", values[i],
                 describe(p));
      // As many random bits as the dtype is compared in.
      const double draw = p.dtype() == f64 ? source.uniform_f64() : static_cast<double>(source.uniform_f32());
      values[i] = draw < values[i] ? 1 : 0;
    }
    detail::copy_elements(wide, result);
  });
}

Tensor multinomial(const Tensor& weights, int64_t num_samples, bool replacement, Generator* generator) {
  constexpr const char* op = "multinomial";
  WEFT_CHECK(weights.dim() == 1 || weights.dim() == 2, op, "expected weights of shape [n] or [m, n], got {}",
             describe(weights));
  WEFT_CHECK(is_floating(weights.dtype()), op, "expected floating-point weights, got {}", describe(weights));
  WEFT_CHECK(num_samples > 0, op, "expected at least one sample, got {}", num_samples);
  const int64_t n = weights.size(-1), rows = weights.dim() == 2 ? weights.size(0) : 1;
  WEFT_CHECK(n > 0 && (replacement || num_samples <= n), op, "cannot draw {} samples {} replacement from {}",
             num_samples, replacement ? "with" : "without", describe(weights));
  Shape shape = weights.shape();
  shape[-1] = num_samples;
  const Tensor result = empty(shape, {.dtype = i64, .device = drawn_on(weights.device())});
  if (weights.is_meta()) return result;
  const Tensor wide = empty(weights.shape(), {.dtype = f64});
  detail::copy_elements(weights, wide);
  Generator& source = or_default(generator);
  for (int64_t r = 0; r < rows; ++r) {
    const double* row = wide.data<double>() + r * n;
    int64_t* out = result.data<int64_t>() + r * num_samples;
    check_weights(row, n, replacement ? 1 : num_samples, weights);
    if (replacement)
      choose_with_replacement(row, n, source, out, num_samples);
    else
      choose_without_replacement(row, n, source, out, num_samples);
  }
  return detail::moved_to(result, weights.device());
}

Tensor randint(int64_t low, int64_t high, const Shape& shape, DType dtype, Generator* generator) {
  WEFT_CHECK(low < high, "randint", "expected low < high, got {} and {}", low, high);
  Tensor result = empty(shape, {.dtype = dtype});
  Generator& source = or_default(generator);
  const int64_t count = result.numel();
  visit_all(dtype, "randint", [&](auto type) {
    using T = typename decltype(type)::type;
    if constexpr (std::is_integral_v<T>) {
      constexpr int64_t least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
      WEFT_CHECK(low >= least && high - 1 <= most, "randint", "[{}, {}) does not fit dtype {}", low, high, dtype);
    }
    T* out = result.data<T>();
    for (int64_t i = 0; i < count; ++i) {
      const int64_t value = source.integer(low, high);
      if constexpr (std::is_integral_v<T>)
        out[i] = static_cast<T>(value);
      else if constexpr (std::is_same_v<T, double>)
        out[i] = static_cast<double>(value);
      else
        out[i] = T(static_cast<float>(value));
    }
  });
  return result;
}

Tensor randperm(int64_t n, Generator* generator) {
  WEFT_CHECK(n >= 0, "randperm", "expected a size of at least 0, got {}", n);
  Tensor result = empty({n}, {.dtype = i64});
  or_default(generator).fill_permutation(result.data<int64_t>(), n);
  return result;
}

}  // namespace weft
