// Tensor: a handle to a strided view of a Storage, with a dtype and, where gradients are wanted, autograd data.
//
//   Tensor x = randn({2, 3}, {.requires_grad = true});
//   Tensor y = sum(exp(2 * x.slice(1, 0, 2)));
//   y.backward();
//   auto view = x.view<float>();    // typed access: view(1, 2)
//
// Copying a Tensor copies the handle. Methods named like free functions (x.sum() and sum(x)) are the same operation;
// those that record gradients are defined in autograd/. Handles may be read from any thread; writes to the data are
// ordered by the caller.
#pragma once
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/base/dtype.h"
#include "kernels/base/ref.h"
#include "kernels/base/stream.h"
#include "tensor/shape.h"
#include "tensor/storage.h"

namespace weft {

class Tensor;
struct AutogradMeta;  // autograd/node.h
struct Node;          // autograd/node.h

struct TensorOptions {
  DType dtype = DType::f32;
  Device device = cpu_device;
  bool requires_grad = false;
};

namespace detail {
struct AutogradMetaDeleter {
  void operator()(AutogradMeta* meta) const noexcept;  // autograd/node.cpp
};
}  // namespace detail

// What a handle points at. Users never see it.
class TensorImpl final : public RefCounted {
 public:
  Ref<Storage> storage;
  int64_t offset = 0;  // in elements
  Shape shape;
  Strides strides;  // in elements
  DType dtype = DType::f32;
  bool contiguous = true;
  // A recorded in-place write would have to reach the history of these others too; see autograd/ops/inplace.cpp.
  bool is_view = false;                // made as a view of another tensor
  std::atomic<bool> has_views{false};  // another tensor was made as a view of this one
  std::unique_ptr<AutogradMeta, detail::AutogradMetaDeleter> autograd;
};

// Typed access to elements: view(i, j) and, for contiguous tensors, iteration.
template <class T>
class TensorView {
 public:
  TensorView(T* data, const Shape& shape, const Strides& strides) : data_(data), shape_(shape), strides_(strides) {}
  template <class... Index>
  T& operator()(Index... index) const {
    const int64_t at[] = {static_cast<int64_t>(index)..., 0};
    WEFT_CHECK(static_cast<int>(sizeof...(index)) == shape_.size(), "view", "{} indices for shape {}", sizeof...(index),
               shape_);
    int64_t offset = 0;
    for (int d = 0; d < shape_.size(); ++d) {
      WEFT_CHECK(at[d] >= 0 && at[d] < shape_[d], "view", "index {} is out of range in dimension {} of {}", at[d], d,
                 shape_);
      offset += at[d] * strides_[d];
    }
    return data_[offset];
  }
  const Shape& shape() const { return shape_; }
  T* data() const { return data_; }
  // Iteration needs contiguous memory.
  T* begin() const {
    WEFT_CHECK(strides_ == contiguous_strides(shape_), "view",
               "iteration needs a contiguous tensor; call contiguous()");
    return data_;
  }
  T* end() const { return begin() + shape_.numel(); }
  int64_t size() const { return shape_.numel(); }
  T& operator[](int64_t i) const { return begin()[i]; }

 private:
  T* data_;
  Shape shape_;
  Strides strides_;
};

using Hook = std::function<Tensor(const Tensor& grad)>;  // may return an undefined tensor: leave as it is

// Removes its hook when asked; letting it go keeps the hook.
class HookHandle {
 public:
  HookHandle() = default;
  explicit HookHandle(std::function<void()> remove) : remove_(std::move(remove)) {}
  void remove() {
    if (remove_) std::exchange(remove_, nullptr)();
  }

 private:
  std::function<void()> remove_;
};

struct BackwardOptions {
  bool retain_graph = false;
  bool create_graph = false;
};

class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(Ref<TensorImpl> impl) : impl_(std::move(impl)) {}

  // --- what it is ---------------------------------------------------------------------------------------------
  bool defined() const noexcept { return static_cast<bool>(impl_); }
  DType dtype() const { return impl().dtype; }
  Device device() const { return impl().storage->device(); }
  bool is_meta() const { return device().type == DeviceType::meta; }
  const Shape& shape() const { return impl().shape; }
  const Strides& strides() const { return impl().strides; }
  int64_t size(int64_t dim) const { return impl().shape[static_cast<int>(dim)]; }
  int64_t stride(int64_t dim) const { return impl().strides[static_cast<int>(dim)]; }
  int dim() const { return impl().shape.size(); }
  int64_t numel() const { return impl().shape.numel(); }
  int64_t nbytes() const { return numel() * size_of(dtype()); }
  int64_t offset() const { return impl().offset; }
  bool is_contiguous() const { return impl().contiguous; }
  TensorOptions options() const { return {.dtype = dtype(), .device = device()}; }
  const Ref<Storage>& storage() const { return impl().storage; }
  uint32_t version() const { return impl().storage->version(); }
  // The very same tensor (not: equal values).
  bool is(const Tensor& other) const noexcept { return impl_ == other.impl_; }
  TensorImpl& impl() const {
    if (!impl_) [[unlikely]]
      fail(ErrorCode::invalid_argument, "tensor", "the tensor is undefined");
    return *impl_;
  }

