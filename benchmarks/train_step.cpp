// How fast whole models train: forward, loss, backward, clipping and AdamW on made-up data.
//
//   build/benchmarks/train_step --model char-gpt --threads 2 --steps 50 --json
//   build/benchmarks/train_step --model gpt2-124m --device cuda --dtype bf16
//
// Prints the median and the best time of a step, and what part it reaches of the limit: the rate of a large matrix product,
// measured in the same run. Only matrix products, convolutions and attention count as work.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "distributed/profiler/limits.h"
#include "kernels/base/parallel.h"
#include "nn/nn.h"
#include "optim/optim.h"
#include "tensor/device.h"
#include "tensor/factory.h"
#include "tensor/json.h"

namespace weft {
namespace {

struct Options {
  std::string model = "char-gpt";
  int threads = 0;
  int64_t steps = 20;
  int64_t batch = 0;
  std::string device = "cpu";
  std::string dtype = "f32";
  bool json = false;
};

// Where the model and its data live, and of what type they are.
struct Place {
  Device device;
  DType dtype = DType::f32;
};

// A model with the data it is fed.
struct Workload {
  std::string unit;   // what `items` counts
  int64_t items = 0;  // a step
  double flops = 0;   // a step
  std::shared_ptr<nn::ModuleBase> model;
  std::function<Tensor()> loss;
};

Workload gpt(const nn::models::GPT2Config& config, int64_t batch, const Place& place) {
  const auto model = std::make_shared<nn::models::GPT2>(config);
  model->to(place.dtype);
  model->to(place.device);
  const int64_t tokens = batch * config.n_positions;
  const Tensor text = randint(0, config.vocab_size, {batch, config.n_positions + 1}).to(place.device);
  const Tensor input = text.narrow(1, 0, config.n_positions).contiguous();
  const Tensor target = text.narrow(1, 1, config.n_positions).contiguous().flatten();
  return {.unit = "tokens",
          .items = tokens,
          .flops = transformer_step_flops(config.n_layer, config.n_embd, 4 * config.n_embd, config.vocab_size,
                                          config.n_positions, tokens),
          .model = model,
          .loss = [=] { return nn::cross_entropy((*model)(input).flatten(0, 1), target); }};
}

struct Cnn : nn::Module<Cnn> {
  nn::Conv2d conv1{this, "conv1", {.in = 1, .out = 32, .kernel = {3, 3}}};
  nn::Conv2d conv2{this, "conv2", {.in = 32, .out = 64, .kernel = {3, 3}}};
  nn::Linear fc1{this, "fc1", {.in = 64 * 12 * 12, .out = 128}};
  nn::Linear fc2{this, "fc2", {.in = 128, .out = 10}};
  Tensor forward(const Tensor& x) {                // [N, 1, 28, 28]
    const Tensor h = relu(conv2(relu(conv1(x))));  // [N, 64, 24, 24]
    return fc2(relu(fc1(max_pool2d(h).flatten(1))));
  }
};

Workload cnn(int64_t batch, const Place& place) {
  const auto model = std::make_shared<Cnn>();
  model->to(place.dtype);
  model->to(place.device);
  const Tensor images = randn({batch, 1, 28, 28}).to(place.dtype).to(place.device);
  const Tensor labels = randint(0, 10, {batch}).to(place.device);
  // Multiplications an image; the images want no gradient, so the first convolution has one product less.
  const double first = 26 * 26 * 32 * 9, rest = 24 * 24 * 64 * 32 * 9 + 9216 * 128 + 128 * 10;
  return {.unit = "images",
          .items = batch,
          .flops = static_cast<double>(batch) * (4 * first + 6 * rest),
          .model = model,
          .loss = [=] { return nn::cross_entropy((*model)(images), labels); }};
}

struct Model {
  const char* name;
  int64_t batch;
  std::function<Workload(int64_t batch, const Place& place)> make;
};

const std::vector<Model>& models() {
  const auto gpt_of = [](nn::models::GPT2Config config) {
    return [config](int64_t batch, const Place& place) { return gpt(config, batch, place); };
  };
  static const std::vector<Model> list = {
      {"char-gpt", 16, gpt_of({.vocab_size = 100, .n_positions = 128, .n_embd = 128, .n_layer = 4, .n_head = 4})},
      {"gpt-10m", 8, gpt_of({.vocab_size = 100, .n_positions = 256, .n_embd = 384, .n_layer = 6, .n_head = 6})},
      {"gpt2-124m", 4, gpt_of({.n_positions = 64})},
      {"cnn", 64, cnn},
  };
  return list;
}

struct Result {
  double median = 0, best = 0;  // seconds a step
  double cpu = 0;               // seconds a step of all threads together
  double limit = 0;             // flop/s
};

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Result measure(const Workload& work, const Place& place, const Options& options) {
  optim::AdamW adam(work.model->named_parameters());
  const std::vector<Tensor> parameters = work.model->parameters();
  const int64_t steps = options.steps;
  const auto step = [&] {
    work.loss().backward();
    optim::clip_grad_norm_(parameters, 1.0);
    adam.step();
    adam.zero_grad();
    synchronize(place.device);
  };
  Result result;
  result.limit = gemm_limit_flops(place.device, place.dtype);
  for (int i = 0; i < 3; ++i) step();
  std::vector<double> times;
  const double cpu = cpu_seconds();
  for (int64_t i = 0; i < steps; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    step();
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  result.cpu = (cpu_seconds() - cpu) / static_cast<double>(steps);
  result.limit = std::max(result.limit, gemm_limit_flops(place.device, place.dtype));
  result.best = *std::min_element(times.begin(), times.end());
  const auto middle = times.begin() + steps / 2;
  std::nth_element(times.begin(), middle, times.end());
  result.median = *middle;
  return result;
}

void print(const Options& options, int64_t batch, const Workload& work, const Result& result) {
  int64_t parameters = 0;
  for (const Tensor& p : work.model->parameters()) parameters += p.numel();
  const double rate = work.flops / result.median;
  const double items = static_cast<double>(work.items) / result.median;
  if (options.json) {
    const Tree row = Tree::map({{"benchmark", "train_step"},
                                {"model", options.model},
                                {"parameters", parameters},
                                {"threads", int64_t{num_threads()}},
                                {"device", options.device},
                                {"dtype", options.dtype},
                                {"batch", batch},
                                {"steps", options.steps},
                                {"median_ms", result.median * 1e3},
                                {"best_ms", result.best * 1e3},
                                {"cpu_ms", result.cpu * 1e3},
                                {work.unit + "_per_s", items},
                                {"gflop_per_s", rate / 1e9},
                                {"limit_gflop_per_s", result.limit / 1e9},
                                {"share_of_limit", rate / result.limit}});
    fmt::print("{}\n", to_json(row, 2));
    return;
  }
  fmt::print("{}: {} parameters, batch {}, {} {}, {} threads, {} steps\n", options.model, parameters, batch,
             options.device, options.dtype, num_threads(), options.steps);
  fmt::print("{:>10} {:>10} {:>10} {:>12} {:>9} {:>14} {:>6}\n", "median ms", "best ms", "CPU ms", work.unit + "/s",
             "GFLOP/s", "limit GFLOP/s", "share");
  fmt::print("{:>10.2f} {:>10.2f} {:>10.2f} {:>12.0f} {:>9.1f} {:>14.1f} {:>5.0f}%\n", result.median * 1e3,
             result.best * 1e3, result.cpu * 1e3, items, rate / 1e9, result.limit / 1e9, 100 * rate / result.limit);
}

int run(int argc, char** argv) {
  Options options;
  std::vector<std::string> names;
  for (const Model& model : models()) names.push_back(model.name);
  CLI::App app("The time of a training step on made-up data, beside the limit of this machine");
  app.add_option("--model", options.model, "which model")->check(CLI::IsMember(names))->capture_default_str();
  app.add_option("--threads", options.threads, "threads that compute (default: all cores)")->check(CLI::Range(1, 1024));
  app.add_option("--steps", options.steps, "steps to measure, after three to warm up")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--batch", options.batch, "samples a step (default: the model's)")->check(CLI::Range(1, 1 << 20));
  app.add_option("--device", options.device, "cpu, cuda, cuda:N or simt")->capture_default_str();
  app.add_option("--dtype", options.dtype, "of model and data; bf16 and f16 on devices only")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}))
      ->capture_default_str();
  app.add_flag("--json", options.json, "print JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "train_step: {}; see --help\n", error.what());
    return 2;
  }
  if (options.threads > 0) set_num_threads(options.threads);
  const auto model =
      std::find_if(models().begin(), models().end(), [&](const Model& m) { return m.name == options.model; });
  const int64_t batch = options.batch > 0 ? options.batch : model->batch;
  const Place place = {device_named(options.device, "train_step"), options.dtype == "bf16"  ? DType::bf16
                                                                   : options.dtype == "f16" ? DType::f16
                                                                                            : DType::f32};
  const Workload work = model->make(batch, place);
  print(options, batch, work, measure(work, place, options));
  return 0;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  try {
    return weft::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "train_step: {}\n", error.what());
    return 1;
  }
}
