// Joining, cutting and moving: cat, split, flip, roll, pad, repeat and relatives.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/node.h"
#include "autograd/ops/common.h"
#include "autograd/ops/index.h"
#include "autograd/ops/pointwise.h"
#include "autograd/ops/view.h"
#include "kernels/table.h"
#include "tensor/factory.h"

namespace weft {
namespace {

// A view without history of `length` slices from `start` on.
Tensor part(const Tensor& x, int dim, int64_t start, int64_t length) {
  Shape shape = x.shape();
  shape[dim] = length;
  return x.alias(shape, x.strides(), x.offset() + (length ? start * x.stride(dim) : 0));
}

bool left_out_of_cat(const Tensor& x) { return x.dim() == 1 && x.size(0) == 0; }

// Zero-filled room around x, or parts of it cut off.
Tensor pad_constant(const Tensor& x, const std::vector<int64_t>& padding, double value) {
  Shape shape = x.shape();
  Shape from = x.shape(), to = x.shape(), length = x.shape();
  for (int d = 0; d < x.dim(); ++d) {
    const size_t k = 2 * static_cast<size_t>(x.dim() - 1 - d);
    const int64_t before = k < padding.size() ? padding[k] : 0;
    const int64_t after = k < padding.size() ? padding[k + 1] : 0;
    shape[d] = x.size(d) + before + after;
    WEFT_CHECK(shape[d] >= 0, "pad", "padding {} and {} leave a size of {} in dimension {} of {}", before, after,
               shape[d], d, describe(x));
    from[d] = std::max<int64_t>(-before, 0);
    to[d] = std::max<int64_t>(before, 0);
    length[d] = std::max<int64_t>(0, x.size(d) - from[d] - std::max<int64_t>(-after, 0));
  }
  const Tensor y = full(shape, value, {.dtype = x.dtype(), .device = x.device()});
  if (!x.is_meta() && length.numel() > 0) {
    Tensor source = x, target = y;
    for (int d = 0; d < x.dim(); ++d) {
      source = part(source, d, from[d], length[d]);
      target = part(target, d, to[d], length[d]);
    }
    detail::copy_elements(source, target);
  }
  return record("pad", {x}, y, [padding](Node&, const Gradients& dy) -> Gradients {
    std::vector<int64_t> back = padding;
    for (int64_t& amount : back) amount = -amount;
    return {pad_constant(dy[0], back, 0)};
  });
}

// Which slice of a dimension of `size` stands at place i of the padded one, counted from the first inner slice.
int64_t mirrored(int64_t i, int64_t size, bool reflect) {
  if (!reflect) return std::clamp<int64_t>(i, 0, size - 1);
  if (i < 0) return -i;
  return i < size ? i : 2 * (size - 1) - i;
}

Tensor pad_by_index(const Tensor& x, const std::vector<int64_t>& padding, bool reflect) {
  Tensor y = x;
  for (size_t k = 0; k + 1 < padding.size(); k += 2) {
    const int d = x.dim() - 1 - static_cast<int>(k / 2);
    const int64_t size = x.size(d), before = padding[k], after = padding[k + 1];
    if (before == 0 && after == 0) continue;
    WEFT_CHECK(size > 0 && before + size + after >= 0, "pad", "padding {} and {} does not fit dimension {} of {}",
               before, after, d, describe(x));
    WEFT_CHECK(!reflect || (before < size && after < size), "pad",
               "reflection needs padding below the size {} of dimension {}, got {} and {}", size, d, before, after);
    std::vector<int64_t> index;
    for (int64_t i = -before; i < size + after; ++i) index.push_back(mirrored(i, size, reflect));
    y = index_select(y, d, tensor(index).to(x.device()));
  }
  return y;
}

Tensor keep_triangle(const char* op, const Tensor& x, int64_t diagonal, bool lower) {
  WEFT_CHECK(x.dim() >= 2, op, "expected at least two dimensions, got {}", describe(x));
  const Tensor distance = arange(x.size(-1), x.device()) - unsqueeze(arange(x.size(-2), x.device()), 1);
  return where(lower ? distance <= diagonal : distance >= diagonal, x, 0);
}

}  // namespace

Tensor cat(const std::vector<Tensor>& tensors, int64_t dim) {
  WEFT_CHECK(!tensors.empty(), "cat", "expected at least one tensor");
  DType dtype = tensors[0].dtype();
  const Tensor* first = nullptr;
  for (const Tensor& t : tensors) {
    dtype = promote(dtype, t.dtype());
    detail::check_same_device("cat", tensors[0], t);
    WEFT_CHECK(t.dim() > 0, "cat", "0-d tensors have no dimension to join along; use stack");
    if (!first && !left_out_of_cat(t)) first = &t;
  }
  if (!first) first = &tensors[0];
  const int d = wrap_dim(dim, first->dim(), "cat");
  Shape shape = first->shape();
  shape[d] = 0;
  std::vector<int64_t> sizes;
  for (const Tensor& t : tensors) {
    sizes.push_back(left_out_of_cat(t) ? 0 : -1);
    if (sizes.back() == 0) continue;
    Shape expected = t.shape();
    WEFT_CHECK(t.dim() == first->dim(), "cat", "numbers of dimensions differ: {} and {}", describe(*first),
               describe(t));
    sizes.back() = t.size(d);
    expected[d] = shape[d];
    WEFT_CHECK(expected == shape, "cat", "shapes differ outside dimension {}: {} and {}", d, describe(*first),
               describe(t));
    shape[d] += t.size(d);
  }
  const Tensor y = empty(shape, {.dtype = dtype, .device = first->device()});
  int64_t start = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!y.is_meta() && sizes[i] > 0 && tensors[i].numel() > 0)
      detail::copy_elements(tensors[i], part(y, d, start, sizes[i]));
    start += sizes[i];
  }
  std::vector<std::pair<Shape, DType>> inputs;
  for (const Tensor& t : tensors) inputs.emplace_back(t.shape(), t.dtype());
  return record("cat", tensors, y, [d, sizes, inputs](Node& node, const Gradients& dy) -> Gradients {
    Gradients result(sizes.size());
    int64_t start = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (node.needs_input_grad(i))
        result[i] = reshape(narrow(dy[0], d, start, sizes[i]), inputs[i].first).to(inputs[i].second);
      start += sizes[i];
    }
    return result;
  });
}

