// The GPU libraries: their statuses as weft::Error (kernels/cuda/status.h has the macro), and their handles.
//
//   WEFT_CUDA_CHECK(cublasLtMatmul(cublas_handle(device), …));
//
// A handle is made at its first use and kept: one a device and thread, so that no call waits for another thread's.
#pragma once
#include <cublasLt.h>
#include <cudnn.h>
#include <nccl.h>
#include <nvrtc.h>

#include <string_view>

#include "kernels/cuda/status.h"

namespace weft::cuda {

void check_status(cublasStatus_t status, std::string_view call);
void check_status(cudnnStatus_t status, std::string_view call);
void check_status(ncclResult_t status, std::string_view call);
void check_status(nvrtcResult status, std::string_view call);
std::string_view cublas_status_name(cublasStatus_t status);

// Both make `device` the current one of the thread.
cublasLtHandle_t cublas_handle(Device device);
// Set to work on `stream`.
cudnnHandle_t cudnn_handle(Stream stream);

}  // namespace weft::cuda
