// Where and in which order kernels run.
//
// A Stream is a small handle: a device and, on a GPU, the native queue. CPU kernels run at once on the calling thread,
// so there the handle only says "cpu". The current stream of a thread is thread-local; StreamGuard changes it.
#pragma once
#include <cstdint>
#include <string_view>

namespace weft {

// cpu; cuda; simt (CUDA kernels run on the CPU); meta (shapes only, no memory).
enum class DeviceType : uint8_t { cpu, cuda, simt, meta };

struct Device {
  DeviceType type = DeviceType::cpu;
  int8_t index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};

constexpr std::string_view name(DeviceType type) {
  constexpr std::string_view names[] = {"cpu", "cuda", "simt", "meta"};
  return names[static_cast<int>(type)];
}

// `cpu` itself is the namespace of the CPU kernels.
inline constexpr Device cpu_device{DeviceType::cpu, 0};
inline constexpr Device meta_device{DeviceType::meta, 0};

struct Stream {
  Device device;
  void* native = nullptr;
};

}  // namespace weft