Tensor stack(const std::vector<Tensor>& tensors, int64_t dim) {
  WEFT_CHECK(!tensors.empty(), "stack", "expected at least one tensor");
  const int d = wrap_dim(dim, tensors[0].dim() + 1, "stack");
  std::vector<Tensor> slices;
  for (const Tensor& t : tensors) {
    WEFT_CHECK(t.shape() == tensors[0].shape(), "stack", "shapes differ: {} and {}", describe(tensors[0]), describe(t));
    slices.push_back(unsqueeze(t, d));
  }
  return cat(slices, d);
}

std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t dim) {
  WEFT_CHECK(x.dim() > 0, "split", "a 0-d tensor has no dimension to split");
  const int d = wrap_dim(dim, x.dim(), "split");
  int64_t total = 0;
  for (int64_t size : sizes) {
    WEFT_CHECK(size >= 0, "split", "size {} is negative", size);
    total += size;
  }
  WEFT_CHECK(total == x.size(d), "split", "the sizes add up to {}, dimension {} of {} has {}", total, d, describe(x),
             x.size(d));
  std::vector<Tensor> parts;
  int64_t start = 0;
  for (int64_t size : sizes) {
    parts.push_back(part(x, d, start, size));
    start += size;
  }
  // One node for all parts: their gradients are joined by one copy.
  return record("split", {x}, std::move(parts), [=](Node& node, const Gradients& dy) -> Gradients {
    Gradients known = dy;
    for (size_t i = 0; i < known.size(); ++i) {
      const Node::Output& output = node.outputs[i];
      if (!known[i].defined()) known[i] = zeros(output.shape, {.dtype = output.dtype, .device = output.device});
    }
    return {cat(known, d)};
  });
}

std::vector<Tensor> split(const Tensor& x, int64_t size, int64_t dim) {
  WEFT_CHECK(x.dim() > 0, "split", "a 0-d tensor has no dimension to split");
  WEFT_CHECK(size > 0, "split", "expected a size of at least 1, got {}", size);
  const int64_t total = x.size(wrap_dim(dim, x.dim(), "split"));
  std::vector<int64_t> sizes;
  for (int64_t start = 0; start < total || sizes.empty(); start += size) sizes.push_back(std::min(size, total - start));
  return split(x, sizes, dim);
}

