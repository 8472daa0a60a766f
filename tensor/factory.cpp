#include "tensor/factory.h"

#include <cmath>

#include "kernels/copy/convert.h"
#include "kernels/table.h"
#include "tensor/device.h"

namespace weft {
namespace {

Tensor make(Ref<Storage> storage, const Shape& shape, DType dtype) {
  Ref<TensorImpl> impl = make_ref<TensorImpl>();
  impl->storage = std::move(storage);
  impl->shape = shape;
  impl->strides = contiguous_strides(shape);
  impl->dtype = dtype;
  return Tensor(std::move(impl));
}

const Tensor& with_gradient(const Tensor& tensor, const TensorOptions& options) {
  if (options.requires_grad) tensor.requires_grad_();
  return tensor;
}

// Fills a new one-dimensional CPU tensor from f(i), through f64.
template <class F>
Tensor generate(int64_t count, DType dtype, F f) {
  Tensor result = empty({count}, dtype);
  if (count == 0) return result;
  visit_all(dtype, "factory", [&](auto type) {
    using T = typename decltype(type)::type;
    T* out = result.data<T>();
    for (int64_t i = 0; i < count; ++i) out[i] = convert_element<T>(f(i));
  });
  return result;
}

}  // namespace

Tensor empty(const Shape& shape, TensorOptions options) {
  for (int64_t size : shape) WEFT_CHECK(size >= 0, "empty", "a size is negative: {}", shape);
  int64_t bytes = 0;
  WEFT_CHECK(!__builtin_mul_overflow(shape.numel(), size_of(options.dtype), &bytes), "empty",
             "shape {} of {} needs more than 2^63 bytes", shape, options.dtype);
  return with_gradient(make(Storage::allocate(bytes, options.device), shape, options.dtype), options);
}

Tensor full(const Shape& shape, double value, TensorOptions options) {
  const bool requires_grad = std::exchange(options.requires_grad, false);
  Tensor result = empty(shape, options);
  if (!result.is_meta())
    kernel_table(options.device.type, "full")
        .copy.fill(current_stream(options.device), options.dtype, result.data(), result.numel(), value);
  return with_gradient(result, {.requires_grad = requires_grad});
}

Tensor zeros(const Shape& shape, TensorOptions options) { return full(shape, 0, options); }
Tensor ones(const Shape& shape, TensorOptions options) { return full(shape, 1, options); }
Tensor empty_like(const Tensor& x) { return empty(x.shape(), x.options()); }
Tensor zeros_like(const Tensor& x) { return zeros(x.shape(), x.options()); }
Tensor ones_like(const Tensor& x) { return ones(x.shape(), x.options()); }

Tensor arange(double start, double stop, double step, DType dtype) {
  WEFT_CHECK(step != 0 && std::isfinite(start) && std::isfinite(stop) && std::isfinite(step), "arange",
             "expected finite bounds and a step other than 0, got {} to {} by {}", start, stop, step);
  WEFT_CHECK((stop - start) / step >= 0, "arange", "a step of {} does not lead from {} to {}", step, start, stop);
  const auto count = static_cast<int64_t>(std::ceil((stop - start) / step));
  return generate(count, dtype, [=](int64_t i) { return start + static_cast<double>(i) * step; });
}

Tensor arange(int64_t stop) {
  WEFT_CHECK(stop >= 0, "arange", "expected a stop of at least 0, got {}", stop);
  return generate(stop, DType::i64, [](int64_t i) { return i; });
}

Tensor arange(int64_t stop, Device device) {
  if (device.type == DeviceType::cpu) return arange(stop);
  WEFT_CHECK(stop >= 0, "arange", "expected a stop of at least 0, got {}", stop);
  const Tensor steps = ones({stop}, {.dtype = DType::i64, .device = device});
  if (steps.is_meta() || stop == 0) return steps;
  // Running sums of 0, 1, 1, …
  const KernelTable& kernels = kernel_table(device.type, "arange");
  const Stream stream = current_stream(device);
  const Tensor result = empty_like(steps);
  kernels.copy.fill(stream, DType::i64, steps.data(), 1, 0);
  kernels.reduce.scan(stream, Scan::sum, DType::i64, steps.data(), result.data(), 1, stop, 1);
  return result;
}

Tensor linspace(double start, double stop, int64_t steps, DType dtype) {
  WEFT_CHECK(steps >= 0, "linspace", "expected steps >= 0, got {}", steps);
  const double step = steps > 1 ? (stop - start) / static_cast<double>(steps - 1) : 0;
  // From both ends, so that the last value is exactly `stop`.
  return generate(steps, dtype, [=](int64_t i) {
    return i < steps / 2 || steps == 1 ? start + step * static_cast<double>(i)
                                       : stop - step * static_cast<double>(steps - 1 - i);
  });
}

Tensor eye(int64_t n, TensorOptions options) {
  WEFT_CHECK(n >= 0, "eye", "expected a size >= 0, got {}", n);
  Tensor result = zeros({n, n}, {.dtype = options.dtype});
  visit_all(options.dtype, "eye", [&](auto type) {
    using T = typename decltype(type)::type;
    T* out = result.data<T>();
    for (int64_t i = 0; i < n; ++i) out[i * n + i] = convert_element<T>(1.0);
  });
  return with_gradient(detail::moved_to(result, options.device), options);
}

Tensor tensor(std::initializer_list<double> values, TensorOptions options) {
  const double* data = values.begin();
  const Tensor result =
      generate(static_cast<int64_t>(values.size()), options.dtype, [data](int64_t i) { return data[i]; });
  return with_gradient(detail::moved_to(result, options.device), options);
}

Tensor from_blob(void* data, const Shape& shape, DType dtype, std::function<void()> deleter) {
  return make(Storage::wrap(data, shape.numel() * size_of(dtype), cpu_device, std::move(deleter)), shape, dtype);
}

namespace detail {

Tensor dense_copy(const Tensor& x) {
  if (x.is_contiguous()) return x;
  Tensor result = empty_like(x);
  copy_elements(x, result);
  return result;
}

Tensor moved_to(const Tensor& x, Device device) {
  if (x.device() == device) return x;
  const Tensor result = empty(x.shape(), {.dtype = x.dtype(), .device = device});
  copy_elements(x, result);
  return result;
}

void copy_elements(const Tensor& from, const Tensor& to) {
  if (from.is_meta() || to.is_meta() || from.numel() == 0) return;
  if (from.device() != to.device()) {
    // Converted where it is, moved as it will be stored, spread out where it goes.
    Tensor source = from;
    if (!from.is_contiguous() || from.dtype() != to.dtype()) {
      source = empty(from.shape(), {.dtype = to.dtype(), .device = from.device()});
      copy_elements(from, source);
    }
    if (to.is_contiguous()) return transfer(source, to);
    const Tensor moved = empty(to.shape(), {.dtype = to.dtype(), .device = to.device()});
    transfer(source, moved);
    return copy_elements(moved, to);
  }
  kernel_table(to.device().type, "copy")
      .copy.copy(current_stream(to.device()), from.dim(), from.shape().data(), from.dtype(), from.data(),
                 from.strides().data(), to.dtype(), to.data(), to.strides().data());
}

}  // namespace detail
}  // namespace weft
