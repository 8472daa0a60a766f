#include "tensor/device_kernel.h"

#include "kernels/base/device.h"
#include "kernels/base/error.h"

namespace weft {
namespace {

const DeviceCompiler& compiler_of(DeviceType type) {
  const auto* compiler = static_cast<const DeviceCompiler*>(
      type == DeviceType::cuda ? device_symbol(type, "weft_device_compiler", "device_kernel") : nullptr);
  if (!compiler)
    fail(ErrorCode::unsupported, "device_kernel", "kernels given as text need a cuda device; {} has no compiler",
         name(type));
  return *compiler;
}

std::string architecture_of(Device device) {
  const DeviceInfo info = device_runtime(device.type, "device_kernel").info(device);
  return fmt::format("sm_{}{}", info.compute_major, info.compute_minor);
}

}  // namespace

DeviceCode compile_device_code(const std::string& source, const std::string& name, const std::string& architecture,
                               const std::vector<std::string>& options) {
  return compiler_of(DeviceType::cuda).compile(source, name, architecture, options);
}

DeviceKernel::DeviceKernel(const std::string& source, const std::string& name, Device device,
                           const std::vector<std::string>& options)
    : name_(name), device_(device) {
  const DeviceCompiler& compiler = compiler_of(device.type);
  const DeviceCode code = compiler.compile(source, name, architecture_of(device), options);
  kernel_ = std::shared_ptr<void>(compiler.load(device, code),
                                  [&compiler, device](void* kernel) { compiler.unload(device, kernel); });
}

void* DeviceKernel::address(const Tensor& tensor) const {
  WEFT_CHECK(tensor.defined(), "device_kernel", "an argument of {} is an undefined tensor", name_);
  WEFT_CHECK(tensor.device() == device_, "device_kernel", "an argument of {} lives on {}; the kernel runs on {}", name_,
             name(tensor.device()), name(device_));
  return tensor.numel() == 0 ? nullptr : tensor.data();
}

void DeviceKernel::run(Extent grid, Extent block, int64_t shared_bytes, void** arguments) const {
  compiler_of(device_.type)
      .launch(current_stream(device_), kernel_.get(), {grid.x, grid.y, grid.z}, {block.x, block.y, block.z},
              shared_bytes, arguments);
}

}  // namespace weft
