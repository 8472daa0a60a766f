// randn, rand, randint, randperm.
#include "tensor/factory.h"

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

}  // namespace

Tensor randn(const Shape& shape, TensorOptions options, Generator* generator) {
  Tensor result = empty(shape, {.dtype = options.dtype, .device = drawn_on(options.device)});
  WEFT_CHECK(is_floating(options.dtype) && size_of(options.dtype) > 1, "randn",
             "expected f64, f32, f16 or bf16, got {}", options.dtype);
  if (!result.is_meta()) {
    Generator& source = or_default(generator);
    const int64_t count = result.numel();
    if (options.dtype == f64) {
      source.fill_normal(result.data<double>(), count);
    } else if (options.dtype == f32) {
      source.fill_normal(result.data<float>(), count);
    } else {
      Tensor wide = empty(shape, {.dtype = f32});
      source.fill_normal(wide.data<float>(), count);
      result.copy_(wide);
    }
  }
  result = detail::moved_to(result, options.device);
  if (options.requires_grad) result.requires_grad_();
  return result;
}

Tensor rand(const Shape& shape, TensorOptions options, Generator* generator) {
  Tensor result = empty(shape, {.dtype = options.dtype, .device = drawn_on(options.device)});
  WEFT_CHECK(is_floating(options.dtype) && size_of(options.dtype) > 1, "rand", "expected f64, f32, f16 or bf16, got {}",
             options.dtype);
  if (!result.is_meta()) {
    Generator& source = or_default(generator);
    const int64_t count = result.numel();
    visit_all(options.dtype, "rand", [&](auto type) {
      using T = typename decltype(type)::type;
      T* out = result.data<T>();
      if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
        source.fill_uniform(out, count);
      } else if constexpr (kUniformBits<T> != 0) {
        constexpr uint32_t values = 1u << kUniformBits<T>;
        for (int64_t i = 0; i < count; ++i)
          out[i] = T(static_cast<float>(source.next_u32() & (values - 1)) / static_cast<float>(values));
      }
    });
  }
  result = detail::moved_to(result, options.device);
  if (options.requires_grad) result.requires_grad_();
  return result;
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
