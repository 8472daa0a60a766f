#include "autograd/ops/view.h"

#include <algorithm>
#include <numeric>

#include "autograd/node.h"
#include "autograd/ops/ops.h"

namespace weft {
namespace {

// Strides that show `x` as `shape` without a copy, if there are any: each run of dimensions that are stored back to
// back may be cut anew.
std::optional<Strides> reshaped_strides(const Tensor& x, const Shape& shape) {
  if (x.is_contiguous() || x.numel() == 0) return contiguous_strides(shape);
  Strides result = shape;
  int target = shape.size() - 1;
  int d = x.dim() - 1;
  while (d >= 0) {
    // A run [first, d] of dimensions stored back to back.
    int64_t run = x.size(d);
    const int64_t step = x.stride(d);
    int first = d;
    while (first > 0 && (x.size(first - 1) == 1 || x.stride(first - 1) == step * run)) run *= x.size(--first);
    int64_t made = 1;
    while (target >= 0 && (made < run || shape[target] == 1)) {
      result[target] = step * made;
      made *= shape[target--];
    }
    if (made != run) return std::nullopt;
    d = first - 1;
  }
  while (target >= 0) result[target--] = 1;
  return result;
}

Shape filled_in(const Tensor& x, const Shape& shape) {
  Shape result = shape;
  int unknown = -1;
  int64_t known = 1;
  for (int d = 0; d < shape.size(); ++d) {
    if (shape[d] == -1) {
      WEFT_CHECK(unknown < 0, "reshape", "only one size may be -1, got {}", shape);
      unknown = d;
    } else {
      WEFT_CHECK(shape[d] >= 0, "reshape", "size {} in {}", shape[d], shape);
      known *= shape[d];
    }
  }
  if (unknown >= 0) {
    WEFT_CHECK(known != 0 && x.numel() % known == 0, "reshape", "{} does not divide into {}", describe(x), shape);
    result[unknown] = x.numel() / known;
  }
  WEFT_CHECK(result.numel() == x.numel(), "reshape", "{} has {} elements, shape {} needs {}", describe(x), x.numel(),
             shape, result.numel());
  return result;
}

// Gradient of a view that picks part of x: zeros, with the gradient written where the view was.
Tensor embed(const Tensor& dy, const Shape& shape, const std::function<Tensor(const Tensor&)>& view) {
  const Tensor whole = zeros(shape, dy.options());
  detail::copy_elements(dy, view(whole));
  return record("embed", {dy}, whole, [view](Node&, const Gradients& dz) -> Gradients { return {view(dz[0])}; });
}

Tensor record_part(const char* name, const Tensor& x, Tensor y, std::function<Tensor(const Tensor&)> view) {
  return record(name, {x}, std::move(y),
                [shape = x.shape(), view = std::move(view)](Node&, const Gradients& dy) -> Gradients {
                  return {embed(dy[0], shape, view)};
                });
}

}  // namespace

Tensor reshape(const Tensor& x, const Shape& asked) {
  const Shape shape = filled_in(x, asked);
  const auto strides = reshaped_strides(x, shape);
  if (!strides) return reshape(x.contiguous(), shape);
  return record("reshape", {x}, x.alias(shape, *strides, x.offset()),
                [before = x.shape()](Node&, const Gradients& dy) -> Gradients { return {reshape(dy[0], before)}; });
}

Tensor flatten(const Tensor& x, int64_t start, int64_t end) {
  if (x.dim() == 0) return reshape(x, {1});
  const int first = wrap_dim(start, x.dim(), "flatten");
  const int last = wrap_dim(end, x.dim(), "flatten");
  WEFT_CHECK(first <= last, "flatten", "start {} comes after end {}", start, end);
  Shape shape;
  for (int d = 0; d < first; ++d) shape.push_back(x.size(d));
  int64_t joined = 1;
  for (int d = first; d <= last; ++d) joined *= x.size(d);
  shape.push_back(joined);
  for (int d = last + 1; d < x.dim(); ++d) shape.push_back(x.size(d));
  return reshape(x, shape);
}

Tensor permute(const Tensor& x, const Shape& dims) {
  WEFT_CHECK(dims.size() == x.dim(), "permute", "expected {} dimensions, got {}", x.dim(), dims);
  Shape shape, back;
  Strides strides;
  for (int d = 0; d < x.dim(); ++d) back.push_back(-1);
  for (int d = 0; d < x.dim(); ++d) {
    const int from = wrap_dim(dims[d], x.dim(), "permute");
    WEFT_CHECK(back[from] < 0, "permute", "dimension {} stands twice in {}", from, dims);
    back[from] = d;
    shape.push_back(x.size(from));
    strides.push_back(x.stride(from));
  }
  return record("permute", {x}, x.alias(shape, strides, x.offset()),
                [back](Node&, const Gradients& dy) -> Gradients { return {permute(dy[0], back)}; });
}

Tensor transpose(const Tensor& x, int64_t a, int64_t b) {
  Shape dims;
  for (int d = 0; d < x.dim(); ++d) dims.push_back(d);
  const int first = wrap_dim(a, x.dim(), "transpose");
  const int second = wrap_dim(b, x.dim(), "transpose");
  if (x.dim() == 0) return permute(x, dims);
  std::swap(dims[first], dims[second]);
  return permute(x, dims);
}

Tensor unsqueeze(const Tensor& x, int64_t dim) {
  const int at = wrap_dim(dim, x.dim() + 1, "unsqueeze");
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape.insert(at, 1);
  strides.insert(at, 1);
  return record("unsqueeze", {x}, x.alias(shape, strides, x.offset()),
                [at](Node&, const Gradients& dy) -> Gradients { return {squeeze(dy[0], at)}; });
}

Tensor squeeze(const Tensor& x) {
  Shape shape;
  Strides strides;
  for (int d = 0; d < x.dim(); ++d) {
    if (x.size(d) == 1) continue;
    shape.push_back(x.size(d));
    strides.push_back(x.stride(d));
  }
  return record("squeeze", {x}, x.alias(shape, strides, x.offset()),
                [before = x.shape()](Node&, const Gradients& dy) -> Gradients { return {reshape(dy[0], before)}; });
}

Tensor squeeze(const Tensor& x, int64_t dim) {
  const int at = wrap_dim(dim, x.dim(), "squeeze");
  Shape shape = x.shape();
  Strides strides = x.strides();
  if (x.dim() > 0 && x.size(at) == 1) {
    shape.erase(at);
    strides.erase(at);
  }
  return record("squeeze", {x}, x.alias(shape, strides, x.offset()),
                [before = x.shape()](Node&, const Gradients& dy) -> Gradients { return {reshape(dy[0], before)}; });
}

Tensor expand(const Tensor& x, const Shape& asked) {
  Shape shape = asked;
  Strides strides = asked;
  const int added = shape.size() - x.dim();
  WEFT_CHECK(added >= 0, "expand", "shape {} has fewer dimensions than {}", asked, describe(x));
  for (int d = 0; d < shape.size(); ++d) {
    const int own = d - added;
    if (shape[d] == -1) {
      WEFT_CHECK(own >= 0, "expand", "-1 stands for a new dimension in {}", asked);
      shape[d] = x.size(own);
    }
    WEFT_CHECK(shape[d] >= 0 && (own < 0 || x.size(own) == 1 || x.size(own) == shape[d]), "expand",
               "{} does not expand to {}: dimension {} has size {}", describe(x), asked, d, own < 0 ? 1 : x.size(own));
    strides[d] = own < 0 || x.size(own) != shape[d] ? 0 : x.stride(own);
  }
  return record(
      "expand", {x}, x.alias(shape, strides, x.offset()),
      [before = x.shape()](Node&, const Gradients& dy) -> Gradients { return {detail::sum_to(dy[0], before)}; });
}

Tensor slice(const Tensor& x, int64_t dim, std::optional<int64_t> start, std::optional<int64_t> stop, int64_t step) {
  WEFT_CHECK(x.dim() > 0, "slice", "a 0-d tensor has no dimension to slice");
  WEFT_CHECK(step > 0, "slice", "expected a step of at least 1, got {}; use flip() to reverse", step);
  const int d = wrap_dim(dim, x.dim(), "slice");
  const int64_t size = x.size(d);
  const auto position = [size](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size); };
  const int64_t first = position(start.value_or(0));
  const int64_t last = position(stop.value_or(size));
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape[d] = last > first ? (last - first + step - 1) / step : 0;
  strides[d] = x.stride(d) * step;
  Tensor y = x.alias(shape, strides, x.offset() + (shape[d] ? first * x.stride(d) : 0));
  return record_part("slice", x, std::move(y), [=](const Tensor& t) { return slice(t, d, first, last, step); });
}

