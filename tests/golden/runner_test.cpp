// golden_runner itself: what it counts, prints and ends with, on small folders made here.
#include <gtest/gtest.h>

#include <algorithm>

#include "tensor/factory.h"
#include "tensor/file.h"
#include "tensor/safetensors.h"
#include "tests/support/child_process.h"

namespace weft {
namespace {

using test::ChildProcess;
using test::TemporaryFolder;

ChildProcess::Result run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), test::build_folder() / "tests" / "golden_runner");
  return ChildProcess(std::move(arguments)).wait();
}
bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A product with the given gradient of its second factor, an unknown op, an unknown parameter, a call that must be an
// error, an unknown optimizer.
void write_goldens(const TemporaryFolder& folder, double gradient) {
  write_file(folder / "ops_small.json", R"({"meta": {}, "cases": [
      {"name": "mul.case0", "op": "mul", "params": {}, "inputs": ["a", "b"], "outputs": ["ab"], "rtol": 1e-6,
       "views": {"0": [["transpose", 0, 1]]}, "grad_outputs": {"0": "dy"}, "grad_inputs": {"0": "b", "1": "da"}},
      {"name": "fold.case0", "op": "fold", "params": {}, "inputs": ["a"], "outputs": ["a"]},
      {"name": "softplus.case0", "op": "softplus", "params": {"slope": 2}, "inputs": ["a"], "outputs": ["a"]},
      {"name": "bmm.case0", "op": "bmm", "params": {}, "inputs": ["a", "long"], "raises": "RuntimeError"}]})");
  save_safetensors({{"a", tensor({3}).reshape({1, 1})},
                    {"b", tensor({4}).reshape({1, 1})},
                    {"ab", tensor({12}).reshape({1, 1})},
                    {"dy", tensor({1}).reshape({1, 1})},
                    {"da", tensor({gradient}).reshape({1, 1})},
                    {"long", ones({2, 2, 2})}},
                   folder / "ops_small.safetensors");
  write_file(folder / "optim_small.json", R"({"cases": [{"name": "Muon.case0", "op": "Muon"}]})");
}

TEST(GoldenRunner, CountsAndNamesWhatIsMissing) {
  const TemporaryFolder folder;
  write_goldens(folder, 3);
  const auto result = run({"--dir", folder.path()});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(contains(result.out, "ops: 2 passed, 0 failed, 2 skipped\n")) << result.out;
  EXPECT_TRUE(contains(result.out, "skipped 1: fold is not in this version\n")) << result.out;
  EXPECT_TRUE(contains(result.out, "skipped 1: softplus with slope\n")) << result.out;
  EXPECT_TRUE(contains(result.out, "\n2 passed, 0 failed\n")) << result.out;
}

TEST(GoldenRunner, AFailureNamesTheCase) {
  const TemporaryFolder folder;
  write_goldens(folder, 3.5);
  const auto result = run({"--dir", folder.path(), "--groups", "ops"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(contains(result.out, "FAILED mul.case0")) << result.out;
  EXPECT_TRUE(contains(result.out, "grad_input1: at [0, 0] got 3, expected 3.5")) << result.out;
  EXPECT_TRUE(contains(result.out, "1 passed, 1 failed\n")) << result.out;
  EXPECT_FALSE(contains(result.out, "optim"));
}

TEST(GoldenRunner, NothingToRunIsAnError) {
  const TemporaryFolder folder;
  const auto expect_error = [](const std::vector<std::string>& arguments, const std::string& part) {
    const auto result = run(arguments);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_TRUE(contains(result.err, part)) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  };
  expect_error({"--dir", folder.path()}, "no case to run");
  expect_error({"--dir", folder / "missing"}, "no such folder");
  expect_error({"--dir", folder.path(), "--groups", "everything"}, "everything");
  expect_error({"--dir", folder.path(), "--device", "abacus"}, "abacus");
  write_goldens(folder, 3);
  expect_error({"--dir", folder.path(), "--groups", "optim"}, "no case to run");
  write_file(folder / "ops_small.json", "{");
  const auto broken = run({"--dir", folder.path()});
  EXPECT_EQ(broken.exit_code, 1);
  EXPECT_TRUE(contains(broken.out, "FAILED ops_small")) << broken.out;
}

}  // namespace
}  // namespace weft
