// How a kernel says that its data is wrong (kernels/base/device.h, DeviceFault).
//
//   __global__ void lookup(…, FaultReport report) {
//     if (index < 0 || index >= rows) return report.raise(i, index, 0, rows);   // and touch nothing
//     …
//   launch(lookup, …, FaultReport(stream, "embedding"));
//
// The first report wins and is thrown by the next synchronisation; on simt, by the launch itself.
#pragma once
#include "kernels/base/device.h"
#include "kernels/simt/simt.h"

namespace weft::WEFT_DEVICE {

class FaultReport {
 public:
  // `op` has to outlive the launch: a string literal.
  FaultReport(Stream stream, const char* op)
      : fault_(device_runtime(stream.device.type, op).fault(stream.device)), op_(op) {}

  // Number `position` of the operand is `value`, outside low ≤ value < high.
  __device__ void raise(int64_t position, int64_t value, int64_t low, int64_t high) const {
    if (atomicCAS(&fault_->raised, 0u, 1u) != 0u) return;
    fault_->op = op_;
    fault_->position = position;
    fault_->value = value;
    fault_->low = low;
    fault_->high = high;
    __threadfence();
    atomicExch(&fault_->raised, 2u);
  }

 private:
  DeviceFault* fault_;
  const char* op_;
};

}  // namespace weft::WEFT_DEVICE
