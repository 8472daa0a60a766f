#include <gtest/gtest.h>

#include "tensor/factory.h"
#include "tensor/json.h"
#include "tensor/safetensors.h"
#include "tests/support/child_process.h"

namespace weft {
namespace {

using test::ChildProcess;
using test::TemporaryFolder;

ChildProcess::Result inspect(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {test::weft_program(), "inspect"});
  return ChildProcess(std::move(arguments)).wait();
}

TEST(Inspect, Table) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.safetensors";
  const Tensor weight = full({3, 500}, 1.0);
  save_safetensors({{"embed.weight", weight}, {"head.weight", weight}, {"step", full({}, 7.0, i64)}}, path,
                   {{"format", "pt"}});
  const auto result = inspect({path});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("embed.weight  F32    [3, 500]  6,000\n"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("step          I64    []            8\n"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("head.weight = embed.weight\n"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("2 tensors, 1,501 elements, 6,008 bytes"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("format        pt\n"), std::string::npos) << result.out;
}

TEST(Inspect, Json) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.safetensors";
  save_safetensors({{"w", full({2, 3}, 1.0)}}, path, {{"k", "v"}});
  const auto result = inspect({"--json", path});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const Tree json = parse_json(result.out);
  EXPECT_EQ(json["tensors"][0]["name"].as_string(), "w");
  EXPECT_EQ(json["tensors"][0]["dtype"].as_string(), "F32");
  EXPECT_TRUE(json["tensors"][0]["shape"] == Tree::list({2, 3}));
  EXPECT_EQ(json["tensors"][0]["bytes"].as_int(), 24);
  EXPECT_EQ(json["metadata"]["k"].as_string(), "v");
  EXPECT_EQ(json["total"]["file_bytes"].as_int(), static_cast<int64_t>(std::filesystem::file_size(path)));
}

TEST(Inspect, ABadFileIsOneLineAndCodeOne) {
  const TemporaryFolder folder;
  const std::string text = folder / "text";
  write_file(text, "this is no safetensors file at all");
  const std::string cut = folder / "cut";
  const std::string file = to_safetensors({{"w", full({2, 3}, 1.0)}});
  write_file(cut, file.substr(0, file.size() - 1));
  const std::string empty = folder / "empty";
  write_file(empty, "");
  for (const std::string& path : {text, cut, empty, std::string(folder / "missing"), folder.path().string()}) {
    const auto result = inspect({path});
    EXPECT_EQ(result.exit_code, 1) << path;
    EXPECT_EQ(result.out, "") << path;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_NE(result.err.find(path), std::string::npos) << result.err;
  }
  EXPECT_NE(inspect({}).exit_code, 0);
}

}  // namespace
}  // namespace weft
