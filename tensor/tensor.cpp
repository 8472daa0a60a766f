#include "tensor/tensor.h"

#include "kernels/copy/convert.h"
#include "tensor/device.h"
#include "tensor/factory.h"

namespace weft {

void* Tensor::data() const {
  const TensorImpl& t = impl();
  if (t.storage->device().type == DeviceType::meta)
    fail(ErrorCode::unsupported, "data", "a tensor on the meta device has a shape but no elements");
  if (!t.storage->materialized())
    fail(ErrorCode::invalid_argument, "data", "the storage of this tensor is released; gather it again first");
  return static_cast<char*>(t.storage->data()) + t.offset * size_of(t.dtype);
}

void Tensor::check_type(DType asked) const {
  WEFT_CHECK(dtype() == asked, "data", "the elements are {}, asked for as {}; convert with to({})", dtype(), asked,
             asked);
}

void Tensor::check_host() const {
  WEFT_CHECK(device().type == DeviceType::cpu, "view",
             "the elements are on {}, where the host must not touch them; copy them with to(Device::cpu())",
             name(device()));
}

double Tensor::item_double() const {
  WEFT_CHECK(numel() == 1, "item", "expected one element, got shape {}", shape());
  double value = 0;
  cpu::convert_row(dtype(), detail::on_host(*this).data(), 1, DType::f64, &value, 1, 1);
  return value;
}

int64_t Tensor::item_int64() const {
  WEFT_CHECK(numel() == 1, "item", "expected one element, got shape {}", shape());
  int64_t value = 0;
  cpu::convert_row(dtype(), detail::on_host(*this).data(), 1, DType::i64, &value, 1, 1);
  return value;
}

std::vector<double> Tensor::to_vector() const {
  std::vector<double> values(static_cast<size_t>(numel()));
  const Tensor dense = detail::on_host(*this);
  if (!values.empty()) cpu::convert_row(dtype(), dense.data(), 1, DType::f64, values.data(), 1, numel());
  return values;
}

Tensor Tensor::alias(const Shape& shape, const Strides& strides, int64_t offset) const {
  Ref<TensorImpl> view = make_ref<TensorImpl>();
  view->storage = impl().storage;
  view->dtype = impl().dtype;
  view->shape = shape;
  view->strides = strides;
  view->offset = offset;
  view->is_view = true;
  // Strides of dimensions of size 0 or 1 do not matter.
  int64_t step = 1;
  for (int d = shape.size() - 1; d >= 0; --d) {
    if (shape[d] != 1 && strides[d] != step) view->contiguous = false;
    step *= shape[d];
  }
  if (shape.numel() == 0) view->contiguous = true;
  impl().has_views.store(true, std::memory_order_relaxed);
  return Tensor(std::move(view));
}

}  // namespace weft
