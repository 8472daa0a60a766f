// A CUDA call's status as a weft::Error, and the device that a thread talks to.
//
//   WEFT_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
//   // weft::Error [cudaMemcpyAsync] cudaErrorInvalidValue (1): invalid argument
//
// The same macro checks the statuses of cuBLAS, cuDNN, NCCL and NVRTC where kernels/cuda/libraries.h is included.
#pragma once
#include <cuda_runtime_api.h>

#include <string_view>

#include "kernels/base/stream.h"

namespace weft::cuda {

// Throws unless `status` is success: out_of_memory, unsupported (no device or driver, or one too old), or internal.
// `call` is the source text of the call; its name is the error's op.
void check_status(cudaError_t status, std::string_view call);

// The name of the function in the text of a call.
std::string_view called_function(std::string_view call);

// Makes `device` the one that CUDA calls of this thread mean. Throws unless the machine has it.
void use_device(Device device);

inline cudaStream_t native(Stream stream) { return static_cast<cudaStream_t>(stream.native); }

// While a stream of this thread is captured, calls that may affect other work are refused. Making memory, handles and
// events does not: it is let through until the guard goes.
class RelaxedCapture {
 public:
  RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace weft::cuda

#define WEFT_CUDA_CHECK(...) ::weft::cuda::check_status((__VA_ARGS__), #__VA_ARGS__)
