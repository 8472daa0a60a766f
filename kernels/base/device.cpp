#include "kernels/base/device.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <mutex>

#include "kernels/base/error.h"

namespace weft {
namespace {

// The folder of this very library (or program, where it is linked statically), with a slash at the end.
std::string own_folder() {
  Dl_info info{};
  if (!dladdr(reinterpret_cast<const void*>(&throw_fault), &info) || !info.dli_fname) return {};
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash + 1);
}

// Opened once and kept: its code may be running on other threads until the very end.
const DeviceLibrary* open_library(DeviceType type, void*& handle, std::string& why) {
  const std::string file = fmt::format("libweft_{}.so", name(type));
  // The examination of kernels puts its own build of the emulator there (weft kernel-check).
  const char* traced = std::getenv("WEFT_SIMT_LIBRARY");
  // The one beside this library belongs to it; the linker's search path is for unusual installations.
  const bool replaced = type == DeviceType::simt && traced && *traced;
  handle = dlopen(replaced ? traced : (own_folder() + file).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    why = dlerror();
    if (replaced) return nullptr;
    handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (!handle) return nullptr;
  using Entry = const DeviceLibrary* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(handle, "weft_device_library"));
  if (!entry) {
    why = file + " has no weft_device_library; it belongs to another version";
    return nullptr;
  }
  return entry();
}

struct Slot {
  std::once_flag once;
  std::atomic<const DeviceLibrary*> library{nullptr};
  void* handle = nullptr;  // valid once `library` is set
  std::string why;
};

Slot& slot_of(DeviceType type) {
  static std::array<Slot, kDeviceTypes>* const slots = new std::array<Slot, kDeviceTypes>;
  return (*slots)[static_cast<size_t>(type)];
}

const DeviceLibrary* find_library(DeviceType type, std::string& why) {
  Slot& slot = slot_of(type);
  if (const DeviceLibrary* library = slot.library.load(std::memory_order_acquire)) return library;
  std::call_once(slot.once,
                 [&] { slot.library.store(open_library(type, slot.handle, slot.why), std::memory_order_release); });
  why = slot.why;
  return slot.library.load(std::memory_order_acquire);
}

}  // namespace

const DeviceLibrary& device_library(DeviceType type, std::string_view op) {
  if (type != DeviceType::cuda && type != DeviceType::simt)
    fail(ErrorCode::unsupported, op, "the {} device has no kernels to load", name(type));
  std::string why;
  const DeviceLibrary* library = find_library(type, why);
  if (!library)
    fail(ErrorCode::unsupported, op, "device {} is not available ({}); build with -D{}=enabled or use cpu", name(type),
         why, name(type));
  return *library;
}

const DeviceRuntime& device_runtime(DeviceType type, std::string_view op) { return *device_library(type, op).runtime; }

void* device_symbol(DeviceType type, const char* symbol, std::string_view op) {
  device_library(type, op);
  return loaded_device_symbol(type, symbol);
}

void* loaded_device_symbol(DeviceType type, const char* symbol) noexcept {
  const Slot& slot = slot_of(type);
  return slot.library.load(std::memory_order_acquire) ? dlsym(slot.handle, symbol) : nullptr;
}

int device_count(DeviceType type) noexcept {
  if (type == DeviceType::cpu || type == DeviceType::meta) return 1;
  try {
    std::string why;
    const DeviceLibrary* library = find_library(type, why);
    return library ? library->runtime->device_count() : 0;
  } catch (...) {
    return 0;
  }
}

void throw_fault(DeviceFault& fault) {
  if (std::atomic_ref<uint32_t>(fault.raised).load(std::memory_order_acquire) != 2) return;
  const DeviceFault found = fault;
  std::atomic_ref<uint32_t>(fault.raised).store(0, std::memory_order_release);
  fail(ErrorCode::invalid_argument, found.op ? found.op : "kernel",
       "position {} holds {}, expected a value from {} to {}", found.position, found.value, found.low, found.high - 1);
}

}  // namespace weft
