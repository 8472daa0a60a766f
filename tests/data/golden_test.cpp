// data/ against the golden files made with torch and Accelerate.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tensor/file.h"
#include "tests/data/golden_data.h"

namespace weft::testing {
namespace {

std::filesystem::path golden_folder() {
  const char* set = std::getenv("WEFT_GOLDENS");
  return set && *set ? std::filesystem::path(set) : std::filesystem::path("../shared/goldens");
}

class DataGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(DataGolden, EveryCase) {
  const auto path = golden_folder() / (GetParam() + ".json");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not here";
  const Tally tally = check_data_file(parse_json(read_file(path), path.string()), GetParam());
  for (const auto& failure : tally.failures) ADD_FAILURE() << failure;
  EXPECT_EQ(tally.failed, 0);
  EXPECT_GT(tally.passed, 0);
  RecordProperty("passed", std::to_string(tally.passed));
  std::printf("%s: %lld passed, %lld failed\n", GetParam().c_str(), static_cast<long long>(tally.passed),
              static_cast<long long>(tally.failed));
}

INSTANTIATE_TEST_SUITE_P(Files, DataGolden,
                         ::testing::Values("data_batch_sampler_shard", "data_iterable_shard", "data_loader_shard",
                                           "data_skip_first_batches", "data_seedable_sampler"));

}  // namespace
}  // namespace weft::testing
