// Kernels given as text: NVRTC compiles them, the CUDA runtime loads and launches them. And NVTX ranges.
#include <nvtx3/nvToolsExt.h>

#include "kernels/base/device_compiler.h"
#include "kernels/base/error.h"
#include "kernels/cuda/libraries.h"

namespace weft::cuda {
namespace {

struct Program {
  nvrtcProgram program = nullptr;
  ~Program() {
    if (program) nvrtcDestroyProgram(&program);
  }
};

std::string log_of(nvrtcProgram program) {
  size_t size = 0;
  if (nvrtcGetProgramLogSize(program, &size) != NVRTC_SUCCESS || size <= 1) return "the compiler says nothing";
  std::string log(size, '\0');
  if (nvrtcGetProgramLog(program, log.data()) != NVRTC_SUCCESS) return "the compiler's log cannot be read";
  log.resize(log.find_last_not_of(std::string("\n\0", 2)) + 1);
  return log;
}

DeviceCode compile(const std::string& source, const std::string& kernel, const std::string& architecture,
                   const std::vector<std::string>& options) {
  Program made;
  // The log names lines of this "file".
  WEFT_CUDA_CHECK(nvrtcCreateProgram(&made.program, source.c_str(), "kernel.cu", 0, nullptr, nullptr));
  WEFT_CUDA_CHECK(nvrtcAddNameExpression(made.program, kernel.c_str()));
  const std::string target = "--gpu-architecture=" + architecture;
  std::vector<const char*> arguments = {"--std=c++20", "--generate-line-info", target.c_str()};
  for (const std::string& option : options) arguments.push_back(option.c_str());
  const nvrtcResult status = nvrtcCompileProgram(made.program, static_cast<int>(arguments.size()), arguments.data());
  if (status == NVRTC_ERROR_COMPILATION || status == NVRTC_ERROR_INVALID_OPTION)
    fail(ErrorCode::invalid_argument, "device_kernel", "{} does not compile for {}:\n{}", kernel, architecture,
         log_of(made.program));
  check_status(status, "nvrtcCompileProgram");
  DeviceCode code;
  const char* symbol = nullptr;
  WEFT_CUDA_CHECK(nvrtcGetLoweredName(made.program, kernel.c_str(), &symbol));
  code.symbol = symbol;
  size_t size = 0;
  WEFT_CUDA_CHECK(nvrtcGetCUBINSize(made.program, &size));
  code.binary.resize(size);
  WEFT_CUDA_CHECK(nvrtcGetCUBIN(made.program, code.binary.data()));
  return code;
}

struct LoadedKernel {
  cudaLibrary_t library = nullptr;
  cudaKernel_t kernel = nullptr;
};

void* load(Device device, const DeviceCode& code) {
  use_device(device);
  LoadedKernel loaded;
  WEFT_CUDA_CHECK(cudaLibraryLoadData(&loaded.library, code.binary.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  const cudaError_t status = cudaLibraryGetKernel(&loaded.kernel, loaded.library, code.symbol.c_str());
  if (status != cudaSuccess) cudaLibraryUnload(loaded.library);
  check_status(status, "cudaLibraryGetKernel");
  return new LoadedKernel(loaded);
}

void unload(Device device, void* kernel) noexcept {
  const auto* loaded = static_cast<LoadedKernel*>(kernel);
  cudaSetDevice(device.index);
  cudaLibraryUnload(loaded->library);
  delete loaded;
}

dim3 dim3_of(const std::array<int64_t, 3>& sizes, std::string_view what) {
  for (const int64_t size : sizes)
    WEFT_CHECK(size >= 1 && size <= INT32_MAX, "device_kernel", "the {} is {} × {} × {}; expected positive sizes", what,
               sizes[0], sizes[1], sizes[2]);
  return dim3(static_cast<unsigned>(sizes[0]), static_cast<unsigned>(sizes[1]), static_cast<unsigned>(sizes[2]));
}

void launch(Stream stream, void* kernel, std::array<int64_t, 3> grid, std::array<int64_t, 3> block,
            int64_t shared_bytes, void** arguments) {
  use_device(stream.device);
  const auto* function = reinterpret_cast<const void*>(static_cast<LoadedKernel*>(kernel)->kernel);
  if (shared_bytes > 48 * 1024)
    WEFT_CUDA_CHECK(
        cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)));
  WEFT_CUDA_CHECK(cudaLaunchKernel(function, dim3_of(grid, "grid"), dim3_of(block, "block"), arguments,
                                   static_cast<size_t>(shared_bytes), native(stream)));
}

void begin_range(const char* name) { nvtxRangePushA(name); }
void end_range() { nvtxRangePop(); }

}  // namespace
}  // namespace weft::cuda

extern "C" const weft::DeviceCompiler weft_device_compiler;
extern "C" const weft::DeviceCompiler weft_device_compiler = {
    .compile = weft::cuda::compile,
    .load = weft::cuda::load,
    .unload = weft::cuda::unload,
    .launch = weft::cuda::launch,
    .begin_range = weft::cuda::begin_range,
    .end_range = weft::cuda::end_range,
};
