// How fast the public operations run on a device, and how near that is to what the device can do.
//
//   build/benchmarks/device_ops --device cuda --json            # beside it: python3 tools/gpu/torch_ops.py
//
// A row: the median time by events, and the rate of what the operation must do at least: bytes that it has to read and
// write (GB/s) or multiplications and additions (TFLOP/s). The peaks are measured in the same run: a large copy, and a
// large matrix product of the same type. Sizes fill a large GPU; --small is for trying the program out.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "distributed/profiler/limits.h"
#include "nn/nn.h"
#include "optim/optim.h"
#include "tensor/device.h"
#include "tensor/factory.h"
#include "tensor/json.h"

namespace weft {
namespace {

struct Options {
  std::string device = "cuda";
  int repeats = 20;
  bool small = false;
  bool json = false;
};

struct Row {
  std::string op;
  DType dtype;
  double milliseconds;
  double bytes;  // that have to move; 0 for rows that compute
  double flops;
};

class Table {
 public:
  Table(Device device, int repeats) : device_(device), repeats_(repeats) {}

  // `work` queues on the current stream.
  void add(const std::string& op, DType dtype, double bytes, double flops, const std::function<void()>& work) {
    for (int i = 0; i < 3; ++i) work();
    synchronize(device_);
    std::vector<double> times;
    for (int i = 0; i < repeats_; ++i) {
      Event begin(device_, true), end(device_, true);
      begin.record(current_stream(device_));
      work();
      end.record(current_stream(device_));
      end.synchronize();
      times.push_back(end.elapsed_ms(begin));
    }
    std::nth_element(times.begin(), times.begin() + repeats_ / 2, times.end());
    rows_.push_back({op, dtype, times[static_cast<size_t>(repeats_ / 2)], bytes, flops});
  }

  const std::vector<Row>& rows() const { return rows_; }

