// What a device library defines: the table of each kernel family, in the namespace of the device.
//
//   namespace weft::WEFT_DEVICE {   // cuda under nvcc, simt under the host compiler
//   extern constinit const SoftmaxKernels softmax_kernels = {.forward = forward, .backward = backward};
//   }
//
// Every .cu file that ends with such a table includes this header, so that a wrong name fails to compile.
#pragma once
#include "kernels/base/device.h"
#include "kernels/table.h"

namespace weft::WEFT_DEVICE {

#define WEFT_FAMILY(name, Kernels) extern const Kernels name##_kernels;
#include "kernels/families.def"
#undef WEFT_FAMILY

// kernels/cuda/runtime.cpp, kernels/simt/runtime.cpp
extern const DeviceRuntime device_runtime_table;

}  // namespace weft::WEFT_DEVICE
