#include "optim/fused.h"

#include "kernels/table.h"

namespace weft::optim {

void launch_rule(const LaunchLists<OptimizerSlice>& lists, const OptimizerRule& rule) {
  lists.for_each([&](DType dtype, Device device, const std::vector<OptimizerSlice>& slices) {
    kernel_table(device.type, "optimizer")
        .optimizer.step(current_stream(device), dtype, rule, slices.data(), static_cast<int64_t>(slices.size()));
  });
}

}  // namespace weft::optim
