#include "kernels/table.h"

#include "kernels/base/device.h"

namespace weft {

const KernelTable& kernel_table(DeviceType device, std::string_view op) {
  static constexpr KernelTable cpu_table = {
#define WEFT_FAMILY(name, Kernels) cpu::name##_kernels,
#include "kernels/families.def"
#undef WEFT_FAMILY
  };
  if (device == DeviceType::cpu) return cpu_table;
  return *device_library(device, op).kernels;
}

}  // namespace weft
