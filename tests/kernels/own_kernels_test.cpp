// Our own kernels under examination: no errors whatever the sizes; and where rows lie on 32-byte boundaries, softmax,
// layer norm and pointwise kernels ask memory for hardly more sectors than they use.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>

#include "kernels/simt/emulator/config.h"
#include "kernels/simt/trace/report.h"
#include "weft/weft.h"

namespace weft {
namespace {

// The device simt of this process has to be the library that this program is linked with.
class OwnKernels : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    Dl_info info{};
    ASSERT_TRUE(dladdr(reinterpret_cast<const void*>(&trace::start), &info));
    setenv("WEFT_SIMT_LIBRARY", info.dli_fname, 1);
  }
};

Tensor on_simt(Shape shape, DType dtype = f32) {
  return randn(std::move(shape)).to(dtype).to(Device::simt()).requires_grad_();
}

std::string all_of(const trace::Report& report) {
  std::string text;
  for (const trace::KernelReport& kernel : report.kernels) {
    text += fmt::format("  {}: coalesced {:.0f} %, conflicts x{:.1f}, lanes {:.1f}\n", kernel.name,
                        100 * kernel.coalescing(), kernel.conflict(), 32 * kernel.active());
    for (const trace::Finding& finding : kernel.findings) text += "    " + trace::describe(finding) + "\n";
  }
  return text;
}

trace::Report examine(const std::function<Tensor()>& forward) {
  trace::start();
  Tensor y = forward();
  if (y.requires_grad()) y.backward(ones_like(y));
  return trace::finish();
}

void expect_no_errors(const trace::Report& report) {
  EXPECT_FALSE(report.kernels.empty());
  EXPECT_EQ(report.errors(), 0u) << all_of(report);
  for (const trace::KernelReport& kernel : report.kernels) EXPECT_LE(kernel.conflict(), 2.05) << all_of(report);
}

void expect_coalesced(const trace::Report& report) {
  expect_no_errors(report);
  for (const trace::KernelReport& kernel : report.kernels) EXPECT_GE(kernel.coalescing(), 0.9) << all_of(report);
}

TEST_F(OwnKernels, PointwiseIsCoalesced) {
  for (const DType dtype : {f32, bf16}) {
    const Tensor x = on_simt({61, 64}, dtype), y = on_simt({61, 64}, dtype);
    expect_coalesced(examine([&] { return gelu(x); }));
    expect_coalesced(examine([&] { return x * y; }));
  }
}

TEST_F(OwnKernels, SoftmaxIsCoalesced) {
  for (const DType dtype : {f32, bf16})
    for (const int64_t columns : {128, 1024}) {
      const Tensor x = on_simt({13, columns}, dtype);
      expect_coalesced(examine([&] { return softmax(x, -1); }));
      expect_coalesced(examine([&] { return log_softmax(x, -1); }));
    }
}

TEST_F(OwnKernels, LayerNormIsCoalesced) {
  for (const DType dtype : {f32, bf16})
    for (const int64_t columns : {128, 1024}) {
      const Tensor x = on_simt({13, columns}, dtype), weight = on_simt({columns}, dtype),
                   bias = on_simt({columns}, dtype);
      expect_coalesced(examine([&] { return layer_norm(x, {columns}, weight, bias); }));
    }
}

TEST_F(OwnKernels, OddSizesHaveNoErrors) {
  for (const bool reversed : {false, true}) {
    emulator::config().reversed = reversed;
    for (const DType dtype : {f32, f64, bf16}) {
      const Tensor x = on_simt({7, 333}, dtype), weight = on_simt({333}, dtype), bias = on_simt({333}, dtype);
      expect_no_errors(examine([&] { return softmax(x, -1); }));
      expect_no_errors(examine([&] { return softmax(x, 0); }));
      expect_no_errors(examine([&] { return layer_norm(x, {333}, weight, bias); }));
      expect_no_errors(examine([&] { return x * weight + exp(bias); }));
      expect_no_errors(examine([&] { return sum(x, {0}); }));
      expect_no_errors(examine([&] { return x.transpose(0, 1).contiguous(); }));
    }
  }
  emulator::config().reversed = false;
}

}  // namespace
}  // namespace weft
