#include <map>

#include "kernels/cuda/libraries.h"

namespace weft::cuda {
namespace {

// The handles of one thread. They go with the thread; at the end of the process the driver may be gone already, and the
// libraries then only say so.
struct Handles {
  std::map<int, cublasLtHandle_t> cublas;
  std::map<int, cudnnHandle_t> cudnn;
  ~Handles() {
    for (const auto& [device, handle] : cublas) cublasLtDestroy(handle);
    for (const auto& [device, handle] : cudnn) cudnnDestroy(handle);
  }
};

Handles& handles() {
  thread_local Handles of_this_thread;
  return of_this_thread;
}

}  // namespace

cublasLtHandle_t cublas_handle(Device device) {
  use_device(device);
  cublasLtHandle_t& handle = handles().cublas[device.index];
  if (!handle) {
    const RelaxedCapture relaxed;
    WEFT_CUDA_CHECK(cublasLtCreate(&handle));
  }
  return handle;
}

cudnnHandle_t cudnn_handle(Stream stream) {
  use_device(stream.device);
  cudnnHandle_t& handle = handles().cudnn[stream.device.index];
  if (!handle) {
    const RelaxedCapture relaxed;
    WEFT_CUDA_CHECK(cudnnCreate(&handle));
  }
  WEFT_CUDA_CHECK(cudnnSetStream(handle, native(stream)));
  return handle;
}

}  // namespace weft::cuda
