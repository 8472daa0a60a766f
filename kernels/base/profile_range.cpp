#include "kernels/base/profile_range.h"

#include <atomic>

#include "kernels/base/device.h"
#include "kernels/base/device_compiler.h"

namespace weft {
namespace {

const DeviceCompiler* loaded_compiler() noexcept {
  static std::atomic<const DeviceCompiler*> found{nullptr};
  if (const DeviceCompiler* compiler = found.load(std::memory_order_acquire)) return compiler;
  const auto* compiler =
      static_cast<const DeviceCompiler*>(loaded_device_symbol(DeviceType::cuda, "weft_device_compiler"));
  if (compiler) found.store(compiler, std::memory_order_release);
  return compiler;
}

}  // namespace

ProfileRange::ProfileRange(const char* name) noexcept : end_(nullptr) {
  const DeviceCompiler* compiler = loaded_compiler();
  if (!compiler) return;
  compiler->begin_range(name);
  end_ = compiler->end_range;
}

ProfileRange::~ProfileRange() {
  if (end_) end_();
}

}  // namespace weft
