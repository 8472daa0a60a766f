// Climbs the ladders: checks every rung against the CPU, sweeps block sizes, prints times, rates and gains.
//
//   kernel_lab [softmax|layer_norm|reduction|sgemm|my_kernel …] [--rows N --columns N --depth N] [--block N]
//
// This program is built twice: kernel_lab runs the kernels on the CPU in the emulator (what a rung wins there is not what
// it wins on a GPU: look at the counts, `weft kernel-check build-trace/examples/kernel_lab/kernel_lab softmax`), and
// kernel_lab_cuda, where nvcc is, on the GPU.
#include "examples/kernel_lab/lab.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>

#include "weft/weft.h"

using namespace weft;
using lab::Ladder, lab::Problem, lab::Rung;

namespace {

constexpr Device kDevice{DeviceType::WEFT_DEVICE, 0};
constexpr bool kGpu = kDevice.type == DeviceType::cuda;

// Tensors behind a Problem, on the host and on the device.
struct Data {
  Tensor x, w, bias, x16, w16, y, workspace;
  Problem host, device, low;  // low: the host's after rounding to bf16

  Data(const Ladder& ladder, Problem size) {
    manual_seed(1);
    const bool product = size.depth > 0;
    x = randn(product ? Shape{size.rows, size.depth} : Shape{size.rows, size.columns});
    w = randn(product ? Shape{size.depth, size.columns} : Shape{size.columns});
    bias = randn({size.columns});
    rounded_x = x.to(bf16).to(f32);
    rounded_w = w.to(bf16).to(f32);
    const int64_t outputs = ladder.outputs < 0 ? size.rows * size.columns : ladder.outputs;
    host = low = device = size;
    host.x = x.data<float>();
    host.w = w.data<float>();
    host.bias = bias.data<float>();
    low = host;
    low.x = rounded_x.data<float>();
    low.w = rounded_w.data<float>();
    moved_x = x.to(kDevice);
    moved_w = w.to(kDevice);
    moved_bias = bias.to(kDevice);
    x16 = moved_x.to(bf16);
    w16 = moved_w.to(bf16);
    y = zeros({outputs}, {.device = kDevice});
    const int64_t partial = ladder.outputs == 1 ? size.columns / 32 : 0;
    workspace = zeros({std::max<int64_t>({4096, 2 * size.rows, partial})}, {.device = kDevice});
    device.x = moved_x.data<float>();
    device.w = moved_w.data<float>();
    device.bias = moved_bias.data<float>();
    device.x16 = x16.data<BFloat16>();
    device.w16 = w16.data<BFloat16>();
    device.y = y.data<float>();
    device.workspace = workspace.data<float>();
  }

 private:
  Tensor rounded_x, rounded_w, moved_x, moved_w, moved_bias;
};

// The greatest error of y, relative to the greatest |y| expected.
double error_of(const Tensor& y, const std::vector<double>& expected) {
  const std::vector<double> got = y.to_vector();
  double scale = 0, worst = 0;
  for (double e : expected) scale = std::max(scale, std::abs(e));
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(got[i] - expected[i]);
    worst = difference <= worst ? worst : difference;  // a NaN stays
  }
  return worst / (scale > 0 ? scale : 1);
}

// Milliseconds a call: the best of several batches, the median being at the mercy of the machine's other users.
template <class F>
double time_ms(F&& call) {
  const Stream stream = current_stream(kDevice);
  call();
  synchronize(stream);
  double best = INFINITY;
  const int batches = kGpu ? 5 : 3, calls = kGpu ? 10 : 1;
  for (int b = 0; b < batches; ++b) {
    Event begin(kDevice, true), end(kDevice, true);
    begin.record(stream);
    for (int c = 0; c < calls; ++c) call();
    end.record(stream);
    end.synchronize();
    best = std::min(best, end.elapsed_ms(begin) / calls);
  }
  return best;
}

std::string rate(const Ladder& ladder, const Problem& p, double ms) {
  if (const double flops = ladder.flops(p); flops > 0) return fmt::format("{:.3g} GFLOP/s", flops / ms * 1e-6);
  return fmt::format("{:.3g} GB/s", ladder.bytes(p) / ms * 1e-6);
}

// What the device reaches at best on this problem's kind of limit, in the unit of rate(), measured now.
double limit_of(const Ladder& ladder, const Problem& p) {
  if (ladder.flops(p) > 0) {
    const int64_t n = kGpu ? 8192 : 512;
    const Tensor a = randn({n, n}, {.device = kDevice}), b = randn({n, n}, {.device = kDevice});
    const double ms = time_ms([&] { (void)matmul(a, b); });
    return 2.0 * static_cast<double>(n * n * n) / ms * 1e-6;
  }
  const Tensor from = zeros({kGpu ? int64_t{1} << 27 : int64_t{1} << 22}, {.device = kDevice});
  const Tensor to = empty_like(from);
  const double ms = time_ms([&] { to.copy_(from); });
  return 2.0 * static_cast<double>(from.nbytes()) / ms * 1e-6;
}

struct Overrides {
  int64_t rows = 0, columns = 0, depth = 0;
  int block = 0;
};