std::vector<Tensor> chunk(const Tensor& x, int64_t chunks, int64_t dim) {
  WEFT_CHECK(chunks > 0, "chunk", "expected at least 1 chunk, got {}", chunks);
  WEFT_CHECK(x.dim() > 0, "chunk", "a 0-d tensor has no dimension to cut");
  const int64_t size = x.size(wrap_dim(dim, x.dim(), "chunk"));
  if (size == 0) return split(x, std::vector<int64_t>(static_cast<size_t>(chunks), 0), dim);
  return split(x, (size + chunks - 1) / chunks, dim);
}

std::vector<Tensor> unbind(const Tensor& x, int64_t dim) {
  WEFT_CHECK(x.dim() > 0, "unbind", "a 0-d tensor has no dimension to take apart");
  const int d = wrap_dim(dim, x.dim(), "unbind");
  if (x.size(d) == 0) return {};
  // By split, whose one node joins all gradients; a select each would add as many tensors of x's size.
  std::vector<Tensor> slices = split(x, 1, d);
  for (Tensor& slice : slices) slice = squeeze(slice, d);
  return slices;
}

Tensor flip(const Tensor& x, const Shape& dims) {
  std::array<bool, Shape::kMaxDims> turned{};
  for (int64_t dim : dims) {
    const auto d = static_cast<size_t>(wrap_dim(dim, x.dim(), "flip"));
    WEFT_CHECK(!turned[d], "flip", "dimension {} stands twice in {}", d, dims);
    turned[d] = true;
  }
  const Tensor y = empty(x.shape(), {.dtype = x.dtype(), .device = x.device()});
  if (!x.is_meta() && x.numel() > 0) {
    // The copy starts at the far end and walks back.
    Strides strides = x.strides();
    int64_t last = 0;
    for (int d = 0; d < x.dim(); ++d) {
      if (!turned[static_cast<size_t>(d)]) continue;
      last += (x.size(d) - 1) * x.stride(d);
      strides[d] = -x.stride(d);
    }
    const void* start = static_cast<const char*>(x.data()) + last * size_of(x.dtype());
    kernel_table(x.device().type, "flip")
        .copy.copy(current_stream(x.device()), x.dim(), x.shape().data(), x.dtype(), start, strides.data(), y.dtype(),
                   y.data(), y.strides().data());
  }
  return record("flip", {x}, y, [dims](Node&, const Gradients& dy) -> Gradients { return {flip(dy[0], dims)}; });
}

Tensor roll(const Tensor& x, const Shape& shifts, const Shape& dims) {
  if (dims.empty()) {
    WEFT_CHECK(shifts.size() == 1, "roll", "without dimensions there is one shift, got {}", shifts);
    return reshape(roll(reshape(x, {-1}), shifts, {0}), x.shape());
  }
  WEFT_CHECK(shifts.size() == dims.size(), "roll", "{} shifts for {} dimensions", shifts.size(), dims.size());
  Tensor y = x;
  for (int i = 0; i < dims.size(); ++i) {
    const int d = wrap_dim(dims[i], x.dim(), "roll");
    const int64_t size = x.dim() ? x.size(d) : 1;
    if (size <= 1) continue;
    const int64_t shift = (shifts[i] % size + size) % size;
    y = cat({narrow(y, d, size - shift, shift), narrow(y, d, 0, size - shift)}, d);
  }
  return y;
}

Tensor tril(const Tensor& x, int64_t diagonal) { return keep_triangle("tril", x, diagonal, true); }
Tensor triu(const Tensor& x, int64_t diagonal) { return keep_triangle("triu", x, diagonal, false); }

Tensor pad(const Tensor& x, const std::vector<int64_t>& padding, const std::string& mode, double value) {
  WEFT_CHECK(padding.size() % 2 == 0 && static_cast<int>(padding.size()) <= 2 * x.dim(), "pad",
             "expected (before, after) for up to {} dimensions, got {} amounts", x.dim(), padding.size());
  if (mode == "constant") return pad_constant(x, padding, value);
  WEFT_CHECK(mode == "reflect" || mode == "replicate", "pad", "unknown mode \"{}\": constant, reflect or replicate",
             mode);
  return pad_by_index(x, padding, mode == "reflect");
}

