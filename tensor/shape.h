// Shape: up to eight int64 sizes (or strides), stored in place.
//
//   Shape s = {2, 3, 4};   s[-1] == 4;   s.numel() == 24;   fmt::format("{}", s) == "[2, 3, 4]"
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "kernels/base/error.h"

namespace weft {

class Shape {
 public:
  static constexpr int kMaxDims = 8;

  Shape() = default;
  Shape(std::initializer_list<int64_t> values) { assign(values.begin(), values.size()); }
  Shape(std::span<const int64_t> values) { assign(values.data(), values.size()); }
  Shape(const std::vector<int64_t>& values) { assign(values.data(), values.size()); }

  int size() const noexcept { return count_; }
  bool empty() const noexcept { return count_ == 0; }
  // Dimension i; a negative i counts from the end. Throws when out of range.
  int64_t& operator[](int i) { return values_[static_cast<size_t>(wrap(i))]; }
  int64_t operator[](int i) const { return values_[static_cast<size_t>(wrap(i))]; }
  int64_t back() const { return (*this)[-1]; }
  const int64_t* data() const noexcept { return values_.data(); }
  const int64_t* begin() const noexcept { return values_.data(); }
  const int64_t* end() const noexcept { return values_.data() + count_; }
  int64_t* begin() noexcept { return values_.data(); }
  int64_t* end() noexcept { return values_.data() + count_; }
  operator std::span<const int64_t>() const noexcept { return {begin(), static_cast<size_t>(count_)}; }
  std::vector<int64_t> vector() const { return {begin(), end()}; }

  void push_back(int64_t value);
  void insert(int position, int64_t value);
  void erase(int position);
  // Product of the sizes (1 for no dimension). Throws when it leaves int64.
  int64_t numel() const;

  friend bool operator==(const Shape& a, const Shape& b) noexcept {
    return a.count_ == b.count_ && std::equal(a.begin(), a.end(), b.begin());
  }

 private:
  void assign(const int64_t* values, size_t count);
  int wrap(int i) const;
  std::array<int64_t, kMaxDims> values_{};
  int count_ = 0;
};
using Strides = Shape;

// Row-major strides, in elements.
Strides contiguous_strides(const Shape& shape);
// The common shape by NumPy's rule; throws naming `op` and both shapes.
Shape broadcast_shapes(const Shape& a, const Shape& b, std::string_view op);
// A dimension index in [0, ndim), from one that may be negative; a 0-d tensor counts as having one dimension.
int wrap_dim(int64_t dim, int ndim, std::string_view op);
std::string to_string(const Shape& shape);

}  // namespace weft

template <>
struct fmt::formatter<weft::Shape> : fmt::formatter<std::string_view> {
  fmt::appender format(const weft::Shape& shape, fmt::format_context& context) const;
};