  // --- its elements -------------------------------------------------------------------------------------------
  // Address of element 0, on its device. Throws on the meta device and while the storage is released.
  void* data() const;
  template <class T>
  T* data() const {
    check_type(dtype_of<std::remove_const_t<T>>);
    return static_cast<T*>(data());
  }
  template <class T>
  TensorView<T> view() const {
    check_host();
    return {data<T>(), shape(), strides()};
  }
  // The value of a tensor with one element, converted to T.
  template <class T>
  T item() const {
    if (is_floating(dtype())) return static_cast<T>(item_double());
    return static_cast<T>(item_int64());
  }
  double item() const { return is_floating(dtype()) ? item_double() : static_cast<double>(item_int64()); }
  // All elements in row-major order, converted.
  std::vector<double> to_vector() const;

  // --- views and copies (differentiable) ----------------------------------------------------------------------
  Tensor slice(int64_t dim, std::optional<int64_t> start, std::optional<int64_t> stop, int64_t step = 1) const;
  Tensor narrow(int64_t dim, int64_t start, int64_t length) const;
  Tensor select(int64_t dim, int64_t index) const;
  Tensor operator[](int64_t index) const { return select(0, index); }
  Tensor reshape(const Shape& shape) const;  // one size may be -1; a view where strides allow
  Tensor flatten(int64_t start = 0, int64_t end = -1) const;
  Tensor permute(const Shape& dims) const;
  Tensor transpose(int64_t a, int64_t b) const;
  Tensor t() const { return transpose(0, 1); }
  Tensor unsqueeze(int64_t dim) const;
  Tensor squeeze() const;
  Tensor squeeze(int64_t dim) const;
  Tensor expand(const Shape& shape) const;  // -1 keeps a size
  Tensor contiguous() const;
  Tensor clone() const;
  Tensor to(DType dtype) const;
  Tensor to(Device device) const;
  Tensor sum() const;
  Tensor sum(const Shape& dims, bool keepdim = false) const;
  Tensor mean() const;
  Tensor mean(const Shape& dims, bool keepdim = false) const;
  Tensor matmul(const Tensor& other) const;

  // --- in place (bumps the version; see autograd/ops/inplace.h for the rules) ----------------------------------
  const Tensor& copy_(const Tensor& source) const;
  const Tensor& fill_(double value) const;
  const Tensor& zero_() const { return fill_(0); }
  const Tensor& add_(const Tensor& other, double alpha = 1) const;
  const Tensor& mul_(const Tensor& other) const;
  const Tensor& mul_(double factor) const;

  // --- gradients (autograd/) ----------------------------------------------------------------------------------
  bool requires_grad() const noexcept;
  const Tensor& requires_grad_(bool value = true) const;
  bool is_leaf() const noexcept;
  Tensor grad() const;  // undefined until backward reached this leaf
  void set_grad(Tensor grad) const;
  std::shared_ptr<Node> grad_fn() const;
  Tensor detach() const;  // the same data, no history
  // d(this)/d(leaves), added to each leaf's grad(). `gradient` may be left out for one element.
  void backward(const Tensor& gradient = {}, BackwardOptions options = {}) const;
  // Runs when the gradient of this tensor is known, before it goes on.
  HookHandle register_hook(Hook hook) const;
  // Runs after a leaf's grad() was updated.
  HookHandle register_post_accumulate_grad_hook(std::function<void(const Tensor& leaf)> hook) const;
  void retain_grad() const;

  // A view of the same storage without history. The caller checks that it stays inside the storage.
  Tensor alias(const Shape& shape, const Strides& strides, int64_t offset) const;

 private:
  void check_type(DType asked) const;
  void check_host() const;
  double item_double() const;
  int64_t item_int64() const;
  Ref<TensorImpl> impl_;
};

// "f32[2, 3]", for error texts; "undefined" for none.
std::string describe(const Tensor& tensor);
// Like NumPy's array printing.
std::string to_string(const Tensor& tensor);
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace weft

template <>
struct fmt::formatter<weft::Tensor> : fmt::formatter<std::string_view> {
  fmt::appender format(const weft::Tensor& tensor, fmt::format_context& context) const;
};
