#include "kernels/table.h"

#include "kernels/base/error.h"

namespace weft {

const KernelTable& kernel_table(DeviceType device, std::string_view op) {
  static constexpr KernelTable cpu_table = {
      cpu::pointwise_kernels, cpu::copy_kernels,      cpu::reduce_kernels, cpu::gemm_kernels,
      cpu::conv_kernels,      cpu::softmax_kernels,   cpu::norm_kernels,   cpu::attention_kernels,
      cpu::loss_kernels,      cpu::embedding_kernels, cpu::index_kernels,  cpu::optimizer_kernels,
  };
  if (device == DeviceType::cpu) return cpu_table;
  fail(ErrorCode::unsupported, op, "no kernels for device {} in this build; move the tensors to cpu", name(device));
}

}  // namespace weft