Tensor narrow(const Tensor& x, int64_t dim, int64_t start, int64_t length) {
  const int d = wrap_dim(dim, x.dim(), "narrow");
  WEFT_CHECK(x.dim() > 0, "narrow", "a 0-d tensor has no dimension to narrow");
  const int64_t first = start < 0 ? start + x.size(d) : start;
  WEFT_CHECK(first >= 0 && length >= 0 && first <= x.size(d) - length, "narrow",
             "{} elements from {} leave dimension {} of {}", length, start, dim, describe(x));
  return slice(x, d, first, first + length);
}

Tensor select(const Tensor& x, int64_t dim, int64_t index) {
  WEFT_CHECK(x.dim() > 0, "select", "a 0-d tensor has no dimension to select from");
  const int d = wrap_dim(dim, x.dim(), "select");
  const int64_t at = index < 0 ? index + x.size(d) : index;
  WEFT_CHECK(at >= 0 && at < x.size(d), "select", "index {} is out of range for dimension {} of {}", index, dim,
             describe(x));
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape.erase(d);
  strides.erase(d);
  return record_part("select", x, x.alias(shape, strides, x.offset() + at * x.stride(d)),
                     [=](const Tensor& t) { return select(t, d, at); });
}

Tensor diagonal(const Tensor& x, int64_t offset, int64_t dim1, int64_t dim2) {
  WEFT_CHECK(x.dim() >= 2, "diagonal", "expected at least two dimensions, got {}", describe(x));
  const int a = wrap_dim(dim1, x.dim(), "diagonal");
  const int b = wrap_dim(dim2, x.dim(), "diagonal");
  WEFT_CHECK(a != b, "diagonal", "the two dimensions are the same: {}", a);
  const int64_t rows = x.size(a) - std::max<int64_t>(-offset, 0);
  const int64_t columns = x.size(b) - std::max<int64_t>(offset, 0);
  const int64_t length = std::max<int64_t>(std::min(rows, columns), 0);
  Shape shape = x.shape();
  Strides strides = x.strides();
  for (int d : {std::max(a, b), std::min(a, b)}) {
    shape.erase(d);
    strides.erase(d);
  }
  shape.push_back(length);
  strides.push_back(x.stride(a) + x.stride(b));
  const int64_t first =
      length ? std::max<int64_t>(-offset, 0) * x.stride(a) + std::max<int64_t>(offset, 0) * x.stride(b) : 0;
  return record_part("diagonal", x, x.alias(shape, strides, x.offset() + first),
                     [=](const Tensor& t) { return diagonal(t, offset, a, b); });
}

