#include "tensor/storage.h"

#include "kernels/base/error.h"
#include "tensor/allocator.h"

namespace weft {

Ref<Storage> Storage::allocate(int64_t bytes, Device device) {
  if (device.type == DeviceType::meta) return Ref<Storage>(new Storage(nullptr, bytes, device, false, {}));
  if (device.type != DeviceType::cpu)
    fail(ErrorCode::unsupported, "allocate", "no memory on device {} in this build; use cpu or meta",
         name(device.type));
  Ref<Storage> storage(new Storage(nullptr, bytes, device, true, {}));
  storage->materialize();
  return storage;
}

Ref<Storage> Storage::wrap(void* data, int64_t bytes, Device device, std::function<void()> deleter) {
  return Ref<Storage>(new Storage(data, bytes, device, false, std::move(deleter)));
}

Storage::~Storage() {
  if (owned_ && data_) detail::free_block(data_, bytes_);
  if (deleter_) deleter_();
}

void Storage::release() {
  if (!owned_)
    fail(ErrorCode::unsupported, "storage.release", "only memory of Weft's own allocator can be released in place");
  if (data_) detail::free_block(data_, bytes_);
  data_ = nullptr;
}

void Storage::materialize() {
  if (owned_ && !data_ && bytes_ > 0) data_ = detail::allocate_block(bytes_);
}

}  // namespace weft
