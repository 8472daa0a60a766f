// The kernels' benchmarks (each kernels/<family>/bench.cpp) as one program: medians, and beside each the limit that this
// machine sets, measured in the same run.
//
//   ops [--json] [--filter REGEX] [--threads N] [--repetitions N]
//
// Kernels that compute are held against the matrix product at its best size, those that move data against memcpy (its
// bytes read and its bytes written both count, as they do for the kernels).
#include <benchmark/benchmark.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "distributed/profiler/limits.h"
#include "kernels/base/error.h"
#include "kernels/base/parallel.h"

namespace {

struct Row {
  std::string name;
  std::vector<double> nanoseconds;
  std::vector<double> rates;  // GFLOP/s or GB/s
  bool computes = false;
};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Gathers the repetitions of every benchmark; prints nothing itself but the names of those that failed.
class Collector : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration) continue;
      const std::string name = run.run_name.str();
      if (run.error_occurred) {
        fmt::print(stderr, "ops: {} failed: {}\n", name, run.error_message);
        ++failures;
        continue;
      }
      if (rows.empty() || rows.back().name != name) rows.push_back({name, {}, {}, false});
      Row& row = rows.back();
      row.nanoseconds.push_back(run.GetAdjustedRealTime() * 1e9 / benchmark::GetTimeUnitMultiplier(run.time_unit));
      for (const auto& [counter, value] : run.counters) {
        if (counter == "bytes_per_second") {
          row.rates.push_back(value / 1e9);
        } else if (counter == "items_per_second") {
          row.rates.push_back(value / 1e9);
          row.computes = true;
        } else if (counter == "GFLOP/s") {
          row.rates.push_back(value);
          row.computes = true;
        }
      }
    }
  }
  std::vector<Row> rows;
  int failures = 0;
};

}  // namespace

int main(int argc, char** argv) try {
  CLI::App app{"Benchmarks of the kernels", "ops"};
  bool json = false;
  std::string filter = ".";
  int threads = weft::num_threads();
  int repetitions = 5;
  app.add_flag("--json", json, "print JSON");
  app.add_option("--filter", filter, "only benchmarks whose name matches this regular expression");
  app.add_option("--threads", threads)->check(CLI::Range(1, 1024))->capture_default_str();
  app.add_option("--repetitions", repetitions, "the median of so many is shown")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  weft::set_num_threads(threads);

  const double gemm = weft::gemm_limit_flops(0.3) / 1e9;
  const double copy = 2 * weft::memcpy_limit_bytes(0.3) / 1e9;

  std::vector<std::string> words = {"ops", "--benchmark_filter=" + filter, "--benchmark_min_time=0.05",
                                    fmt::format("--benchmark_repetitions={}", repetitions)};
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  int count = static_cast<int>(pointers.size());
  benchmark::Initialize(&count, pointers.data());
  Collector collector;
  if (benchmark::RunSpecifiedBenchmarks(&collector) == 0) {
    fmt::print(stderr, "ops: no benchmark matches \"{}\"\n", filter);
    return 1;
  }

  if (json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Row& row : collector.rows) {
      const double rate = median(row.rates), limit = row.computes ? gemm : copy;
      list.push_back({{"name", row.name},
                      {"median_us", median(row.nanoseconds) / 1e3},
                      {"rate", rate},
                      {"unit", row.computes ? "GFLOP/s" : "GB/s"},
                      {"limit", limit},
                      {"share", rate / limit}});
    }
    fmt::print("{}\n",
               nlohmann::ordered_json{
                   {"threads", threads}, {"gemm_gflops", gemm}, {"memory_gbs", copy}, {"benchmarks", std::move(list)}}
                   .dump(2));
  } else {
    fmt::print("{} threads; limits: matrix product {:.0f} GFLOP/s, memory {:.1f} GB/s\n", threads, gemm, copy);
    size_t width = 4;
    for (const Row& row : collector.rows) width = std::max(width, row.name.size());
    for (const Row& row : collector.rows) {
      const double rate = median(row.rates), limit = row.computes ? gemm : copy;
      fmt::print("{:<{}}  {:>11.1f} us  {:>8.1f} {:<7}  {:>4.0f}% of {:.0f}\n", row.name, width,
                 median(row.nanoseconds) / 1e3, rate, row.computes ? "GFLOP/s" : "GB/s", 100 * rate / limit, limit);
    }
  }
  return collector.failures ? 1 : 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
