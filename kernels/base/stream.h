// Where and in which order kernels run.
//
//   Tensor x = zeros({4}, {.device = Device::simt()});
//   StreamGuard guard(side);                  // kernels of this thread now queue on `side`, until the scope ends
//   kernels.fill(current_stream(x.device()), …);
//
// A Stream is a small handle: a device and, on a GPU, the native queue (null: the device's default one). CPU kernels run
// at once on the calling thread, so there the handle only says "cpu". The current stream of a thread is thread-local.
// tensor/device.h has streams and events to own.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

// cpu; cuda; simt (CUDA kernels run on the CPU); meta (shapes only, no memory).
enum class DeviceType : uint8_t { cpu, cuda, simt, meta };
inline constexpr int kDeviceTypes = 4;

struct Device {
  DeviceType type = DeviceType::cpu;
  int8_t index = 0;
  static constexpr Device cpu() { return {DeviceType::cpu, 0}; }
  static constexpr Device cuda(int index = 0) { return {DeviceType::cuda, static_cast<int8_t>(index)}; }
  static constexpr Device simt() { return {DeviceType::simt, 0}; }
  static constexpr Device meta() { return {DeviceType::meta, 0}; }
  friend bool operator==(const Device&, const Device&) = default;
};

constexpr std::string_view name(DeviceType type) {
  constexpr std::string_view names[] = {"cpu", "cuda", "simt", "meta"};
  return names[static_cast<int>(type)];
}
// "cpu", "cuda:1", …
std::string name(Device device);
// The reverse, also of "cuda" alone. Throws invalid_argument, naming `op`, on anything else.
Device device_named(std::string_view text, std::string_view op = "device");

// `cpu` itself is the namespace of the CPU kernels.
inline constexpr Device cpu_device = Device::cpu();
inline constexpr Device meta_device = Device::meta();

struct Stream {
  Device device;
  void* native = nullptr;
  friend bool operator==(const Stream&, const Stream&) = default;
};

// The stream on which this thread's work for `device` is queued: the innermost StreamGuard's, else the default one.
Stream current_stream(Device device);

// Makes `stream` the current one of its device on this thread until the guard goes.
class StreamGuard {
 public:
  explicit StreamGuard(Stream stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  Stream before_;
};

}  // namespace weft