// Returns how many rungs were wrong.
int climb(const Ladder& ladder, const Overrides& asked) {
  Problem size = kGpu ? ladder.gpu_size : ladder.size;
  if (asked.rows && ladder.outputs != 1) size.rows = asked.rows;
  if (asked.columns) size.columns = asked.columns;
  if (asked.depth && size.depth) size.depth = asked.depth;
  if (size.depth)
    WEFT_CHECK(size.rows % 64 == 0 && size.columns % 64 == 0 && size.depth % 32 == 0, ladder.name,
               "expected rows and columns in multiples of 64 and a depth in multiples of 32, got {} × {} × {}",
               size.rows, size.columns, size.depth);
  else
    WEFT_CHECK(size.columns % 4 == 0 || ladder.outputs == 1, ladder.name, "expected columns in multiples of 4, got {}",
               size.columns);
  WEFT_CHECK(size.columns <= ladder.max_columns, ladder.name, "expected at most {} columns, got {}", ladder.max_columns,
             size.columns);
  const Data data(ladder, size);
  std::vector<double> expected(static_cast<size_t>(data.y.numel())), expected_low;
  ladder.reference(data.host, expected.data());

  const double limit = limit_of(ladder, size);
  fmt::print("\n{}: {}\n{} × {}{}, {}; at best here: {:.3g} {}\n\n", ladder.name, ladder.formula, size.rows,
             size.columns, size.depth ? fmt::format(" × {}", size.depth) : "",
             device_runtime(kDevice.type, "kernel_lab").info(kDevice).name, limit,
             ladder.flops(size) > 0 ? "GFLOP/s (matmul)" : "GB/s (copy)");
  if (!kGpu) fmt::print("  (times of the emulation; for what a GPU pays, see weft kernel-check)\n");
  fmt::print("  {:<12} {:>6} {:>10} {:>16} {:>7} {:>7}  {:>8}  {}\n", "rung", "block", "ms", "rate", "of best", "gain",
             "error", "what is new");
  const Stream stream = current_stream(kDevice);
  int wrong = 0;
  double first = 0;
  const auto print = [&](std::string_view name, const std::string& block, double ms, const std::string& error,
                         std::string_view idea) {
    if (first == 0) first = ms;
    const double amount = ladder.flops(size) > 0 ? ladder.flops(size) : ladder.bytes(size);
    fmt::print("  {:<12} {:>6} {:>10.3f} {:>16} {:>6.0f}% {:>6.1f}×  {:>8}  {}\n", name, block, ms,
               rate(ladder, size, ms), 100 * amount / ms * 1e-6 / limit, first / ms, error, idea);
  };
  for (const Rung& rung : ladder.rungs) {
    if (rung.low_precision && expected_low.empty()) {
      expected_low.resize(expected.size());
      ladder.reference(data.low, expected_low.data());
    }
    double best = INFINITY, error = 0;
    int best_block = 0;
    const std::vector<int> only = {asked.block};
    for (int block : asked.block ? only : rung.blocks) {
      data.y.fill_(NAN);
      rung.run(stream, data.device, block);
      error = std::max(error, error_of(data.y, rung.low_precision ? expected_low : expected));
      const double ms = time_ms([&] { rung.run(stream, data.device, block); });
      if (ms < best) {
        best = ms;
        best_block = block;
      }
    }
    const bool right = error < 1e-4;
    wrong += !right;
    print(rung.name, fmt::format("{}", best_block), best, fmt::format("{:.1e}", error),
          right ? std::string(rung.idea) : "WRONG, compare with the reference");
  }
  ladder.library(stream, data.device);
  const double error = error_of(data.y, expected);
  const double ms = time_ms([&] { ladder.library(stream, data.device); });
  print("Weft's own", "", ms, fmt::format("{:.1e}", error), "what kernel_table() gives on this device");
  return wrong;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<const Ladder*> ladders = {&lab::softmax_ladder(), &lab::layer_norm_ladder(),
                                              &lab::reduction_ladder(), &lab::sgemm_ladder(), &lab::template_ladder()};
  CLI::App app{"Versions of four kernels, from the first idea to a fast one", "kernel_lab"};
  std::vector<std::string> names;
  Overrides asked;
  app.add_option("ladder", names, "softmax, layer_norm, reduction, sgemm, my_kernel; all where none is named");
  app.add_option("--rows", asked.rows)->check(CLI::Range(1, 1 << 24));
  app.add_option("--columns", asked.columns)->check(CLI::Range(1, 1 << 28));
  app.add_option("--depth", asked.depth)->check(CLI::Range(1, 1 << 20));
  app.add_option("--block", asked.block, "threads a block, instead of a sweep")
      ->check(CLI::IsMember({32, 64, 128, 256, 512, 1024}));
  CLI11_PARSE(app, argc, argv);
  int wrong = 0;
  for (const std::string& name : names)
    WEFT_CHECK(std::any_of(ladders.begin(), ladders.end(), [&](const Ladder* l) { return l->name == name; }),
               "kernel_lab", "no ladder is called '{}'; expected softmax, layer_norm, reduction, sgemm or my_kernel",
               name);
  for (const Ladder* ladder : ladders)
    if (names.empty() || std::find(names.begin(), names.end(), ladder->name) != names.end())
      wrong += climb(*ladder, asked);
  return wrong ? 1 : 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
