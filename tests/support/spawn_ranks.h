// Runs a function of a test program on several processes, as a launcher would start them.
//
//   WEFT_RANK_FUNCTION(sum_of_ranks) {                        // void (const std::vector<std::string>& arguments)
//     ProcessGroup group = ProcessGroup::from_environment();
//     EXPECT_EQ(…);
//   }
//   TEST(Sum, OfRanks) { EXPECT_TRUE(all_succeeded(spawn_ranks(3, "sum_of_ranks"))); }
//
// The processes are this program started again (posix_spawn), told by the environment to run only that function: a failed
// EXPECT or an exception there makes the rank exit with 1. What the ranks print is kept, not shown.
#pragma once
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace weft::testing {

using RankFunction = void (*)(const std::vector<std::string>& arguments);

struct SpawnOptions {
  std::vector<std::string> arguments;
  std::vector<std::pair<std::string, std::string>> environment;  // on top of this process's own
  std::chrono::seconds timeout{60};                              // then the ranks are killed
};

struct RankResult {
  int rank = 0;
  int exit_code = -1;  // -1: ended by `signal`
  int signal = 0;
  bool timed_out = false;  // killed by spawn_ranks
  double seconds = 0;      // from the start until it ended
  std::string output;      // stdout and stderr
};

std::vector<RankResult> spawn_ranks(int size, const std::string& function, const SpawnOptions& options = {});
// Whether every rank exited with 0; the message holds the output of those that did not.
::testing::AssertionResult all_succeeded(const std::vector<RankResult>& results);

namespace detail {
struct RegisterRankFunction {
  RegisterRankFunction(const char* name, RankFunction function);
};
}  // namespace detail
}  // namespace weft::testing

#define WEFT_RANK_FUNCTION(name)                                                                                     \
  static void weft_rank_function_##name(const std::vector<std::string>& arguments);                                  \
  static const ::weft::testing::detail::RegisterRankFunction weft_register_##name(#name, weft_rank_function_##name); \
  static void weft_rank_function_##name([[maybe_unused]] const std::vector<std::string>& arguments)
