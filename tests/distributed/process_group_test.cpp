// ProcessGroup on every backend: the conformance cases, and what happens when ranks fail.
#include "distributed/comm/process_group.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>
#include <tuple>

#include "tensor/factory.h"
#include "tests/distributed/process_group_cases.h"
#include "tests/support/nightly.h"
#include "tests/support/spawn_ranks.h"

namespace weft::testing {
namespace {

using namespace std::chrono_literals;

// --- conformance -----------------------------------------------------------------------------------------------

WEFT_RANK_FUNCTION(group_case) {
  const ProcessGroup group = ProcessGroup::from_environment({.timeout = 50s});
  process_group_cases().at(arguments.at(0))(group);
}

class Conformance : public ::testing::TestWithParam<std::tuple<std::string, int, std::string>> {};

TEST_P(Conformance, Case) {
  const auto& [backend, size, name] = GetParam();
  if (backend == "local") {
    run_ranks(size, process_group_cases().at(name), {.timeout = 50s});
  } else {
    EXPECT_TRUE(all_succeeded(spawn_ranks(size, "group_case", {.arguments = {name}, .environment = {}})));
  }
}

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const auto& [name, function] : process_group_cases()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Backends, Conformance,
                         ::testing::Combine(::testing::Values("local", "shm"),
                                            ::testing::ValuesIn(test::values({1, 2, 3, 4}, {5, 8})),
                                            ::testing::ValuesIn(case_names())),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" + std::to_string(std::get<1>(info.param)) + "_" +
                                  std::get<2>(info.param);
                         });

// --- failures --------------------------------------------------------------------------------------------------

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The error of `work`, which must come within a second.
Error failure_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  try {
    work();
  } catch (const Error& error) {
    EXPECT_LT(seconds_since(begin), 1.0);
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorCode::internal, "none", "none");
}

void expect_text(const Error& error, const std::string& part) {
  EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
}

TEST(Faults, TimeoutNamesWhoIsBehindAndItsLastOperation) {
  run_ranks(3,
            [](ProcessGroup group) {
              group.all_reduce(ones({3})).wait();
              if (group.rank() == 2) {
                std::this_thread::sleep_for(400ms);
                const Error error = failure_of([&] { group.all_reduce(ones({3})).wait(); });
                expect_text(error, "stopped the group");
                return;
              }
              const Error error = failure_of([&] { group.all_gather(ones({4})); });
              EXPECT_EQ(error.code(), ErrorCode::timeout);
              expect_text(error, "all_gather #1 in group \"dp\"");
              expect_text(
                  error,
                  "no answer from rank 2 for 200 ms; its last op: all_reduce sum #0 f32[3] at process_group_test.cpp:");
              const Error later = failure_of([&] { group.barrier().wait(); });
              EXPECT_EQ(later.code(), ErrorCode::timeout);
            },
            {.name = "dp", .timeout = 200ms});
}

TEST(Faults, ReceiveTimesOut) {
  run_ranks(2,
            [](ProcessGroup group) {
              if (group.rank() == 1) return std::this_thread::sleep_for(400ms);
              const Error error = failure_of([&] { group.recv(ones({3}), 1).wait(); });
              EXPECT_EQ(error.code(), ErrorCode::timeout);
              expect_text(error, "no answer from rank 1");
            },
            {.timeout = 200ms});
}

TEST(Faults, ReceiveOfAnotherSizeIsAMismatch) {
  run_ranks(2, [](ProcessGroup group) {
    const Error error = failure_of([&] {
      if (group.rank() == 1) group.recv(ones({3}), 0).wait();
      if (group.rank() == 0) group.send(ones({4}), 1).wait();
      group.barrier().wait();
    });
    EXPECT_EQ(error.code(), ErrorCode::mismatch);
    expect_text(error, "rank 1 expects f32[3], rank 0 sends f32[4]");
  });
}

TEST(Faults, ARankThatThrowsReleasesTheOthers) {
  const auto begin = std::chrono::steady_clock::now();
  try {
    run_ranks(4, [](ProcessGroup group) {
      const ProcessGroup half = group.split(group.rank() % 2);
      group.all_reduce(ones({3})).wait();
      if (group.rank() == 2) throw std::runtime_error("rank 2 has had enough");
      if (group.rank() == 0) half.barrier().wait();
      group.all_reduce(ones({100000})).wait();
    });
    FAIL() << "no error";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "rank 2 has had enough");
  }
  EXPECT_LT(seconds_since(begin), 1.0);
}

TEST(Faults, ARankThatLeavesIsLost) {
  run_ranks(3, [](ProcessGroup group) {
    if (group.rank() == 1) return;
    const Error error = failure_of([&] { group.all_reduce(ones({100000})).wait(); });
    EXPECT_EQ(error.code(), ErrorCode::peer_lost);
    expect_text(error, "rank 1 has gone");
  });
}

