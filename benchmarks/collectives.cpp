// How fast the ranks of one host combine a tensor.
//
//   weft launch -n 2 -- build/benchmarks/collectives --json
//
// All-reduce of 4 KB to 256 MB of f32, each size twice: in place (a tensor from ProcessGroup::empty_shared, which the ranks
// read and write directly) and staged (a tensor of one's own). A rate is the tensor's bytes divided by the median time of a
// call and its wait, taken on rank 0. Beside it the limit: memcpy of as many bytes by every rank at the same time.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "distributed/comm/process_group.h"
#include "tensor/factory.h"
#include "tensor/json.h"

namespace weft {
namespace {

struct Options {
  bool json = false;
  int64_t loop = 0;
  double seconds = 0.3;  // that each row may take, about
};

struct Row {
  std::string memory;
  int64_t bytes = 0;
  int64_t calls = 0;
  double seconds = 0;  // median
  double memcpy_seconds = 0;
  double rate() const { return static_cast<double>(bytes) / seconds / 1e9; }
  double limit() const { return static_cast<double>(bytes) / memcpy_seconds / 1e9; }
};

// Median time of a call of `body`. Every rank makes the same number of calls: rank 0 chooses it after a few.
template <class Body>
double median_seconds(const ProcessGroup& group, double budget, int64_t& calls, Body body) {
  std::vector<double> times;
  const auto measure = [&](int64_t count) {
    times.clear();
    for (int64_t i = 0; i < count; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      body();
      times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    std::nth_element(times.begin(), times.begin() + count / 2, times.end());
    return times[static_cast<size_t>(count / 2)];
  };
  group.barrier().wait();
  const double first = measure(5);
  const auto wanted = static_cast<int64_t>(budget / std::max(first, 1e-7));
  calls = std::stoll(group.broadcast_bytes(std::to_string(std::clamp<int64_t>(wanted, 10, 20000))));
  group.barrier().wait();
  return measure(calls);
}

double memcpy_seconds(const ProcessGroup& group, double budget, int64_t bytes) {
  const Tensor from = zeros({bytes / 4});
  const Tensor to = zeros({bytes / 4});
  int64_t copies = 0;
  return median_seconds(group, budget, copies, [&] {
    std::memcpy(to.data(), from.data(), static_cast<size_t>(bytes));
    asm volatile("" : : "r"(to.data()) : "memory");  // the copy is wanted
  });
}

Row measure(const ProcessGroup& group, const Options& options, int64_t bytes, bool in_place) {
  Row row{.memory = in_place ? "in place" : "staged", .bytes = bytes};
  const Tensor x = in_place ? group.empty_shared({bytes / 4}) : empty({bytes / 4});
  x.zero_();
  row.seconds = median_seconds(group, options.seconds, row.calls, [&] { group.all_reduce(x).wait(); });
  row.memcpy_seconds = memcpy_seconds(group, options.seconds / 3, bytes);
  return row;
}

std::string size_text(int64_t bytes) {
  return bytes < (1 << 20) ? fmt::format("{} KB", bytes >> 10) : fmt::format("{} MB", bytes >> 20);
}

void print(const ProcessGroup& group, const Options& options, const std::vector<Row>& rows) {
  if (options.json) {
    Tree result = Tree::map({{"benchmark", "collectives"},
                             {"op", "all_reduce"},
                             {"dtype", "f32"},
                             {"backend", group.backend()},
                             {"ranks", group.size()},
                             {"results", Tree::list()}});
    for (const Row& row : rows) {
      result["results"].push_back(Tree::map({{"memory", row.memory},
                                             {"bytes", row.bytes},
                                             {"calls", row.calls},
                                             {"median_us", row.seconds * 1e6},
                                             {"gb_per_s", row.rate()},
                                             {"memcpy_gb_per_s", row.limit()}}));
    }
    fmt::print("{}\n", to_json(result, 2));
    return;
  }
  fmt::print("all_reduce f32, {} ranks, {} backend\n", group.size(), group.backend());
  fmt::print("{:>9} {:>7} {:>12} {:>9} {:>13}\n", "memory", "size", "median µs", "GB/s", "memcpy GB/s");
  for (const Row& row : rows) {
    fmt::print("{:>9} {:>7} {:>11.1f} {:>9.2f} {:>13.2f}\n", row.memory, size_text(row.bytes), row.seconds * 1e6,
               row.rate(), row.limit());
  }
}

// 1 MB again and again: something to look at with a profiler, or to disturb.
Row loop(const ProcessGroup& group, int64_t count) {
  const Tensor x = group.empty_shared({1 << 18});
  x.zero_();
  group.barrier().wait();
  std::vector<double> times;
  for (int64_t i = 0; i < count; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    group.all_reduce(x).wait();
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::nth_element(times.begin(), times.begin() + count / 2, times.end());
  Row row{.memory = "in place", .bytes = 1 << 20, .calls = count, .seconds = times[static_cast<size_t>(count / 2)]};
  row.memcpy_seconds = memcpy_seconds(group, 0.1, row.bytes);
  return row;
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("All-reduce on the ranks of one host, started by weft launch");
  app.add_flag("--json", options.json, "print JSON");
  app.add_option("--loop", options.loop, "only repeat an all-reduce of 1 MB this many times")
      ->check(CLI::PositiveNumber);
  app.add_option("--seconds", options.seconds, "about how long to measure each size")->check(CLI::PositiveNumber);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  const ProcessGroup group = ProcessGroup::from_environment();
  std::vector<Row> rows;
  if (options.loop > 0) {
    rows.push_back(loop(group, options.loop));
  } else {
    for (const bool in_place : {true, false})
      for (int64_t bytes = 4 << 10; bytes <= 256 << 20; bytes *= 4)
        rows.push_back(measure(group, options, bytes, in_place));
  }
  if (group.rank() == 0) print(group, options, rows);
  return 0;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  try {
    return weft::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "collectives: {}\n", error.what());
    return 1;
  }
}
