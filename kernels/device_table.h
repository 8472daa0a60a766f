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

extern const PointwiseKernels pointwise_kernels;
extern const CopyKernels copy_kernels;
extern const ReduceKernels reduce_kernels;
extern const GemmKernels gemm_kernels;
extern const ConvKernels conv_kernels;
extern const SoftmaxKernels softmax_kernels;
extern const NormKernels norm_kernels;
extern const BatchNormKernels batch_norm_kernels;
extern const AttentionKernels attention_kernels;
extern const LossKernels loss_kernels;
extern const EmbeddingKernels embedding_kernels;
extern const IndexKernels index_kernels;
extern const OptimizerKernels optimizer_kernels;
extern const RandomKernels random_kernels;
extern const ResampleKernels resample_kernels;

// kernels/cuda/runtime.cpp, kernels/simt/runtime.cpp
extern const DeviceRuntime device_runtime_table;

}  // namespace weft::WEFT_DEVICE