Tensor as_strided(const Tensor& x, const Shape& shape, const Strides& strides, int64_t offset) {
  WEFT_CHECK(shape.size() == strides.size(), "as_strided", "{} sizes but {} strides", shape.size(), strides.size());
  int64_t last = offset;
  for (int d = 0; d < shape.size(); ++d) {
    WEFT_CHECK(shape[d] >= 0 && strides[d] >= 0, "as_strided", "negative size or stride in {} / {}", shape, strides);
    last += std::max<int64_t>(shape[d] - 1, 0) * strides[d];
  }
  const int64_t available = x.storage()->bytes() / size_of(x.dtype());
  WEFT_CHECK(offset >= 0 && (shape.numel() == 0 || last < available), "as_strided",
             "shape {} with strides {} from {} reaches element {} of a storage of {}", shape, strides, offset, last,
             available);
  const int64_t shift = offset - x.offset();
  const bool dense = x.is_contiguous();
  return record("as_strided", {x}, x.alias(shape, strides, offset),
                [=, before = x.shape()](Node&, const Gradients& dy) -> Gradients {
                  WEFT_CHECK(dense && shift >= 0, "as_strided", "its gradient needs a contiguous input");
                  // Element i of the view is element index[i] of x, possibly several times.
                  const Tensor index = arange(before.numel(), dy[0].device());
                  const Tensor places = index.alias(shape, strides, shift).contiguous();
                  const Tensor flat = zeros({before.numel()}, dy[0].options());
                  return {reshape(index_add(flat, 0, reshape(places, {-1}), reshape(dy[0], {-1})), before)};
                });
}

