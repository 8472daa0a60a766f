// What of the cuda device can be tested anywhere: that its library loads, says plainly what is missing, and compiles
// kernels given as text. With a GPU, that they run.
#include <gtest/gtest.h>

#include <string>

#include "kernels/base/device.h"
#include "kernels/base/error.h"
#include "kernels/base/profile_range.h"
#include "tensor/device.h"
#include "tensor/device_kernel.h"
#include "tensor/factory.h"

namespace weft {
namespace {

class CudaLibrary : public testing::Test {
 protected:
  void SetUp() override {
    try {
      device_library(DeviceType::cuda, "test");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported);
      EXPECT_NE(std::string(error.what()).find("device cuda is not available"), std::string::npos) << error.what();
      GTEST_SKIP() << "this build has no cuda device: " << error.what();
    }
  }
};

template <class F>
std::string error_of(F&& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

const char* const kScale = R"(
__global__ void scale(float* x, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= factor;
}
template <int n> __global__ void constant(float* x) { x[threadIdx.x] = n; }
)";

TEST_F(CudaLibrary, WithoutADeviceEveryUseSaysSo) {
  if (device_count(DeviceType::cuda) > 0) GTEST_SKIP() << "there is a GPU";
  for (const std::string& text :
       {error_of([] { empty({2}, {.device = Device::cuda()}); }), error_of([] { DeviceStream stream(Device::cuda()); }),
        error_of([] { DeviceKernel kernel(kScale, "scale"); }), error_of([] { ones({2}).to(Device::cuda()); })}) {
    EXPECT_TRUE(text.find("no NVIDIA driver") != std::string::npos || text.find("sees no GPU") != std::string::npos)
        << text;
    EXPECT_NE(text.find("cudaError"), std::string::npos) << text;
  }
}

TEST_F(CudaLibrary, CompilesText) {
  const DeviceCode code = compile_device_code(kScale, "scale", "sm_90");
  EXPECT_GT(code.binary.size(), 100u);
  EXPECT_NE(code.symbol.find("scale"), std::string::npos);
  EXPECT_NE(compile_device_code(kScale, "constant<7>", "sm_80").symbol.find("constant"), std::string::npos);
}

TEST_F(CudaLibrary, ErrorsInTextNameTheLine) {
  const std::string text = error_of([] {
    compile_device_code("__global__ void wrong(float* x) {\n  float y = 1;\n  x[0] = y + z;\n}\n", "wrong", "sm_90");
  });
  EXPECT_NE(text.find("[device_kernel] wrong does not compile for sm_90"), std::string::npos) << text;
  EXPECT_NE(text.find("kernel.cu(3): error"), std::string::npos) << text;
  EXPECT_NE(text.find("\"z\""), std::string::npos) << text;
  EXPECT_NE(error_of([] { compile_device_code(kScale, "absent", "sm_90"); }).find("absent"), std::string::npos);
  EXPECT_NE(error_of([] { compile_device_code(kScale, "scale", "sm_1"); }).find("sm_1"), std::string::npos);
}

TEST_F(CudaLibrary, RunsText) {
  if (device_count(DeviceType::cuda) == 0) GTEST_SKIP() << "no GPU";
  const ProfileRange range("test");
  const DeviceKernel scale(kScale, "scale");
  const Tensor x = ones({1000}).to(Device::cuda());
  scale.launch({4}, {256}, 0, x, 2.5f, 1000);
  EXPECT_EQ(x.to(cpu_device).to_vector(), std::vector<double>(1000, 2.5));
  EXPECT_NE(error_of([&] { scale.launch({1}, {1}, 0, ones({1}), 1.0f, 1); }).find("lives on cpu"), std::string::npos);
}

TEST(DeviceKernel, NeedsCuda) {
  const std::string text = error_of([] { DeviceKernel kernel(kScale, "scale", Device::simt()); });
  EXPECT_NE(text.find("need a cuda device"), std::string::npos) << text;
}

TEST(ProfileRange, IsHarmlessAnywhere) { const ProfileRange range("test"); }

}  // namespace
}  // namespace weft
