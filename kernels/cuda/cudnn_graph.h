// cuDNN's graph interface in a few lines: descriptors that clean up after themselves, and execution plans.
//
//   ConvolutionPlan plan(handle, ConvolutionPass::forward, shape, f32, alignment, allow_tf32);
//   plan.run(handle, stream, x, weight, y);
//
// A plan is one convolution for one shape and type. Making one costs milliseconds, running one a launch, so callers keep
// them. Only engines that give the same bits every time are taken, and for f32 without TF32 only those that multiply in
// full f32.
#pragma once
#include <array>
#include <string_view>
#include <vector>

#include "kernels/base/dtype.h"
#include "kernels/conv/conv.h"
#include "kernels/cuda/libraries.h"

namespace weft::cuda {

class CudnnDescriptor {
 public:
  explicit CudnnDescriptor(cudnnBackendDescriptorType_t type) {
    WEFT_CUDA_CHECK(cudnnBackendCreateDescriptor(type, &descriptor_));
  }
  ~CudnnDescriptor() {
    if (descriptor_) cudnnBackendDestroyDescriptor(descriptor_);
  }
  CudnnDescriptor(CudnnDescriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, nullptr)) {}
  CudnnDescriptor(const CudnnDescriptor&) = delete;
  CudnnDescriptor& operator=(const CudnnDescriptor&) = delete;

  cudnnBackendDescriptor_t get() const { return descriptor_; }

  template <class T>
  void set(cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type, const T& value) {
    set(attribute, type, 1, &value);
  }
  void set(cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type, int64_t count, const void* values) {
    WEFT_CUDA_CHECK(cudnnBackendSetAttribute(descriptor_, attribute, type, count, values));
  }
  void set(cudnnBackendAttributeName_t attribute, const CudnnDescriptor& other) {
    set(attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, other.descriptor_);
  }
  void finalize() { WEFT_CUDA_CHECK(cudnnBackendFinalize(descriptor_)); }
  bool try_finalize() { return cudnnBackendFinalize(descriptor_) == CUDNN_STATUS_SUCCESS; }

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

enum class ConvolutionPass : uint8_t { forward, backward_input, backward_weight };

class ConvolutionPlan {
 public:
  // `alignment` (bytes, a power of two up to 16): of every array that the plan will run on.
  ConvolutionPlan(cudnnHandle_t handle, ConvolutionPass pass, const Conv2dShape& shape, DType dtype, int64_t alignment,
                  bool tf32);
  // The arrays of the pass, two of them read and one written: input [N, C, H, W], weight, output.
  void run(cudnnHandle_t handle, Stream stream, const void* input, const void* weight, const void* output) const;

 private:
  CudnnDescriptor plan_;
  int64_t workspace_ = 0;
};

}  // namespace weft::cuda
