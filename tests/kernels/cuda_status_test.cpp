// Statuses of NVIDIA's libraries as errors: the call, the name and number of the status, what it means.
#include <gtest/gtest.h>

#include <string>

#include "kernels/base/error.h"
#include "kernels/cuda/libraries.h"

namespace weft::cuda {
namespace {

template <class Status>
void expect_error(Status status, ErrorCode code, const std::string& text) {
  try {
    check_status(status, "library_call(handle, 1)");
    ADD_FAILURE() << "no error for " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_EQ(error.op(), "library_call");
    EXPECT_NE(std::string(error.what()).find("[library_call] " + text), std::string::npos) << error.what();
  }
}

TEST(CudaStatus, SuccessIsNoError) {
  check_status(cudaSuccess, "call()");
  check_status(CUBLAS_STATUS_SUCCESS, "call()");
  check_status(CUDNN_STATUS_SUCCESS, "call()");
  check_status(ncclSuccess, "call()");
  check_status(NVRTC_SUCCESS, "call()");
}

TEST(CudaStatus, NameNumberAndMeaning) {
  expect_error(cudaErrorInvalidValue, ErrorCode::internal, "cudaErrorInvalidValue (1): invalid argument");
  expect_error(cudaErrorMemoryAllocation, ErrorCode::out_of_memory, "cudaErrorMemoryAllocation (2): out of memory");
  expect_error(cudaErrorNoDevice, ErrorCode::unsupported, "cudaErrorNoDevice (100)");
  expect_error(cudaErrorIllegalAddress, ErrorCode::internal, "cudaErrorIllegalAddress (700)");
  expect_error(CUBLAS_STATUS_INVALID_VALUE, ErrorCode::internal,
               "CUBLAS_STATUS_INVALID_VALUE (7): a parameter is wrong");
  expect_error(CUBLAS_STATUS_NOT_SUPPORTED, ErrorCode::unsupported, "CUBLAS_STATUS_NOT_SUPPORTED (15)");
  expect_error(CUDNN_STATUS_BAD_PARAM, ErrorCode::internal, "CUDNN_STATUS_BAD_PARAM (2000)");
  expect_error(CUDNN_STATUS_NOT_SUPPORTED, ErrorCode::unsupported, "CUDNN_STATUS_NOT_SUPPORTED (3000)");
  expect_error(ncclInvalidArgument, ErrorCode::internal, "ncclInvalidArgument (4): invalid argument");
  expect_error(ncclRemoteError, ErrorCode::peer_lost, "ncclRemoteError (6)");
  expect_error(NVRTC_ERROR_INVALID_OPTION, ErrorCode::invalid_argument, "NVRTC_ERROR_INVALID_OPTION (5)");
}

TEST(CudaStatus, MacroNamesTheCall) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess) GTEST_SKIP() << "there is a driver";
  try {
    WEFT_CUDA_CHECK(cudaGetDeviceCount(&count));
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.op(), "cudaGetDeviceCount");
  }
}

}  // namespace
}  // namespace weft::cuda
