#include "kernels/base/stream.h"

#include <charconv>
#include <utility>

#include "kernels/base/error.h"

namespace weft {
namespace {
constinit thread_local Stream innermost{};
}  // namespace

Stream current_stream(Device device) { return innermost.device == device ? innermost : Stream{device}; }

StreamGuard::StreamGuard(Stream stream) : before_(std::exchange(innermost, stream)) {}
StreamGuard::~StreamGuard() { innermost = before_; }

std::string name(Device device) {
  return device.type == DeviceType::cuda ? fmt::format("cuda:{}", device.index) : std::string(name(device.type));
}

Device device_named(std::string_view text, std::string_view op) {
  for (int type = 0; type < kDeviceTypes; ++type) {
    const Device device{static_cast<DeviceType>(type), 0};
    if (text == name(device.type)) return device;
  }
  constexpr std::string_view prefix = "cuda:";
  if (text.substr(0, prefix.size()) == prefix) {
    const std::string_view digits = text.substr(prefix.size());
    int index = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error == std::errc() && end == digits.data() + digits.size() && index >= 0 && index < 128)
      return Device::cuda(index);
  }
  fail(ErrorCode::invalid_argument, op, "no device is called '{}'; expected cpu, cuda, cuda:N, simt or meta", text);
}

}  // namespace weft