// --- methods ----------------------------------------------------------------------------------------------------

Tensor Tensor::slice(int64_t dim, std::optional<int64_t> start, std::optional<int64_t> stop, int64_t step) const {
  return weft::slice(*this, dim, start, stop, step);
}
Tensor Tensor::narrow(int64_t dim, int64_t start, int64_t length) const {
  return weft::narrow(*this, dim, start, length);
}
Tensor Tensor::select(int64_t dim, int64_t index) const { return weft::select(*this, dim, index); }
Tensor Tensor::reshape(const Shape& shape) const { return weft::reshape(*this, shape); }
Tensor Tensor::flatten(int64_t start, int64_t end) const { return weft::flatten(*this, start, end); }
Tensor Tensor::permute(const Shape& dims) const { return weft::permute(*this, dims); }
Tensor Tensor::transpose(int64_t a, int64_t b) const { return weft::transpose(*this, a, b); }
Tensor Tensor::unsqueeze(int64_t dim) const { return weft::unsqueeze(*this, dim); }
Tensor Tensor::squeeze() const { return weft::squeeze(*this); }
Tensor Tensor::squeeze(int64_t dim) const { return weft::squeeze(*this, dim); }
Tensor Tensor::expand(const Shape& shape) const { return weft::expand(*this, shape); }

Tensor Tensor::contiguous() const { return is_contiguous() ? *this : clone(); }

Tensor Tensor::clone() const {
  Tensor result = empty_like(*this);
  detail::copy_elements(*this, result);
  return record("clone", {*this}, result, [](Node&, const Gradients& dy) -> Gradients { return {dy[0]}; });
}

Tensor Tensor::to(DType to) const {
  if (to == dtype()) return *this;
  Tensor result = empty(shape(), {.dtype = to, .device = device()});
  detail::copy_elements(*this, result);
  return record("to", {*this}, result,
                [before = dtype()](Node&, const Gradients& dy) -> Gradients { return {dy[0].to(before)}; });
}

Tensor Tensor::to(Device to) const {
  if (to == device()) return *this;
  Tensor result = empty(shape(), {.dtype = dtype(), .device = to});
  if (is_meta()) fail(ErrorCode::unsupported, "to", "a meta tensor has no elements to copy to {}", name(to));
  detail::copy_elements(*this, result);
  return record("to", {*this}, result,
                [before = device()](Node&, const Gradients& dy) -> Gradients { return {dy[0].to(before)}; });
}

}  // namespace weft
