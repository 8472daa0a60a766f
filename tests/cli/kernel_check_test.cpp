// weft kernel-check over programs of the gallery of broken kernels.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tensor/json.h"
#include "tests/support/child_process.h"

namespace weft {
namespace {

using test::ChildProcess;
using test::TemporaryFolder;

ChildProcess::Result check(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {test::weft_program(), "kernel-check"});
  return ChildProcess(std::move(arguments)).wait();
}

// Beside the programs of the tests: build/weft and build/tests/kernels/gallery/kernel_gallery.
std::string gallery_program() {
  return (std::filesystem::path(test::weft_program()).parent_path() / "tests/kernels/gallery/kernel_gallery").string();
}

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class KernelCheck : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(gallery_program())) GTEST_SKIP() << "this build has no traced kernels";
  }
};

TEST_F(KernelCheck, AnErrorIsCodeOneWithBothLines) {
  const auto result = check({gallery_program(), "missing_barrier"});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_NE(result.out.find("shared race at missing_barrier.cu:"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find(" and missing_barrier.cu:"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("1 kernel: 1 error, 0 remarks on speed"), std::string::npos) << result.out;
  EXPECT_EQ(result.out.find('\033'), std::string::npos) << "colours are for terminals";
}

TEST_F(KernelCheck, BuffersHaveTheParametersNames) {
  const auto result = check({gallery_program(), "read_out_of_bounds"});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_NE(result.out.find("read of 4 bytes at byte 16384 of 'x', which has 16384 bytes"), std::string::npos)
      << result.out;
}

TEST_F(KernelCheck, ARepairedKernelIsCodeZero) {
  const auto result = check({gallery_program(), "missing_barrier-repaired"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_NE(result.out.find("1 kernel: no errors, 0 remarks on speed"), std::string::npos) << result.out;
}

TEST_F(KernelCheck, RemarksAreErrorsWhenStrict) {
  EXPECT_EQ(check({gallery_program(), "strided_loads"}).exit_code, 0);
  EXPECT_EQ(check({"--strict", gallery_program(), "strided_loads"}).exit_code, 1);
}

TEST_F(KernelCheck, WritesJsonAndAPage) {
  const TemporaryFolder folder;
  const auto result =
      check({"--json", folder / "r.json", "--html", folder / "r.html", gallery_program(), "unpadded_transpose"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  const Tree report = parse_json(read_text(folder / "r.json"));
  const Tree& kernel = report["kernels"][0];
  EXPECT_EQ(kernel["name"].as_string(), "transpose<32>");
  EXPECT_EQ(kernel["findings"][0]["kind"].as_string(), "bank conflict");
  EXPECT_NEAR(kernel["conflict"].as_double(), 32, 1e-6);
  EXPECT_EQ(kernel["operations"].as_int(), 0);
  EXPECT_EQ(kernel["intensity"].as_double(), 0);
  const std::string page = read_text(folder / "r.html");
  EXPECT_NE(page.find("unpadded_transpose.cu"), std::string::npos);
  EXPECT_NE(page.find("×32.0"), std::string::npos);
  EXPECT_EQ(page.find("http"), std::string::npos) << "the page loads nothing";
}

TEST_F(KernelCheck, ArithmeticIsCounted) {
  const TemporaryFolder folder;
  const auto result =
      check({"--json", folder / "r.json", "--html", folder / "r.html", gallery_program(), "strided_loads-repaired"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  // 4096 elements of 4 bytes are read and added to 256 sums of 4 bytes, which begin as 0.
  EXPECT_NE(result.out.find("FLOP/B"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("  4.1 k    0.24"), std::string::npos) << result.out;
  const Tree report = parse_json(read_text(folder / "r.json"));
  const Tree& kernel = report["kernels"][0];
  EXPECT_EQ(kernel["operations"].as_int(), 4096);
  EXPECT_NEAR(kernel["intensity"].as_double(), 4096.0 / (4096 * 4 + 256 * 4), 1e-6);
  ASSERT_EQ(kernel["arithmetic"].size(), 1u);
  EXPECT_EQ(kernel["arithmetic"][0]["operations"].as_int(), 4096);
  EXPECT_NE(read_text(folder / "r.html").find("4.1 k FLOP"), std::string::npos);
}

TEST_F(KernelCheck, AnUntracedProgramIsToldWhatToDo) {
  const auto result = check({"true"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("meson setup build-trace -Dtrace=true"), std::string::npos) << result.err;
  EXPECT_EQ(check({"/no/such/program"}).exit_code, 1);
}

}  // namespace
}  // namespace weft
