#include "tensor/storage.h"

#include "kernels/base/error.h"
#include "tensor/allocator.h"

namespace weft {
namespace {

void* allocate_on(Device device, int64_t bytes) {
  if (device.type == DeviceType::cpu) return detail::allocate_block(bytes);
  return detail::allocate_device_block(current_stream(device), bytes);
}

void free_on(Device device, void* data, int64_t bytes) noexcept {
  if (device.type == DeviceType::cpu)
    detail::free_block(data, bytes);
  else
    detail::free_device_block(device, data);
}

}  // namespace

Ref<Storage> Storage::allocate(int64_t bytes, Device device) {
  if (device.type == DeviceType::meta) return Ref<Storage>(new Storage(nullptr, bytes, device, false, {}));
  Ref<Storage> storage(new Storage(nullptr, bytes, device, true, {}));
  storage->materialize();
  return storage;
}

Ref<Storage> Storage::wrap(void* data, int64_t bytes, Device device, std::function<void()> deleter) {
  return Ref<Storage>(new Storage(data, bytes, device, false, std::move(deleter)));
}

Storage::~Storage() {
  if (owned_ && data_) free_on(device_, data_, bytes_);
  if (deleter_) deleter_();
}

void Storage::release() {
  if (!owned_)
    fail(ErrorCode::unsupported, "storage.release", "only memory of Weft's own allocator can be released in place");
  if (data_) free_on(device_, data_, bytes_);
  data_ = nullptr;
}

void Storage::materialize() {
  if (owned_ && !data_ && bytes_ > 0) data_ = allocate_on(device_, bytes_);
}

}  // namespace weft
