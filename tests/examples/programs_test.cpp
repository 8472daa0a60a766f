// The examples mlp and cnn, run as they are: they learn what they are to learn.
#include <gtest/gtest.h>

#include <regex>

#include "data/sources/data_directory.h"
#include "tensor/safetensors.h"
#include "tests/examples/programs.h"

namespace weft {
namespace {

using test::ChildProcess;
using test::TemporaryFolder;

// They save into the folder they are started in, so each test gives them one.
class Examples : public ::testing::Test {
 protected:
  void SetUp() override {
    data_ = std::filesystem::absolute(data::data_directory());
    if (!std::filesystem::exists(data_ / "digits.csv"))
      GTEST_SKIP() << data_ / "digits.csv"
                   << " is missing; ./dev data gets it";
  }
  ChildProcess::Result run(std::vector<std::string> command) {
    command.insert(command.begin(), {"env", "-C", folder_.path()});
    const auto result = ChildProcess(std::move(command), {{"WEFT_DATA_DIR", data_}}).wait();
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    return result;
  }
  std::filesystem::path data_;
  TemporaryFolder folder_;
};

// Every accuracy it printed, in percent.
std::vector<double> accuracies(const std::string& out) {
  const std::regex pattern("accuracy ([0-9.]+)%");
  std::vector<double> found;
  for (std::sregex_iterator at(out.begin(), out.end(), pattern), end; at != end; ++at)
    found.push_back(std::stod((*at)[1]));
  return found;
}

TEST_F(Examples, MlpTellsDigitsApart) {
  const auto result = run({test::example_program("mlp")});
  const std::vector<double> accuracy = accuracies(result.out);
  ASSERT_EQ(accuracy.size(), 4u) << result.out;
  EXPECT_GT(accuracy.back(), 93) << result.out;
  const auto saved = load_safetensors(folder_ / "mlp.safetensors");
  EXPECT_EQ(describe(saved.tensors.at("fc1.weight")), "f32[128, 64]");
}

TEST_F(Examples, CnnTellsDigitsApartOnOneRankAndTwo) {
  for (const int ranks : {1, 2}) {
    std::vector<std::string> command = {test::example_program("cnn")};
    if (ranks > 1) command.insert(command.begin(), {test::weft_program(), "launch", "-n", std::to_string(ranks), "--"});
    const auto result = run(std::move(command));
    const std::vector<double> accuracy = accuracies(result.out);
    ASSERT_EQ(accuracy.size(), 5u) << result.out;
    EXPECT_GT(accuracy.back(), 90) << result.out;
    // Each test image counts once, though two ranks need an even number.
    size_t lines = 0;
    for (size_t at = 0; (at = result.out.find("% of 359 images\n", at)) != std::string::npos; ++at) ++lines;
    EXPECT_EQ(lines, 5u) << result.out;
  }
}

TEST(ExamplesWithoutData, SayHowToGetIt) {
  const TemporaryFolder folder;
  for (const char* name : {"mlp", "cnn"}) {
    const auto result =
        ChildProcess({"env", "-C", folder.path(), test::example_program(name)}, {{"WEFT_DATA_DIR", folder.path()}})
            .wait();
    EXPECT_EQ(result.exit_code, 1) << name;
    EXPECT_EQ(result.err.substr(0, 12), "weft::Error ") << result.err;
    EXPECT_NE(result.err.find("./dev data"), std::string::npos) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

}  // namespace
}  // namespace weft
