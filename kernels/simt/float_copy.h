// An f32 copy of an array of halves, for library calls that know f32 only.
//
//   FloatCopy x(f16, input, {{rows, columns}, {row_stride, 1}});
//   cpu::…(x.data(), …);              // dense, in the order of the dimensions
//
// The result of such a call goes back with store(); the sums were made in f32, so each element is rounded once.
#pragma once
#include <array>
#include <cstdint>
#include <memory>

#include "kernels/copy/copy.h"

namespace weft::simt {

constexpr bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

// Up to three dimensions; strides in elements.
struct ArrayShape {
  std::array<int64_t, 3> sizes{1, 1, 1};
  std::array<int64_t, 3> strides{0, 0, 1};

  static ArrayShape dense(int64_t elements) { return {{1, 1, elements}, {0, 0, 1}}; }
  int64_t elements() const { return sizes[0] * sizes[1] * sizes[2]; }
};

class FloatCopy {
 public:
  // Uninitialised.
  explicit FloatCopy(const ArrayShape& shape)
      : shape_(shape), data_(std::make_unique_for_overwrite<float[]>(static_cast<size_t>(shape.elements()))) {}
  FloatCopy(DType dtype, const void* source, const ArrayShape& shape) : FloatCopy(shape) {
    cpu::copy_kernels.copy({}, 3, shape_.sizes.data(), dtype, source, shape_.strides.data(), DType::f32, data_.get(),
                           dense_strides().data());
  }

  float* data() const { return data_.get(); }
  void store(DType dtype, void* target) const {
    cpu::copy_kernels.copy({}, 3, shape_.sizes.data(), DType::f32, data_.get(), dense_strides().data(), dtype, target,
                           shape_.strides.data());
  }

 private:
  std::array<int64_t, 3> dense_strides() const { return {shape_.sizes[1] * shape_.sizes[2], shape_.sizes[2], 1}; }

  ArrayShape shape_;
  std::unique_ptr<float[]> data_;
};

}  // namespace weft::simt
