// The families that have no device kernels yet. Shrinks to nothing.
#include "kernels/device_table.h"

#define WEFT_PENDING(Kernels, kernels) extern const Kernels kernels __attribute__((weak)) = {};

namespace weft::cuda {

WEFT_PENDING(PointwiseKernels, pointwise_kernels)
WEFT_PENDING(CopyKernels, copy_kernels)
WEFT_PENDING(ReduceKernels, reduce_kernels)
WEFT_PENDING(SoftmaxKernels, softmax_kernels)
WEFT_PENDING(NormKernels, norm_kernels)
WEFT_PENDING(AttentionKernels, attention_kernels)
WEFT_PENDING(LossKernels, loss_kernels)
WEFT_PENDING(EmbeddingKernels, embedding_kernels)
WEFT_PENDING(IndexKernels, index_kernels)
WEFT_PENDING(OptimizerKernels, optimizer_kernels)

}  // namespace weft::cuda
