// The thread pool: every tile once, any number of callers, errors, nesting, and the cost of a call.
#include "kernels/base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/base/error.h"
#include "tests/support/nightly.h"

namespace weft {
namespace {

// Restores the number of threads at the end of a test.
class ThreadCount {
 public:
  explicit ThreadCount(int count) : before_(num_threads()) { set_num_threads(count); }
  ~ThreadCount() { set_num_threads(before_); }

 private:
  int before_;
};

TEST(Parallel, EveryTileRunsOnceWithFixedBounds) {
  for (int threads : {1, 2, 3, 8}) {
    const ThreadCount guard(threads);
    for (int64_t total : {0, 1, 2, 7, 64, 1000}) {
      for (int64_t tile : {1, 3, 64, 2000}) {
        std::vector<std::atomic<int>> seen(total);
        parallel_for(total, tile, [&](int64_t begin, int64_t end) {
          EXPECT_EQ(begin % tile, 0);
          EXPECT_EQ(end, std::min(begin + tile, total));
          for (int64_t i = begin; i < end; ++i) ++seen[i];
        });
        for (auto& count : seen) EXPECT_EQ(count, 1);
      }
    }
  }
}

TEST(Parallel, HugeTotalsDoNotOverflow) {
  const ThreadCount guard(2);
  constexpr int64_t total = std::numeric_limits<int64_t>::max() - 1;
  std::atomic<int64_t> covered{0};
  std::atomic<int> tiles{0};
  parallel_for(total, total / 2 + 1, [&](int64_t begin, int64_t end) {
    covered += end - begin;
    ++tiles;
  });
  EXPECT_EQ(covered, total);
  EXPECT_EQ(tiles, 2);
}

TEST(Parallel, WorkersTakePart) {
  const ThreadCount guard(2);
  std::atomic<int> inside{0};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  // Two tiles that wait for each other can only end on two threads.
  parallel_for(2, 1, [&](int64_t, int64_t) {
    ++inside;
    while (inside < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  });
  EXPECT_EQ(inside, 2);
}

TEST(Parallel, NestedCallsRunInlineWithTheSameTiles) {
  const ThreadCount guard(3);
  std::atomic<int64_t> sum{0};
  parallel_for(8, 1, [&](int64_t, int64_t) {
    const auto self = std::this_thread::get_id();
    parallel_for(10, 3, [&](int64_t begin, int64_t end) {
      EXPECT_EQ(std::this_thread::get_id(), self);
      EXPECT_LE(end - begin, 3);
      sum += end - begin;
    });
  });
  EXPECT_EQ(sum, 80);
}

TEST(Parallel, AnExceptionReachesTheCallerAfterAllTilesEnded) {
  for (int threads : {1, 2, 4}) {
    const ThreadCount guard(threads);
    for (int round = 0; round < test::rounds(200, 5000); ++round) {
      std::atomic<int> running{0};
      EXPECT_THROW(parallel_for(16, 1,
                                [&](int64_t begin, int64_t) {
                                  ++running;
                                  if (begin == round % 16) {
                                    --running;
                                    throw std::runtime_error("tile");
                                  }
                                  --running;
                                }),
                   std::runtime_error);
      EXPECT_EQ(running, 0);
    }
    std::atomic<int> after{0};
    parallel_for(4, 1, [&](int64_t, int64_t) { ++after; });
    EXPECT_EQ(after, 4);
  }
}

TEST(Parallel, ManyCallersShareThePool) {
  const ThreadCount guard(3);
  std::vector<std::thread> callers;
  std::atomic<int64_t> sum{0};
  constexpr int kCallers = 80;  // more than the pool has slots
  const int rounds = test::rounds(200, 2000);
  for (int c = 0; c < kCallers; ++c)
    callers.emplace_back([&] {
      for (int round = 0; round < rounds; ++round) {
        int64_t parts[5] = {};
        parallel_for(5, 1, [&](int64_t begin, int64_t end) { parts[begin] = end; });
        for (int64_t part : parts) sum += part;
      }
    });
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(sum, int64_t{kCallers} * rounds * 15);
}

TEST(Parallel, TheNumberOfThreadsCanChangeAgainAndAgain) {
  const int before = num_threads();
  for (int round = 0; round < test::rounds(30, 1000); ++round) {
    set_num_threads(1 + round % 4);
    EXPECT_EQ(num_threads(), 1 + round % 4);
    std::atomic<int> tiles{0};
    parallel_for(9, 2, [&](int64_t, int64_t) { ++tiles; });
    EXPECT_EQ(tiles, 5);
  }
  set_num_threads(before);
}

TEST(Parallel, BadArgumentsAreErrors) {
  EXPECT_THROW(set_num_threads(0), Error);
  EXPECT_THROW(set_num_threads(-3), Error);
  EXPECT_THROW(set_num_threads(1025), Error);
  EXPECT_THROW(parallel_for(4, 0, [](int64_t, int64_t) {}), Error);
  const ThreadCount guard(2);
  EXPECT_THROW(parallel_for(4, 1, [](int64_t, int64_t) { set_num_threads(1); }), Error);
}

// Static destructors may still compute, although the workers have gone by then.
struct ComputesInDestructor {
  ~ComputesInDestructor() {
    std::atomic<int> tiles{0};
    parallel_for(4, 1, [&](int64_t, int64_t) { ++tiles; });
    if (tiles != 4) std::terminate();
  }
} computes_in_destructor;

}  // namespace
}  // namespace weft
