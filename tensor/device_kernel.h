// A kernel of your own, given as text and compiled while the program runs.
//
//   DeviceKernel scale(R"(
//     __global__ void scale(float* x, float factor, int n) {
//       int i = blockIdx.x * blockDim.x + threadIdx.x;
//       if (i < n) x[i] *= factor;
//     })", "scale");
//   scale.launch({(n + 255) / 256}, {256}, 0, x, 2.0f, int(n));
//
// It queues on the current stream of its device. An argument is a Tensor (the kernel gets a pointer to its first
// element) or a value, whose type has to be exactly the parameter's: nobody can check that. Gradients are not recorded.
// Needs a CUDA device; kernels in .cu files also run without one (docs/kernels.md).
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "kernels/base/device_compiler.h"
#include "tensor/tensor.h"

namespace weft {

// Compiles without a device: `name` is the kernel's, with template arguments if it has any ("scale<float>");
// `architecture` one like "sm_90"; `options` are the compiler's, such as "--use_fast_math". Throws invalid_argument with
// the compiler's messages, which count lines from the start of `source`.
DeviceCode compile_device_code(const std::string& source, const std::string& name, const std::string& architecture,
                               const std::vector<std::string>& options = {});

class DeviceKernel {
 public:
  // Of a grid in blocks, of a block in threads.
  struct Extent {
    int64_t x = 1, y = 1, z = 1;
  };

  // For the architecture of `device`, which is also where it runs. Throws as compile_device_code, and unsupported where
  // there is no such device.
  DeviceKernel(const std::string& source, const std::string& name, Device device = Device::cuda(),
               const std::vector<std::string>& options = {});

  // `shared_bytes` of dynamic shared memory a block. Throws invalid_argument for a tensor on another device; what the
  // kernel itself does wrong surfaces at the next synchronisation.
  template <class... Arguments>
  void launch(Extent grid, Extent block, int64_t shared_bytes, const Arguments&... arguments) const {
    const std::tuple values{passed(arguments)...};
    std::apply(
        [&](const auto&... value) {
          void* pointers[] = {const_cast<void*>(static_cast<const void*>(&value))..., nullptr};
          run(grid, block, shared_bytes, pointers);
        },
        values);
  }

 private:
  template <class T>
  auto passed(const T& argument) const {
    if constexpr (std::is_same_v<T, Tensor>) {
      return address(argument);
    } else {
      static_assert(std::is_trivially_copyable_v<T>, "a kernel takes tensors and plain values");
      return argument;
    }
  }
  void* address(const Tensor& tensor) const;
  void run(Extent grid, Extent block, int64_t shared_bytes, void** arguments) const;

  std::string name_;
  Device device_;
  std::shared_ptr<void> kernel_;
};

}  // namespace weft
