// The families that have no device kernels yet: the CPU's, as the memory is the CPU's too. Shrinks to nothing.
#include "kernels/device_table.h"

namespace weft::simt {

extern const ReduceKernels reduce_kernels = cpu::reduce_kernels;
extern const ConvKernels conv_kernels = cpu::conv_kernels;
extern const SoftmaxKernels softmax_kernels = cpu::softmax_kernels;
extern const NormKernels norm_kernels = cpu::norm_kernels;
extern const AttentionKernels attention_kernels = cpu::attention_kernels;
extern const LossKernels loss_kernels = cpu::loss_kernels;
extern const EmbeddingKernels embedding_kernels = cpu::embedding_kernels;
extern const IndexKernels index_kernels = cpu::index_kernels;
extern const OptimizerKernels optimizer_kernels = cpu::optimizer_kernels;

}  // namespace weft::simt
