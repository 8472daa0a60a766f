// The gallery of broken kernels: the examination finds each fault, at the lines that the source marks with "<- kind", in
// both orders of execution, and finds nothing else; in the repaired kernels it finds nothing.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/simt/emulator/config.h"
#include "kernels/simt/emulator/memory.h"
#include "kernels/simt/trace/report.h"
#include "tests/kernels/gallery/gallery.h"

namespace weft {
namespace {

using simt::gallery::Exhibit;

struct Named {
  const char* name;
  const Exhibit* exhibit;
};
std::ostream& operator<<(std::ostream& out, const Named& named) { return out << named.name; }

std::vector<Named> exhibits() {
  return {
#define WEFT_NAME_EXHIBIT(name) {#name, &simt::gallery::name},
      WEFT_GALLERY(WEFT_NAME_EXHIBIT)
#undef WEFT_NAME_EXHIBIT
  };
}

// (kind, line)
using Marks = std::set<std::pair<std::string, int>>;

std::string source_of(const Named& named) { return std::string("tests/kernels/gallery/") + named.name + ".cu"; }

Marks marks_in(const std::string& path) {
  std::ifstream file(path);
  Marks marks;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const size_t arrow = line.find("// <- ");
    if (arrow == std::string::npos) continue;
    std::istringstream kinds(line.substr(arrow + 6));
    for (std::string kind; std::getline(kinds, kind, ',');)
      marks.emplace(kind.substr(kind.find_first_not_of(' ')), number);
  }
  return marks;
}

struct FreeDevice {
  void operator()(float* memory) const { emulator::free_memory(memory); }
};
using DeviceFloats = std::unique_ptr<float, FreeDevice>;

trace::Report examine(void (*run)(Stream, const float*, float*), bool reversed) {
  const auto allocate = [] {
    DeviceFloats floats(static_cast<float*>(emulator::allocate_memory(simt::gallery::kElements * sizeof(float))));
    for (int i = 0; i < simt::gallery::kElements; ++i) floats.get()[i] = static_cast<float>(i * 37 % 101) / 101.0f;
    return floats;
  };
  const DeviceFloats x = allocate();
  const DeviceFloats y = allocate();
  emulator::config().reversed = reversed;
  trace::start();
  try {
    run(Stream{Device::simt()}, x.get(), y.get());
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::internal) << error.what();
  }
  emulator::config().reversed = false;
  return trace::finish();
}

std::string all_of(const trace::Report& report) {
  std::string text;
  for (const trace::KernelReport& kernel : report.kernels)
    for (const trace::Finding& finding : kernel.findings) text += "  " + trace::describe(finding) + "\n";
  return text;
}

class Gallery : public testing::TestWithParam<Named> {};

TEST_P(Gallery, BrokenIsCaught) {
  const std::string source = source_of(GetParam());
  const Marks expected = marks_in(source);
  ASSERT_FALSE(expected.empty()) << source;
  for (const bool reversed : {false, true}) {
    const trace::Report report = examine(GetParam().exhibit->broken, reversed);
    ASSERT_EQ(report.kernels.size(), 1u);
    Marks found;
    for (const trace::Finding& finding : report.kernels[0].findings) {
      for (const trace::Line& line : {finding.at, finding.other}) {
        if (line.line == 0) continue;
        EXPECT_TRUE(line.file.ends_with(source)) << line.file;
        found.emplace(trace::name(finding.kind), line.line);
      }
    }
    EXPECT_EQ(found, expected) << (reversed ? "reversed" : "in order") << ":\n" << all_of(report);
  }
}

TEST_P(Gallery, RepairedIsClean) {
  if (!GetParam().exhibit->repaired) GTEST_SKIP() << "its repair is another exhibit";
  for (const bool reversed : {false, true}) {
    const trace::Report report = examine(GetParam().exhibit->repaired, reversed);
    ASSERT_EQ(report.kernels.size(), 1u);
    EXPECT_TRUE(report.kernels[0].findings.empty()) << all_of(report);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Gallery, testing::ValuesIn(exhibits()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace weft
