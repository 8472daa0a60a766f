// What a device library offers for kernels that are given as text at run time; tensor/device_kernel.h is what programs
// use. Found by device_symbol(type, "weft_device_compiler", op): cuda has it (NVRTC), the emulator does not.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/base/stream.h"

namespace weft {

// Machine code of one kernel.
struct DeviceCode {
  std::string binary;
  std::string symbol;  // the kernel's name in it
};

struct DeviceCompiler {
  // `kernel` is the kernel's name as the source would call it, template arguments included; `architecture` is one like
  // "sm_90". Throws invalid_argument with the compiler's log when the source does not compile. Needs no device.
  DeviceCode (*compile)(const std::string& source, const std::string& kernel, const std::string& architecture,
                        const std::vector<std::string>& options);
  void* (*load)(Device device, const DeviceCode& code);
  void (*unload)(Device device, void* kernel) noexcept;
  // `arguments` points at each argument's value.
  void (*launch)(Stream stream, void* kernel, std::array<int64_t, 3> grid, std::array<int64_t, 3> block,
                 int64_t shared_bytes, void** arguments);

  // Named ranges on this thread's line of a profiler.
  void (*begin_range)(const char* name);
  void (*end_range)();
};

}  // namespace weft
