// The examination counts floating-point operations exactly: kernels whose counts are known, and our own.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "kernels/simt/emulator/config.h"
#include "kernels/simt/emulator/memory.h"
#include "kernels/simt/trace/report.h"
#include "tests/kernels/gallery/arithmetic.h"

namespace weft {
namespace {

using simt::arithmetic::Counted;

struct FreeDevice {
  void operator()(float* memory) const { emulator::free_memory(memory); }
};

trace::KernelReport examine(const Counted& counted, int n) {
  const auto allocate = [&] {
    std::unique_ptr<float, FreeDevice> floats(
        static_cast<float*>(emulator::allocate_memory(static_cast<size_t>(n) * sizeof(float))));
    for (int i = 0; i < n; ++i) floats.get()[i] = static_cast<float>(i * 37 % 101) / 101.0f;
    return floats;
  };
  const auto x = allocate();
  const auto y = allocate();
  trace::start();
  counted.run(Stream{Device::simt()}, x.get(), y.get(), n);
  const trace::Report report = trace::finish();
  EXPECT_EQ(report.kernels.size(), 1u);
  return report.kernels.at(0);
}

struct Named {
  const char* name;
  const Counted* counted;
};
std::ostream& operator<<(std::ostream& out, const Named& named) { return out << named.name; }

class CountedKernels : public testing::TestWithParam<Named> {};

TEST_P(CountedKernels, IsCountedExactly) {
  const Counted& counted = *GetParam().counted;
  for (const bool reversed : {false, true}) {
    emulator::config().reversed = reversed;
    for (const int n : {1024, 999}) {
      const trace::KernelReport report = examine(counted, n);
      ASSERT_TRUE(report.operations.has_value()) << "no objdump?";
      EXPECT_EQ(*report.operations, counted.operations(static_cast<uint64_t>(n))) << n << " elements";
      uint64_t lines = 0;
      for (const trace::LineArithmetic& line : report.arithmetic) {
        EXPECT_TRUE(line.at.file.ends_with("tests/kernels/gallery/arithmetic.cu")) << line.at.file;
        EXPECT_GT(line.operations, 0u);
        lines += line.operations;
      }
      EXPECT_EQ(lines, *report.operations);
    }
  }
  emulator::config().reversed = false;
}

TEST(Arithmetic, IntensityIsOperationsAByteOfGlobalMemory) {
  for (const Counted* counted : {&simt::arithmetic::saxpy, &simt::arithmetic::sum, &simt::arithmetic::product}) {
    const trace::KernelReport report = examine(*counted, 1024);
    const auto bytes = static_cast<double>(counted->bytes(1024));
    ASSERT_TRUE(report.intensity().has_value());
    EXPECT_DOUBLE_EQ(*report.intensity(), static_cast<double>(counted->operations(1024)) / bytes);
  }
}

#define WEFT_COUNTED(name) \
  Named { #name, &simt::arithmetic::name }
INSTANTIATE_TEST_SUITE_P(Arithmetic, CountedKernels,
                         testing::Values(WEFT_COUNTED(saxpy), WEFT_COUNTED(saxpy_f64), WEFT_COUNTED(sum),
                                         WEFT_COUNTED(fused), WEFT_COUNTED(library), WEFT_COUNTED(divisions),
                                         WEFT_COUNTED(polynomial), WEFT_COUNTED(conversions), WEFT_COUNTED(halves),
                                         WEFT_COUNTED(minima), WEFT_COUNTED(product), WEFT_COUNTED(atomics)),
                         [](const auto& info) { return std::string(info.param.name); });
#undef WEFT_COUNTED

}  // namespace
}  // namespace weft
