#include "kernels/table.h"

#include "kernels/base/device.h"

namespace weft {

const KernelTable& kernel_table(DeviceType device, std::string_view op) {
  static constexpr KernelTable cpu_table = {
      cpu::pointwise_kernels, cpu::copy_kernels,    cpu::reduce_kernels,    cpu::gemm_kernels,
      cpu::conv_kernels,      cpu::softmax_kernels, cpu::norm_kernels,      cpu::batch_norm_kernels,
      cpu::attention_kernels, cpu::loss_kernels,    cpu::embedding_kernels, cpu::index_kernels,
      cpu::optimizer_kernels, cpu::random_kernels,  cpu::resample_kernels,
  };
  if (device == DeviceType::cpu) return cpu_table;
  return *device_library(device, op).kernels;
}

}  // namespace weft
