// The command line of `weft` itself.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/child_process.h"

namespace weft {
namespace {

test::ChildProcess::Result weft(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), test::weft_program());
  return test::ChildProcess(std::move(arguments)).wait();
}

TEST(CommandLine, WrongWordsAreOneLine) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "subcommand"},
      {{"lanch"}, "\"lanch\""},
      {{"--verbose"}, "\"--verbose\""},
      {{"inspect"}, "FILE"},
      {{"inspect", "--color", "file"}, "--color"},
      {{"launch", "-n", "two", "--", "true"}, "two"},
      {{"launch", "--ranks", "2", "--", "true"}, "--ranks"},
      {{"launch", "-n", "2"}, "no program"},
  };
  for (const auto& [arguments, text] : cases) {
    const auto result = weft(arguments);
    EXPECT_NE(result.exit_code, 0) << text;
    EXPECT_EQ(result.out, "") << text;
    EXPECT_EQ(result.err.substr(0, 4), "weft") << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_NE(result.err.find(text), std::string::npos) << result.err;
  }
}

TEST(CommandLine, HelpAndVersion) {
  const auto help = weft({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* name : {"launch", "inspect", "--version"})
    EXPECT_NE(help.out.find(name), std::string::npos) << help.out;
  EXPECT_EQ(weft({"launch", "--help"}).exit_code, 0);
  const auto version = weft({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_EQ(version.out.substr(0, 5), "weft ") << version.out;
}

}  // namespace
}  // namespace weft