 private:
  Device device_;
  int repeats_;
  std::vector<Row> rows_;
};

// The rows of one element type. `n` scales every size; tools/gpu/torch_ops.py has the same rows.
void measure(Table& table, Device device, DType dtype, bool small) {
  const NoGrad no_grad;
  const auto make = [&](const Shape& shape) { return randn(shape).to(dtype).to(device); };
  const double size = static_cast<double>(size_of(dtype));
  const int64_t rows = small ? 64 : 32768, width = small ? 128 : 4096;
  const double elements = static_cast<double>(rows * width);

  {
    const Tensor x = make({rows, width}), y = make({rows, width});
    table.add("add", dtype, 3 * elements * size, 0, [&] { x + y; });
    table.add("gelu", dtype, 2 * elements * size, 0, [&] { gelu_tanh(x); });
    table.add("softmax", dtype, 2 * elements * size, 0, [&] { softmax(x, 1); });
    const Tensor weight = make({width}), bias = make({width});
    table.add("layer_norm", dtype, 2 * elements * size, 0, [&] { layer_norm(x, {width}, weight, bias); });
    table.add("sum of rows", dtype, elements * size, 0, [&] { sum(x, {1}); });
    table.add("transpose copy", dtype, 2 * elements * size, 0, [&] { x.transpose(0, 1).contiguous(); });
    // Forward and backward: x is read twice, its gradient written, the incoming one read.
    const EnableGrad grad;
    const Tensor leaf = make({rows, width}).requires_grad_(true);
    table.add("softmax, both ways", dtype, 5 * elements * size, 0, [&] { softmax(leaf, 1).backward(y); });
    leaf.set_grad({});
    table.add("layer_norm, both ways", dtype, 5 * elements * size, 0,
              [&] { layer_norm(leaf, {width}, weight, bias).backward(y); });
  }
  {
    const int64_t tokens = small ? 16 : 8192, vocabulary = small ? 100 : 50257;
    const Tensor logits = make({tokens, vocabulary}), target = randint(0, vocabulary, {tokens}).to(device);
    table.add("cross_entropy", dtype, static_cast<double>(tokens * vocabulary) * size, 0,
              [&] { nn::cross_entropy(logits, target); });
    const Tensor weight = make({vocabulary, small ? 32 : 1024}), ids = randint(0, vocabulary, {4 * tokens}).to(device);
    table.add("embedding", dtype, 2.0 * static_cast<double>(ids.numel() * weight.size(1)) * size, 0,
              [&] { embedding(weight, ids); });
  }
  {
    const int64_t n = small ? 64 : (dtype == f32 ? 4096 : 8192);
    const Tensor a = make({n, n}), b = make({n, n}), bias = make({n});
    const double flops = 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
    table.add("matmul", dtype, 0, flops, [&] { matmul(a, b); });
    table.add("linear with bias", dtype, 0, flops, [&] { linear(a, b, bias); });
  }
  {
    const int64_t batch = small ? 1 : 8, heads = small ? 2 : 16, length = small ? 64 : 2048, head = 64;
    const Shape shape = {batch, heads, length, head};
    const double flops = 2.0 * static_cast<double>(batch * heads * length * length * head);  // the causal half
    const Tensor q = make(shape), k = make(shape), v = make(shape), dy = make(shape);
    table.add("attention, causal", dtype, 0, flops, [&] { scaled_dot_product_attention(q, k, v, {.causal = true}); });
    const EnableGrad grad;
    const Tensor ql = make(shape).requires_grad_(true), kl = make(shape).requires_grad_(true);
    const Tensor vl = make(shape).requires_grad_(true);
    table.add("attention, both ways", dtype, 0, 3.5 * flops,
              [&] { scaled_dot_product_attention(ql, kl, vl, {.causal = true}).backward(dy); });
  }
  {
    const int64_t images = small ? 2 : 64, channels = small ? 8 : 128, side = small ? 8 : 56;
    const Tensor x = make({images, channels, side, side}), w = make({channels, channels, 3, 3});
    const double flops = 2.0 * static_cast<double>(images * channels * channels * side * side) * 9;
    table.add("conv2d 3x3", dtype, 0, flops, [&] { conv2d(x, w, {}, {.padding = {1, 1}}); });
  }
  if (dtype == f32) {
    const Tensor parameter = make({small ? 1000 : 124'000'000}).requires_grad_(true);
    parameter.set_grad(make(parameter.shape()));
    optim::AdamW adam({{"p", parameter}});
    table.add("AdamW step", dtype, 7 * static_cast<double>(parameter.numel()) * size, 0, [&] { adam.step(); });
  }
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("The time of operations on a device, beside its peaks");
  app.add_option("--device", options.device, "cuda, cuda:N or simt")->capture_default_str();
  app.add_option("--repeats", options.repeats, "measurements a row")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_flag("--small", options.small, "tiny sizes");
  app.add_flag("--json", options.json, "print JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "device_ops: {}; see --help\n", error.what());
    return 2;
  }
  const Device device = device_named(options.device, "device_ops");
  Table table(device, options.repeats);
  {
    const int64_t count = options.small ? 1 << 16 : 1 << 28;
    const Tensor from = zeros({count}, {.device = device}), to = zeros({count}, {.device = device});
    table.add("copy", f32, 8.0 * static_cast<double>(count), 0, [&] { copy_async(from, to); });
  }
  const double copy_peak = table.rows().front().bytes / table.rows().front().milliseconds / 1e6;
  for (const DType dtype : {f32, bf16}) measure(table, device, dtype, options.small);

  Tree list = Tree::list({});
  for (const Row& row : table.rows()) {
    const bool computes = row.flops > 0;
    double best_product = 0;  // of this type, whichever way
    for (const Row& other : table.rows())
      if (other.dtype == row.dtype && other.op == "matmul") best_product = other.flops / other.milliseconds / 1e9;
    const double rate = computes ? row.flops / row.milliseconds / 1e9 : row.bytes / row.milliseconds / 1e6;
    const double share = rate / (computes ? best_product : copy_peak);
    if (options.json)
      list.push_back(Tree::map({{"op", row.op},
                                {"dtype", std::string(name(row.dtype))},
                                {"ms", row.milliseconds},
                                {"rate", rate},
                                {"unit", computes ? "TFLOP/s" : "GB/s"},
                                {"share_of_peak", share}}));
    else
      fmt::print("{:<24} {:<5} {:>10.3f} ms {:>10.1f} {:<8} {:>4.0f}%\n", row.op, name(row.dtype), row.milliseconds,
                 rate, computes ? "TFLOP/s" : "GB/s", 100 * share);
  }
  if (options.json) fmt::print("{}\n", to_json(list, 2));
  return 0;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  try {
    return weft::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "device_ops: {}\n", error.what());
    return 1;
  }
}