Tensor repeat(const Tensor& x, const Shape& repeats) {
  const int added = repeats.size() - x.dim();
  WEFT_CHECK(added >= 0, "repeat", "{} repeats for {}", repeats.size(), describe(x));
  Tensor y = x;
  for (int d = 0; d < repeats.size(); ++d) {
    WEFT_CHECK(repeats[d] >= 0, "repeat", "repeat count {} is negative", repeats[d]);
    if (d < added) y = unsqueeze(y, 0);
  }
  for (int d = 0; d < repeats.size(); ++d) {
    if (repeats[d] == 1) continue;
    // [.., n, ..] → [.., repeats, n, ..] → joined
    const Tensor wide = unsqueeze(y, d);
    Shape shape = wide.shape();
    shape[d] = repeats[d];
    Shape joined = y.shape();
    joined[d] = y.size(d) * repeats[d];
    y = reshape(expand(wide, shape), joined);
  }
  return y.is(x) ? x.clone() : y;
}

Tensor repeat_interleave(const Tensor& x, int64_t repeats, int64_t dim) {
  WEFT_CHECK(repeats >= 0, "repeat_interleave", "repeat count {} is negative", repeats);
  if (x.dim() == 0) return repeat_interleave(reshape(x, {1}), repeats, dim);
  const int d = wrap_dim(dim, x.dim(), "repeat_interleave");
  const Tensor wide = unsqueeze(x, d + 1);
  Shape shape = wide.shape();
  shape[d + 1] = repeats;
  Shape joined = x.shape();
  joined[d] = x.size(d) * repeats;
  return reshape(expand(wide, shape), joined);
}

Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, int64_t dim) {
  const int d = wrap_dim(dim, x.dim(), "repeat_interleave");
  WEFT_CHECK(repeats.dim() == 1 && !is_floating(repeats.dtype()) && x.dim() > 0 && repeats.size(0) == x.size(d),
             "repeat_interleave", "expected {} whole numbers, got {}", x.dim() ? x.size(d) : 1, describe(repeats));
  std::vector<int64_t> index;
  const Tensor counts = repeats.to(i64).to(cpu_device).contiguous();
  for (int64_t i = 0; i < counts.numel(); ++i) {
    const int64_t count = counts.data<int64_t>()[i];
    WEFT_CHECK(count >= 0, "repeat_interleave", "repeat count {} is negative", count);
    index.insert(index.end(), static_cast<size_t>(count), i);
  }
  return index_select(x, d, tensor(index).to(x.device()));
}

Tensor unfold(const Tensor& x, int64_t dim, int64_t size, int64_t step) {
  const int d = wrap_dim(dim, x.dim(), "unfold");
  WEFT_CHECK(x.dim() > 0 && size >= 0 && size <= x.size(d) && step > 0, "unfold",
             "windows of {} with step {} do not fit dimension {} of {}", size, step, dim, describe(x));
  const Tensor dense = x.contiguous();
  Shape shape = dense.shape();
  Strides strides = dense.strides();
  shape[d] = (x.size(d) - size) / step + 1;
  strides[d] = dense.stride(d) * step;
  shape.push_back(size);
  strides.push_back(dense.stride(d));
  return as_strided(dense, shape, strides, dense.offset());
}

std::vector<Tensor> meshgrid(const std::vector<Tensor>& axes) {
  Shape shape;
  for (const Tensor& axis : axes) {
    WEFT_CHECK(axis.dim() <= 1, "meshgrid", "expected one-dimensional tensors, got {}", describe(axis));
    shape.push_back(axis.numel());
  }
  std::vector<Tensor> grids;
  for (size_t i = 0; i < axes.size(); ++i) {
    Shape own;
    for (size_t k = 0; k < axes.size(); ++k) own.push_back(k == i ? axes[i].numel() : 1);
    grids.push_back(expand(reshape(axes[i], own), shape));
  }
  return grids;
}

Tensor nan_to_num(const Tensor& x, double nan, std::optional<double> positive_infinity,
                  std::optional<double> negative_infinity) {
  if (!is_floating(x.dtype())) return x.clone();
  // The largest finite value: the largest number below infinity that the dtype holds.
  const auto largest = [&] {
    switch (x.dtype()) {
      case DType::f64: return std::numeric_limits<double>::max();
      case DType::f16: return 65504.0;
      case DType::bf16: return static_cast<double>(static_cast<float>(BFloat16::from_bits(0x7f7f)));
      case DType::f8e4m3: return 448.0;
      case DType::f8e5m2: return 57344.0;
      default: return static_cast<double>(std::numeric_limits<float>::max());
    }
  }();
  const double infinity = std::numeric_limits<double>::infinity();
  Tensor y = where(isnan(x), nan, x);
  y = where(eq(x, infinity), positive_infinity.value_or(largest), y);
  return where(eq(x, -infinity), negative_infinity.value_or(-largest), y);
}

}  // namespace weft