TEST(Faults, AbortReachesWaitersAndLaterOperations) {
  run_ranks(2, [](ProcessGroup group) {
    if (group.rank() == 0) {
      std::this_thread::sleep_for(50ms);
      group.abort("out of coffee");
    }
    expect_text(failure_of([&] { group.barrier().wait(); }), "rank 0 aborted the group: out of coffee");
  });
}

WEFT_RANK_FUNCTION(one_rank_dies) {
  const ProcessGroup group = ProcessGroup::from_environment();
  const bool victim = group.rank() == 1;
  const Tensor x = group.empty_shared({300000});
  try {
    for (int round = 0; round < 100000; ++round) {
      if (victim && round == 50) {
        if (arguments.at(0) == "killed") kill(getpid(), SIGKILL);
        if (arguments.at(0) == "throws") throw std::runtime_error("a bug");
        if (arguments.at(0) == "exits") _exit(0);
      }
      group.all_reduce(x, Reduce::mean).wait();
    }
  } catch (const Error& error) {
    EXPECT_FALSE(victim);
    EXPECT_EQ(error.code(), ErrorCode::peer_lost) << error.what();
    expect_text(error, "rank 1");
  }
}

TEST(Faults, ADeadProcessIsNoticedAtOnce) {
  for (const std::string way : {"killed", "throws", "exits"}) {
    const auto results = spawn_ranks(3, "one_rank_dies", {.arguments = {way}, .environment = {}, .timeout = 20s});
    EXPECT_EQ(results[1].signal, way == "killed" ? SIGKILL : 0);
    for (const int survivor : {0, 2}) {
      const RankResult& result = results[static_cast<size_t>(survivor)];
      EXPECT_EQ(result.exit_code, 0) << result.output;
      EXPECT_LT(result.seconds - results[1].seconds, 1.0);
    }
  }
}

WEFT_RANK_FUNCTION(one_rank_stands_still) {
  const ProcessGroup group = ProcessGroup::from_environment({.timeout = 300ms});
  const std::vector<std::string> pids = group.all_gather_bytes(std::to_string(getpid()));
  if (group.rank() == 0) kill(static_cast<pid_t>(std::stoi(pids[1])), SIGSTOP);
  const Error error = failure_of([&] {
    while (true) group.all_reduce(ones({10})).wait();
  });
  if (group.rank() == 0) {
    EXPECT_EQ(error.code(), ErrorCode::timeout);
    expect_text(error, "no answer from rank 1 for 300 ms; its last op: all_");
    kill(static_cast<pid_t>(std::stoi(pids[1])), SIGCONT);
  } else {
    expect_text(error, "rank 0 stopped the group");
  }
}

TEST(Faults, AStoppedProcessIsATimeout) { EXPECT_TRUE(all_succeeded(spawn_ranks(2, "one_rank_stands_still"))); }

WEFT_RANK_FUNCTION(too_much_memory) {
  const ProcessGroup group = ProcessGroup::from_environment();
  const Error error = failure_of([&] { group.empty_shared({int64_t{1} << 50}); });
  EXPECT_EQ(error.code(), ErrorCode::out_of_memory) << error.what();
  if (group.rank() == 0) {
    const rlimit limit{.rlim_cur = 1 << 20, .rlim_max = 1 << 20};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  EXPECT_EQ(failure_of([&] { group.empty_shared({1 << 20}); }).code(), ErrorCode::out_of_memory);
  const Tensor x = group.empty_shared({100});
  group.all_reduce(x).wait();
}

TEST(Faults, TooMuchSharedMemoryIsAnErrorOnEveryRank) { EXPECT_TRUE(all_succeeded(spawn_ranks(2, "too_much_memory"))); }

WEFT_RANK_FUNCTION(peer_never_comes) {
  if (std::getenv("RANK") == std::string("1")) return;
  const Error error = failure_of([] { ProcessGroup::from_environment({.timeout = 300ms}); });
  EXPECT_EQ(error.code(), ErrorCode::timeout);
  expect_text(error, "rank 1 did not join");
}

TEST(Faults, ARankThatNeverComesIsATimeout) { EXPECT_TRUE(all_succeeded(spawn_ranks(2, "peer_never_comes"))); }

TEST(ProcessGroup, LeavesNoFileBehind) {
  const auto files = [] {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) names.push_back(entry.path());
    return names;
  };
  const auto before = files();
  spawn_ranks(2, "one_rank_dies", {.arguments = {"killed"}, .environment = {}});
  EXPECT_EQ(files(), before);
}

TEST(ProcessGroup, OneRankWithoutALauncher) {
  const ProcessGroup group = ProcessGroup::from_environment();
  EXPECT_EQ(group.size(), 1);
  const Tensor x = tensor({0, 1, 2, 3});
  group.all_reduce(x, Reduce::mean).wait();
  EXPECT_EQ(x.to_vector(), (std::vector<double>{0, 1, 2, 3}));
  EXPECT_THROW(ProcessGroup().barrier(), Error);
  EXPECT_THROW(ProcessGroup::threads(0), Error);
}

}  // namespace
}  // namespace weft::testing
