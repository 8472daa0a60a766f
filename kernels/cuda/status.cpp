#include "kernels/cuda/status.h"

#include "kernels/base/error.h"
#include "kernels/cuda/libraries.h"

namespace weft::cuda {
namespace {

ErrorCode code_of(cudaError_t status) {
  switch (status) {
    case cudaErrorMemoryAllocation: return ErrorCode::out_of_memory;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInvalidDevice:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorNotSupported:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorStreamCaptureUnsupported: return ErrorCode::unsupported;
    default: return ErrorCode::internal;
  }
}

// What to do, where the meaning alone does not say it.
std::string_view advice(cudaError_t status) {
  switch (status) {
    case cudaErrorInsufficientDriver: return "; there is no NVIDIA driver, or one too old for this build of CUDA";
    case cudaErrorNoDevice: return "; the driver sees no GPU (is CUDA_VISIBLE_DEVICES set?)";
    case cudaErrorNoKernelImageForDevice: return "; this build has no code for this GPU, see -Dgpu_architectures";
    case cudaErrorStreamCaptureUnsupported: return "; the call cannot be part of a captured graph";
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorLaunchFailure:
      return "; an earlier kernel failed and the device is lost to this process (compute-sanitizer finds the kernel)";
    default: return "";
  }
}

std::string_view meaning(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_NOT_INITIALIZED: return "the library could not be initialised";
    case CUBLAS_STATUS_ALLOC_FAILED: return "its own memory could not be allocated";
    case CUBLAS_STATUS_INVALID_VALUE: return "a parameter is wrong";
    case CUBLAS_STATUS_ARCH_MISMATCH: return "the GPU lacks a feature that the call needs";
    case CUBLAS_STATUS_MAPPING_ERROR: return "GPU memory could not be mapped";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "the GPU program failed to execute";
    case CUBLAS_STATUS_INTERNAL_ERROR: return "an operation inside the library failed";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "the combination of types, layout and sizes is not supported";
    case CUBLAS_STATUS_LICENSE_ERROR: return "the licence check failed";
    default: return "unknown status";
  }
}

template <class Status>
[[noreturn]] void fail_call(ErrorCode code, std::string_view call, std::string_view name, Status status,
                            std::string_view meaning) {
  fail(code, called_function(call), "{} ({}): {}", name, static_cast<int>(status), meaning);
}

}  // namespace

std::string_view called_function(std::string_view call) {
  const std::string_view name = call.substr(0, call.find_first_of("( "));
  return name.substr(0, 2) == "::" ? name.substr(2) : name;
}

void check_status(cudaError_t status, std::string_view call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // an error that is not sticky must not come up again in the next call
  fail_call(code_of(status), call, cudaGetErrorName(status), status,
            fmt::format("{}{}", cudaGetErrorString(status), advice(status)));
}

void check_status(cublasStatus_t status, std::string_view call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const ErrorCode code = status == CUBLAS_STATUS_ALLOC_FAILED    ? ErrorCode::out_of_memory
                         : status == CUBLAS_STATUS_NOT_SUPPORTED ? ErrorCode::unsupported
                                                                 : ErrorCode::internal;
  fail_call(code, call, cublas_status_name(status), status, meaning(status));
}

// Without libcublas itself (cublasGetStatusName lives there), which matrix products do not need.
std::string_view cublas_status_name(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH: return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_MAPPING_ERROR: return "CUBLAS_STATUS_MAPPING_ERROR";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR: return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_LICENSE_ERROR: return "CUBLAS_STATUS_LICENSE_ERROR";
    default: return "CUBLAS_STATUS_UNKNOWN";
  }
}

void check_status(cudnnStatus_t status, std::string_view call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  // cuDNN keeps a sentence on the last failure of the thread.
  char last[512] = {};
  cudnnGetLastErrorString(last, sizeof last);
  const ErrorCode code = status / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000 ? ErrorCode::unsupported
                         : status == CUDNN_STATUS_ALLOC_FAILED              ? ErrorCode::out_of_memory
                                                                            : ErrorCode::internal;
  fail_call(code, call, cudnnGetErrorString(status), status, last[0] ? last : "no more is known");
}

void check_status(ncclResult_t status, std::string_view call) {
  if (status == ncclSuccess || status == ncclInProgress) return;
  static constexpr std::string_view names[] = {"ncclSuccess",       "ncclUnhandledCudaError", "ncclSystemError",
                                               "ncclInternalError", "ncclInvalidArgument",    "ncclInvalidUsage",
                                               "ncclRemoteError",   "ncclInProgress"};
  const auto number = static_cast<size_t>(status);
  const ErrorCode code = status == ncclRemoteError ? ErrorCode::peer_lost : ErrorCode::internal;
  const char* last = ncclGetLastError(nullptr);
  fail_call(code, call, number < std::size(names) ? names[number] : "ncclUnknownError", status,
            fmt::format("{}{}{}", ncclGetErrorString(status), last && *last ? "; " : "", last ? last : ""));
}

void check_status(nvrtcResult status, std::string_view call) {
  if (status == NVRTC_SUCCESS) return;
  const ErrorCode code = status == NVRTC_ERROR_OUT_OF_MEMORY    ? ErrorCode::out_of_memory
                         : status == NVRTC_ERROR_INVALID_OPTION ? ErrorCode::invalid_argument
                                                                : ErrorCode::internal;
  fail_call(code, call, nvrtcGetErrorString(status), status, "run-time compilation failed");
}

void use_device(Device device) {
  int current = -1;
  if (cudaGetDevice(&current) == cudaSuccess && current == device.index) return;
  const cudaError_t status = cudaSetDevice(device.index);
  if (status == cudaErrorInvalidDevice) {
    cudaGetLastError();
    int count = 0;
    cudaGetDeviceCount(&count);
    fail(ErrorCode::invalid_argument, "device", "there is no {}; this machine has {} CUDA devices", name(device),
         count);
  }
  check_status(status, "cudaSetDevice");
}

}  // namespace weft::cuda
