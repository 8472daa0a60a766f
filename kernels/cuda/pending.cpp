// The families that have no device kernels yet. Shrinks to nothing.
#include "kernels/base/error.h"
#include "kernels/conv/pool_device.h"
#include "kernels/device_table.h"

#define WEFT_PENDING(Kernels, kernels) extern const Kernels kernels __attribute__((weak)) = {};

namespace weft::cuda {

WEFT_PENDING(SoftmaxKernels, softmax_kernels)
WEFT_PENDING(NormKernels, norm_kernels)
WEFT_PENDING(AttentionKernels, attention_kernels)
WEFT_PENDING(LossKernels, loss_kernels)
WEFT_PENDING(EmbeddingKernels, embedding_kernels)
WEFT_PENDING(IndexKernels, index_kernels)
WEFT_PENDING(RandomKernels, random_kernels)

__attribute__((weak)) void max_pool2d_forward(Stream, DType, const Pool2dShape&, const void*, void*, int64_t*) {
  fail(ErrorCode::unsupported, "max_pool2d", "not on cuda yet");
}
__attribute__((weak)) void max_pool2d_backward(Stream, DType, const Pool2dShape&, const void*, const int64_t*, void*) {
  fail(ErrorCode::unsupported, "max_pool2d", "not on cuda yet");
}
__attribute__((weak)) void avg_pool2d_forward(Stream, DType, const Pool2dShape&, const void*, void*) {
  fail(ErrorCode::unsupported, "avg_pool2d", "not on cuda yet");
}
__attribute__((weak)) void avg_pool2d_backward(Stream, DType, const Pool2dShape&, const void*, void*) {
  fail(ErrorCode::unsupported, "avg_pool2d", "not on cuda yet");
}

}  // namespace weft::cuda
