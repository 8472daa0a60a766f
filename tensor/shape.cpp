#include "tensor/shape.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft {

void Shape::assign(const int64_t* values, size_t count) {
  WEFT_CHECK(count <= kMaxDims, "shape", "at most {} dimensions, got {}", kMaxDims, count);
  std::copy_n(values, count, values_.begin());
  count_ = static_cast<int>(count);
}

int Shape::wrap(int i) const {
  const int wrapped = i < 0 ? i + count_ : i;
  WEFT_CHECK(wrapped >= 0 && wrapped < count_, "shape", "dimension {} is out of range for {}", i, to_string(*this));
  return wrapped;
}

void Shape::push_back(int64_t value) { insert(count_, value); }

void Shape::insert(int position, int64_t value) {
  WEFT_CHECK(count_ < kMaxDims, "shape", "at most {} dimensions; {} has no room for one more", kMaxDims,
             to_string(*this));
  std::copy_backward(begin() + position, end(), end() + 1);
  values_[static_cast<size_t>(position)] = value;
  ++count_;
}

void Shape::erase(int position) {
  std::copy(begin() + position + 1, end(), begin() + position);
  --count_;
}

int64_t Shape::numel() const {
  int64_t total = 1;
  for (int64_t size : *this) {
    if (size == 0) return 0;
  }
  for (int64_t size : *this)
    WEFT_CHECK(size > 0 && !__builtin_mul_overflow(total, size, &total), "shape",
               "{} has a negative size or more than 2^63 elements", to_string(*this));
  return total;
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides = shape;
  int64_t step = 1;
  for (int i = shape.size() - 1; i >= 0; --i) {
    strides[i] = step;
    step *= std::max<int64_t>(shape[i], 1);
  }
  return strides;
}

Shape broadcast_shapes(const Shape& a, const Shape& b, std::string_view op) {
  const int ndim = std::max(a.size(), b.size());
  Shape result;
  for (int i = 0; i < ndim; ++i) {
    const int ia = i - (ndim - a.size());
    const int ib = i - (ndim - b.size());
    const int64_t sa = ia < 0 ? 1 : a[ia];
    const int64_t sb = ib < 0 ? 1 : b[ib];
    WEFT_CHECK(sa == sb || sa == 1 || sb == 1, op,
               "shapes {} and {} do not broadcast: expected equal sizes or 1 in dimension {}, got {} and {}", a, b, i,
               sa, sb);
    result.push_back(sa == 1 ? sb : sa);
  }
  return result;
}

int wrap_dim(int64_t dim, int ndim, std::string_view op) {
  const int range = std::max(ndim, 1);
  WEFT_CHECK(dim >= -range && dim < range, op, "dimension {} is out of range: expected {} to {}", dim, -range,
             range - 1);
  return static_cast<int>(dim < 0 ? dim + range : dim);
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

}  // namespace weft

fmt::appender fmt::formatter<weft::Shape>::format(const weft::Shape& shape, fmt::format_context& context) const {
  return fmt::formatter<std::string_view>::format(weft::to_string(shape), context);
}
