// The shape and strides of several operands that a kernel walks together, with as few dimensions as possible.
//
// Dimensions of size 1 vanish, and neighbours that every operand stores back to back become one, so most launches end
// with a single long row. Strides are in elements; a broadcast operand has stride 0.
#pragma once
#include <array>
#include <cstdint>
#include <cstdlib>

namespace weft {

template <int operands>
struct Layout {
  static constexpr int kMaxDims = 8;
  int ndim = 0;
  std::array<int64_t, kMaxDims> sizes{};
  std::array<std::array<int64_t, kMaxDims>, operands> strides{};

  // Adds a dimension inside the present ones.
  void push(int64_t size, const std::array<int64_t, operands>& step) {
    sizes[static_cast<size_t>(ndim)] = size;
    for (size_t k = 0; k < operands; ++k) strides[k][static_cast<size_t>(ndim)] = step[k];
    ++ndim;
  }

  void collapse() {
    Layout result;
    for (int d = 0; d < ndim; ++d) {
      const auto at = static_cast<size_t>(d);
      if (sizes[at] == 1) continue;
      bool joined = result.ndim > 0;
      const auto last = static_cast<size_t>(result.ndim - 1);
      for (size_t k = 0; joined && k < operands; ++k) joined = result.strides[k][last] == strides[k][at] * sizes[at];
      if (joined) {
        result.sizes[last] *= sizes[at];
        for (size_t k = 0; k < operands; ++k) result.strides[k][last] = strides[k][at];
      } else {
        std::array<int64_t, operands> step{};
        for (size_t k = 0; k < operands; ++k) step[k] = strides[k][at];
        result.push(sizes[at], step);
      }
    }
    if (result.ndim == 0) result.push(1, {});
    *this = result;
  }

  // Walks the rows (all dimensions but the innermost) with numbers [begin, end); f(offsets) gets each operand's offset.
  template <class F>
  void for_each_row(int64_t begin, int64_t end, F&& f) const {
    std::array<int64_t, kMaxDims> index{};
    std::array<int64_t, operands> offset{};
    int64_t rest = begin;
    for (int d = ndim - 2; d >= 0; --d) {
      const auto at = static_cast<size_t>(d);
      index[at] = rest % sizes[at];
      rest /= sizes[at];
      for (size_t k = 0; k < operands; ++k) offset[k] += index[at] * strides[k][at];
    }
    for (int64_t row = begin; row < end; ++row) {
      f(offset);
      for (int d = ndim - 2; d >= 0; --d) {
        const auto at = static_cast<size_t>(d);
        for (size_t k = 0; k < operands; ++k) offset[k] += strides[k][at];
        if (++index[at] < sizes[at]) break;
        for (size_t k = 0; k < operands; ++k) offset[k] -= index[at] * strides[k][at];
        index[at] = 0;
      }
    }
  }

  int64_t rows() const {
    int64_t total = 1;
    for (int d = 0; d + 1 < ndim; ++d) total *= sizes[static_cast<size_t>(d)];
    return total;
  }
  int64_t row_size() const { return sizes[static_cast<size_t>(ndim - 1)]; }
  int64_t row_stride(int operand) const { return strides[static_cast<size_t>(operand)][static_cast<size_t>(ndim - 1)]; }
};

}  // namespace weft
