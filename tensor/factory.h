// Ways to make tensors.
//
//   zeros({2, 3});   full({4}, 1.5, f64);   arange(10);   tensor({1.0, 2.0, 3.0});   randn({8, 8}, {.requires_grad = true});
//
// Sizes are checked: a negative one, or more than 2^63 elements, is an error. On the meta device nothing is allocated.
#pragma once
#include "tensor/random.h"
#include "tensor/tensor.h"

namespace weft {

// Uninitialised memory.
Tensor empty(const Shape& shape, TensorOptions options = {});
Tensor zeros(const Shape& shape, TensorOptions options = {});
Tensor ones(const Shape& shape, TensorOptions options = {});
Tensor full(const Shape& shape, double value, TensorOptions options = {});
Tensor empty_like(const Tensor& x);
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);
// start, start + step, … below `stop`; i64 by default, as the numbers are whole.
Tensor arange(double start, double stop, double step = 1, DType dtype = i64);
Tensor arange(int64_t stop);
// Made where it is used: nothing is copied from the host, so that it may stand in a captured graph.
Tensor arange(int64_t stop, Device device);
Tensor linspace(double start, double stop, int64_t steps, DType dtype = f32);
Tensor eye(int64_t n, TensorOptions options = {});
// One-dimensional from values; reshape() for more.
Tensor tensor(std::initializer_list<double> values, TensorOptions options = {});
template <class T>
Tensor tensor(const std::vector<T>& values, TensorOptions options = {.dtype = dtype_of<T>});
// Memory of the caller's, shared, in row-major order; `deleter` runs when the last tensor on it goes.
Tensor from_blob(void* data, const Shape& shape, DType dtype, std::function<void()> deleter = {});

namespace detail {
// Raw copies without history. dense_copy gives x itself where it is contiguous; copy_elements needs equal shapes,
// converts the dtype, moves between devices and must not be given overlapping memory. moved_to gives x itself where it is
// on the device.
Tensor dense_copy(const Tensor& x);
void copy_elements(const Tensor& from, const Tensor& to);
Tensor moved_to(const Tensor& x, Device device);
}  // namespace detail

// Random values from `generator` (default: this thread's, see random.h). randn: normal(0, 1); rand: uniform [0, 1).
Tensor randn(const Shape& shape, TensorOptions options = {}, Generator* generator = nullptr);
Tensor rand(const Shape& shape, TensorOptions options = {}, Generator* generator = nullptr);
Tensor randint(int64_t low, int64_t high, const Shape& shape, DType dtype = i64, Generator* generator = nullptr);
Tensor randperm(int64_t n, Generator* generator = nullptr);

// The same with only a dtype given: randn({4, 5}, f64).
inline Tensor empty(const Shape& shape, DType dtype) { return empty(shape, TensorOptions{.dtype = dtype}); }
inline Tensor zeros(const Shape& shape, DType dtype) { return zeros(shape, TensorOptions{.dtype = dtype}); }
inline Tensor ones(const Shape& shape, DType dtype) { return ones(shape, TensorOptions{.dtype = dtype}); }
inline Tensor full(const Shape& shape, double value, DType dtype) {
  return full(shape, value, TensorOptions{.dtype = dtype});
}
inline Tensor randn(const Shape& shape, DType dtype) { return randn(shape, TensorOptions{.dtype = dtype}); }
inline Tensor rand(const Shape& shape, DType dtype) { return rand(shape, TensorOptions{.dtype = dtype}); }

template <class T>
Tensor tensor(const std::vector<T>& values, TensorOptions options) {
  Tensor result = empty({static_cast<int64_t>(values.size())}, TensorOptions{.dtype = dtype_of<T>});
  T* out = result.data<T>();
  for (size_t i = 0; i < values.size(); ++i) out[i] = values[i];
  if (options.dtype != result.dtype()) result = result.to(options.dtype);
  if (options.requires_grad) result.requires_grad_();
  return result;
}

}  // namespace weft
