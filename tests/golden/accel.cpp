// Cases of accel_*: Accelerator on ranks that are threads; each case is a run of its own.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "distributed/accelerator/accelerator.h"
#include "kernels/base/log.h"
#include "nn/nn.h"
#include "optim/optim.h"
#include "tests/golden/groups.h"
#include "tests/support/child_process.h"

namespace weft::testing {
namespace {

// --- trees of the JSON ------------------------------------------------------------------------------------------

// Tensors in place of their description, lists in place of tuples.
Tree from_golden(const Tree& value) {
  if (is_golden_tensor(value)) return golden_tensor(value);
  if (value.is_map()) {
    if (value.size() == 1 && value.contains("tuple")) return from_golden(value["tuple"]);
    Tree result = Tree::map();
    for (const auto& [key, child] : value.as_map()) result[key] = from_golden(child);
    return result;
  }
  if (!value.is_list()) return value;
  Tree result = Tree::list();
  for (const Tree& child : value.as_list()) result.push_back(from_golden(child));
  return result;
}

// What the JSON says of floats that have no tolerance of their own.
constexpr Tolerance kText = {.rtol = 1e-6, .atol = 0};

void expect_close(const Tree& got, const Tree& want, const std::string& what, Tolerance tolerance = kText) {
  if (want.is_tensor() && got.is_tensor()) return expect_close(got.as_tensor(), want.as_tensor(), tolerance, what);
  if (want.is_list() && got.is_list() && want.size() == got.size()) {
    for (int64_t i = 0; i < want.size(); ++i) expect_close(got[i], want[i], what, tolerance);
    return;
  }
  if (want.is_map() && got.is_map() && want.size() == got.size()) {
    for (const auto& [key, child] : want.as_map()) expect_close(got.at(key), child, what, tolerance);
    return;
  }
  expect_equal(got, want, what);
}

bool raises(const Tree& want) { return want.is_map() && want.contains("raises"); }

// --- ranks ------------------------------------------------------------------------------------------------------

int world_of(const Tree& c) { return static_cast<int>(c["world"].as_int()); }

// f(accelerator) on every rank of the case.
template <class F>
void on_ranks(const Tree& c, const AcceleratorOptions& options, F&& f) {
  run_ranks(world_of(c),
            [&](ProcessGroup group) {
              AcceleratorOptions mine = options;
              mine.group = group;
              Accelerator accelerator(mine);
              f(accelerator);
            },
            {.timeout = std::chrono::seconds(30)});
}

// Every rank: output == f(accelerator, input).
template <class F>
void check_ranks(const Tree& c, F&& f, Tolerance tolerance = kText) {
  on_ranks(c, {}, [&](Accelerator& accelerator) {
    const int rank = accelerator.process_index();
    const Tree& mine = c["ranks"][rank];
    const Tree input = mine.contains("input") ? from_golden(mine["input"]) : Tree();
    if (raises(mine["output"])) return expect_throws([&] { f(accelerator, input); });
    expect_close(f(accelerator, input), from_golden(mine["output"]), fmt::format("rank {}", rank), tolerance);
  });
}

// --- collectives ------------------------------------------------------------------------------------------------

void check_gather(const Tree& c) {
  check_ranks(c, [&](Accelerator& accelerator, const Tree& input) {
    if (!c.contains("note")) return accelerator.gather(input);
    const Tensor x = input.as_tensor().t().contiguous().t();
    WEFT_CHECK(!x.is_contiguous(), "golden", "the input is to be non-contiguous");
    return Tree(accelerator.gather(x));
  });
}

void check_reduce(const Tree& c) {
  const std::map<std::string, TreeReduce> reductions = {
      {"sum", TreeReduce::sum}, {"mean", TreeReduce::mean}, {"max", TreeReduce::max}, {"none", TreeReduce::none}};
  const TreeReduce reduction = reductions.at(c["reduction"].as_string());
  // The reference adds in another order than ours, that of the ranks: rounding is relative to what is added.
  double largest = 0;
  for (const Tree& rank : c["ranks"].as_list())
    from_golden(rank["input"]).for_each_tensor([&](const Tensor& x) {
      for (const double value : x.to_vector()) largest = std::max(largest, std::abs(value));
    });
  check_ranks(c,
              [&](Accelerator& accelerator, const Tree& input) {
                return accelerator.reduce(input, reduction, c["scale"].as_double());
              },
              {.rtol = kText.rtol, .atol = kText.rtol * largest});
}

void check_broadcast(const Tree& c) {
  check_ranks(c, [&](Accelerator& accelerator, const Tree& input) {
    return accelerator.broadcast(input, static_cast<int>(c["from_process"].as_int()));
  });
}

void check_broadcast_object_list(const Tree& c) {
  check_ranks(c, [&](Accelerator& accelerator, Tree input) {
    accelerator.broadcast_object_list(input, static_cast<int>(c["from_process"].as_int()));
    return input;
  });
}

void check_gather_object(const Tree& c) {
  check_ranks(c, [](Accelerator& accelerator, const Tree& input) { return accelerator.gather_object(input); });
}

void check_pad_across_processes(const Tree& c) {
  check_ranks(c, [&](Accelerator& accelerator, const Tree& input) {
    return accelerator.pad_across_processes(input, c["dim"].as_int(), c["pad_index"].as_double(),
                                            c["pad_first"].as_bool());
  });
}

void check_split_between_processes(const Tree& c) {
  on_ranks(c, {}, [&](Accelerator& accelerator) {
    const Tree& want = c["ranks"][accelerator.process_index()];
    const auto part = [&] {
      return accelerator.split_between_processes(from_golden(c["input"]), c["apply_padding"].as_bool());
    };
    if (raises(want)) return expect_throws(part);
    expect_close(part(), from_golden(want), fmt::format("rank {}", accelerator.process_index()));
  });
}

void check_trigger(const Tree& c) {
  check_ranks(c, [&](Accelerator& accelerator, const Tree&) {
    for (const Tree& rank : c["set_on"].as_list())
      if (rank.as_int() == accelerator.process_index()) accelerator.set_trigger();
    const bool first = accelerator.check_trigger();
    return Tree::list({first, accelerator.check_trigger()});
  });
}

// --- datasets: item i is the integer i ---------------------------------------------------------------------------

struct Items : data::Dataset {
  explicit Items(int64_t size) : count(size) {}
  int64_t size() const override { return count; }
  data::Sample get(int64_t index) const override { return data::Sample(Tree(index)); }
  int64_t count;
};

struct ItemStream : data::IterableDataset {
  ItemStream(int64_t size, bool sized_) : count(size), sized(sized_) {}
  struct Stream : data::SampleStream {
    explicit Stream(int64_t size) : count(size) {}
    bool next(data::Sample& sample) override {
      if (at == count) return false;
      sample = data::Sample(Tree(at++));
      return true;
    }
    int64_t at = 0, count;
  };
  std::unique_ptr<data::SampleStream> iterate(int64_t) const override { return std::make_unique<Stream>(count); }
  std::optional<int64_t> size() const override { return sized ? std::optional(count) : std::nullopt; }
  int64_t count;
  bool sized;
};

Tree list_of(const Tensor& ids) {
  Tree list = Tree::list();
  for (const double id : ids.to_vector()) list.push_back(static_cast<int64_t>(id));
  return list;
}

// --- loops ------------------------------------------------------------------------------------------------------

// One weight; its gradient tells whether backward reduced it.
struct Scale : nn::Module<Scale> {
  Scale() { register_parameter("weight", weight, ones({1})); }
  Tensor forward(const Tensor& x) { return weight * x; }
  Tensor weight;
};

data::DataLoader loader_of(int64_t batches, int world) {
  return data::DataLoader(std::make_shared<Items>(batches * world), {.batch_size = 1});
}

void check_accumulate(const Tree& c) {
  const int64_t num_steps = c["num_steps"].as_int();
  const bool details = c.contains("sync_with_dataloader");
  GradientAccumulationPlugin plugin{.num_steps = num_steps};
  if (details) {
    plugin.sync_with_dataloader = c["sync_with_dataloader"].as_bool();
    plugin.sync_each_batch = c["sync_each_batch"].as_bool();
  }
  on_ranks(c, {.gradient_accumulation_plugin = plugin}, [&](Accelerator& accelerator) {
    Scale net;
    accelerator.prepare(net);
    // Whether backward inside the guard left the mean of all ranks' gradients rather than this rank's own.
    const auto backward_syncs = [&] {
      const Tensor own = full({1}, accelerator.process_index());
      net.zero_grad();
      net(own).backward();
      const double mean = (accelerator.num_processes() - 1) / 2.0;
      const bool reduced = net.weight.grad().item() == mean;
      net.zero_grad();
      return accelerator.num_processes() == 1 || reduced;
    };
    const auto step = [&](Tree& got, const data::DataLoader* loader) {
      auto guard = accelerator.accumulate(net);
      got["sync_gradients"].push_back(accelerator.sync_gradients());
      got["backward_syncs"].push_back(backward_syncs());
      got["step"].push_back(accelerator.step());
      if (loader) got["end_of_dataloader"].push_back(loader->end_of_dataloader());
    };
    std::vector<Tree> epochs(static_cast<size_t>(c["epochs"].size()));
    if (c["loader_length"].is_null()) {
      for (int i = 0; i < 7; ++i) step(epochs[0], nullptr);
    } else {
      const int world = accelerator.num_processes();
      data::DataLoader plain = loader_of(c["loader_length"].as_int(), world);
      auto [loader] = accelerator.prepare(plain);
      std::optional<data::DataLoader> nested;
      Tree nested_ends = Tree::list();
      if (c.contains("nested_eval_length"))
        nested = accelerator.prepare_data_loader(loader_of(c["nested_eval_length"].as_int(), world));
      const int64_t stop = details ? c["break_first_epoch_after"].as_int() : 0;
      for (size_t epoch = 0; epoch < epochs.size(); ++epoch) {
        int64_t done = 0;
        for ([[maybe_unused]] auto& batch : loader) {
          step(epochs[epoch], &loader);
          if (nested) {
            Tree ends = Tree::list();
            for ([[maybe_unused]] auto& inner : *nested) ends.push_back(nested->end_of_dataloader());
            nested_ends.push_back(ends);
          }
          if (epoch == 0 && ++done == stop) break;
        }
      }
      if (nested) expect_equal(nested_ends, c["nested_end_of_dataloader"], "nested_end_of_dataloader");
    }
    for (int64_t epoch = 0; epoch < c["epochs"].size(); ++epoch)
      for (const auto& [key, want] : c["epochs"][epoch].as_map())
        expect_equal(epochs[static_cast<size_t>(epoch)].at(key), want, fmt::format("epoch {} {}", epoch, key));
  });
}

void check_scheduler(const Tree& c) {
  const std::string& kind = c["scheduler"].as_string();
  if (kind == "onecycle") throw Skip{"the one-cycle schedule"};
  AcceleratorOptions options;
  options.split_batches = c["split_batches"].as_bool();
  options.step_scheduler_with_optimizer = c["step_scheduler_with_optimizer"].as_bool();
  options.gradient_accumulation_plugin = GradientAccumulationPlugin{
      .num_steps = c["num_steps"].as_int(), .adjust_scheduler = c["adjust_scheduler"].as_bool()};
  on_ranks(c, options, [&](Accelerator& accelerator) {
    Scale net;
    optim::SGD sgd(net.parameters(), {.lr = 0.5});
    optim::LambdaLR schedule(sgd, [&](int64_t n) {
      return kind == "lambda" ? 1 / (1.0 + static_cast<double>(n)) : std::pow(0.5, static_cast<double>(n / 2));
    });
    const int64_t batches = c["loader_length"].as_int();
    const int world = accelerator.num_processes();
    data::DataLoader plain(std::make_shared<Items>(batches * world), {.batch_size = options.split_batches ? world : 1});
    auto [model, optimizer, scheduler, loader] = accelerator.prepare(net, sgd, schedule, plain);
    int64_t at = 0;
    for ([[maybe_unused]] auto& batch : loader) {
      auto guard = accelerator.accumulate(model);
      accelerator.backward(model(ones({1})));
      optimizer.step();
      scheduler.step();
      optimizer.zero_grad();
      expect_close(scheduler.last_lr().at(0), c["last_lr"][at].as_double(), kText, fmt::format("last_lr {}", at));
      expect_equal(scheduler.last_epoch(), c["last_epoch"][at], fmt::format("last_epoch {}", at));
      ++at;
    }
    expect_equal(at, batches, "batches");
  });
}

data::DataLoader metrics_loader(const Tree& c) {
  const data::DataLoaderOptions options = {.batch_size = c["batch_size"].as_int(),
                                           .drop_last = c.contains("drop_last") && c["drop_last"].as_bool()};
  const int64_t n = c["n"].as_int();
  const std::string mode = c.contains("mode") ? c["mode"].as_string() : "shard";
  if (mode == "dispatch") throw Skip{"dispatched loaders"};
  if (mode == "shard") return data::DataLoader(std::make_shared<Items>(n), options);
  return data::DataLoader(std::make_shared<ItemStream>(n, mode == "sized_iterable_shard"), options);
}

void check_gather_for_metrics(const Tree& c) {
  AcceleratorOptions options;
  if (c.contains("split_batches")) {
    options.split_batches = c["split_batches"].as_bool();
    options.dataloader_config.even_batches = c["even_batches"].as_bool();
  }
  metrics_loader(c);
  on_ranks(c, options, [&](Accelerator& accelerator) {
    data::DataLoader plain = metrics_loader(c);
    auto [loader] = accelerator.prepare(plain);
    Tree steps = Tree::list(), objects = Tree::list(), trees = Tree::list(), tensors_as_objects = Tree::list();
    for (auto& batch : loader) {
      const Tensor ids = batch.as_tensor();
      if (c.contains("tree_steps")) {
        const Tensor column = (ids * 2).to(f32).reshape({-1, 1});
        trees.push_back(accelerator.gather_for_metrics(
            Tree::map({{"x", ids}, {"y", Tree::list({column, Tree::list({ids + 1})})}})));
        tensors_as_objects.push_back(accelerator.gather_for_metrics(ids, true));
        continue;
      }
      Tree names = Tree::list(), wanted = Tree::list();
      for (double id : ids.to_vector()) names.push_back(fmt::format("i{}", id));
      const Tree all = list_of(accelerator.gather_for_metrics(ids));
      steps.push_back(all);
      for (const Tree& id : all.as_list()) wanted.push_back(fmt::format("i{}", id.as_int()));
      if (c["objects_agree"].as_bool()) expect_equal(accelerator.gather_for_metrics(names), wanted, "objects");
    }
    if (c.contains("steps")) return expect_equal(steps, c["steps"], "steps");
    expect_close(trees, from_golden(c["tree_steps"]), "trees");
    expect_close(tensors_as_objects, from_golden(c["use_gather_object_steps"]), "use_gather_object");
  });
}

// --- training ---------------------------------------------------------------------------------------------------

// Linear layers with tanh between them, under the names that torch's Sequential gives.
struct Layers : nn::Module<Layers> {
  nn::Linear first{this, "0", {.in = 6, .out = 16}};
  nn::Linear second{this, "2", {.in = 16, .out = 8}};
  nn::Linear third{this, "4", {.in = 8, .out = 3}};
  Tensor forward(const Tensor& x) { return third(tanh(second(tanh(first(x))))); }
};

StateDict named(const GoldenFile& file, const Tree& names) {
  StateDict state;
  for (const auto& [name, tensor] : names.as_map()) state[name] = file.tensor(tensor.as_string());
  return state;
}

void check_ddp_training(const GoldenFile& file, const Tree& c) {
  const Tree& params = c["params"];
  AcceleratorOptions options;
  options.gradient_accumulation_steps = params["gradient_accumulation_steps"].as_int();
  const Tolerance tolerance = tolerance_of(c);
  on_ranks(params, options, [&](Accelerator& accelerator) {
    const int rank = accelerator.process_index();
    Layers net;
    if (accelerator.is_main_process()) net.load_state_dict(named(file, c["initial"]));  // DDP brings it to the others
    std::unique_ptr<optim::Optimizer> made;
    const Tree& o = params["optimizer_params"];
    if (params["optimizer"].as_string() == "sgd")
      made = std::make_unique<optim::SGD>(
          net.parameters(), optim::SgdOptions{.lr = o["lr"].as_double(), .momentum = o["momentum"].as_double()});
    else
      made = std::make_unique<optim::AdamW>(
          net.parameters(),
          optim::AdamWOptions{.lr = o["lr"].as_double(), .weight_decay = o["weight_decay"].as_double()});
    const Tensor x = file.tensor(c["x"].as_string())[rank], y = file.tensor(c["y"].as_string())[rank];
    data::DataLoader plain = loader_of(x.size(0), accelerator.num_processes());
    auto [model, optimizer, loader] = accelerator.prepare(net, *made, plain);
    Tree syncs = Tree::list();
    int64_t at = 0, clips = 0;
    for ([[maybe_unused]] auto& batch : loader) {
      auto guard = accelerator.accumulate(model);
      const Tensor loss = mse_loss(model(x[at]), y[at]);
      expect_close(loss.item(), c["loss_per_rank"][rank][at].as_double(), tolerance, fmt::format("loss {}", at));
      accelerator.backward(loss);
      syncs.push_back(accelerator.sync_gradients());
      if (!params["clip_grad_norm"].is_null() && accelerator.sync_gradients())
        expect_close(accelerator.clip_grad_norm_(model.parameters(), params["clip_grad_norm"].as_double()),
                     c["clip_norms"][clips++].as_double(), tolerance, fmt::format("norm {}", clips));
      optimizer.step();
      optimizer.zero_grad();
      ++at;
    }
    expect_equal(syncs, c["sync_gradients"], "sync_gradients");
    expect_equal(clips, c["clip_norms"].size(), "clips");
    for (const auto& [name, want] : named(file, c["final"]))
      expect_close(net.state_dict().at(name), want, tolerance, name);
  });
}

void check_distributed_grads(const GoldenFile& file, const Tree& c) {
  const std::string& op = c["op"].as_string();
  if (op != "no_sync") throw Skip{op};
  const Tolerance tolerance = tolerance_of(c);
  on_ranks(c["params"], {}, [&](Accelerator& accelerator) {
    const int rank = accelerator.process_index();
    Layers net;
    net.load_state_dict(named(file, c["initial"]));
    accelerator.prepare(net);
    const Tensor x = file.tensor(c["x"].as_string())[rank], y = file.tensor(c["y"].as_string())[rank];
    const auto loss = [&](int64_t step) { return mse_loss(net(x[step]), y[step]); };
    const auto check = [&](const char* when) {
      for (const auto& [name, want] : named(file, c["grads_per_rank"][rank][when]))
        for (const auto& [own, parameter] : net.named_parameters())
          if (own == name) expect_close(parameter.grad(), want, tolerance, fmt::format("{} {}", when, name));
    };
    {
      auto guard = accelerator.no_sync(net);
      accelerator.backward(loss(0));
    }
    check("no_sync");
    accelerator.backward(loss(1));
    check("then_sync");
    net.zero_grad();
    Tensor a, b;
    {
      auto guard = accelerator.no_sync(net);
      a = loss(0);
      b = loss(1);
    }
    accelerator.backward(a);
    check("trigger_local");
    {
      auto guard = accelerator.trigger_sync_in_backward(net);
      accelerator.backward(b);
    }
    check("trigger_sync");
  });
}

// --- checkpoints ------------------------------------------------------------------------------------------------

struct Counter {
  int64_t value = 7;
  Tree state_dict() const { return Tree::map({{"value", value}}); }
  void load_state_dict(const Tree& state) { value = state["value"].as_int(); }
};

Tree folders_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  Tree list = Tree::list();
  for (const std::string& name : names) list.push_back(name);
  return list;
}

void check_checkpoint_layout(const Tree& c) {
  const std::string& call = c["call"].as_string();
  if (call == "save_model" && c["files"].size() > 1) throw Skip{"sharded save_model"};
  const test::TemporaryFolder folder;
  AcceleratorOptions options;
  if (call == "automatic_checkpoint_naming") {
    options.project_config.project_dir = folder.path();
    options.project_config.automatic_checkpoint_naming = true;
    if (!c["total_limit"].is_null()) options.project_config.total_limit = c["total_limit"].as_int();
  }
  on_ranks(c, options, [&](Accelerator& accelerator) {
    const int64_t models = c.contains("models") ? c["models"].as_int() : 1;
    std::vector<std::unique_ptr<Scale>> nets;
    std::vector<std::unique_ptr<optim::SGD>> optimizers;
    std::vector<std::unique_ptr<optim::LambdaLR>> schedules;
    Counter counter;
    for (int64_t i = 0; i < models; ++i) {
      nets.push_back(std::make_unique<Scale>());
      optimizers.push_back(std::make_unique<optim::SGD>(nets.back()->parameters()));
      accelerator.prepare(*nets.back(), *optimizers.back());
      if (c.contains("schedulers_per_model") && c["schedulers_per_model"].as_int() == 1) {
        schedules.push_back(std::make_unique<optim::LambdaLR>(*optimizers.back(), [](int64_t) { return 1.0; }));
        accelerator.prepare(*schedules.back());
      }
    }
    accelerator.register_for_checkpointing(counter);
    if (call == "automatic_checkpoint_naming") {
      for (const Tree& want : c["folders_after_each_save"].as_list()) {
        accelerator.save_state();
        expect_equal(folders_in(folder.path() / "checkpoints"), want, "folders");
        accelerator.wait_for_everyone();
      }
      return expect_equal(accelerator.save_iteration(), c["final_iteration"], "final_iteration");
    }
    const std::filesystem::path target = folder.path() / "saved";
    if (call == "save_state") {
      accelerator.save_state(target);
      accelerator.load_state(target);
    } else {
      accelerator.save_model(*nets[0], target);
    }
    for (const Tree& file : c["files"].as_list())
      WEFT_CHECK(std::filesystem::exists(target / file.as_string()), "golden", "{} is missing", file.as_string());
  });
}

}  // namespace

void run_accel(const GoldenFile& file, Report& report) {
  using Check = std::function<void(const Tree& c)>;
  const std::map<std::string, Check> checks = {
      {"accel_accumulate", check_accumulate},
      {"accel_broadcast", check_broadcast},
      {"accel_broadcast_object_list", check_broadcast_object_list},
      {"accel_checkpoint_layout", check_checkpoint_layout},
      {"accel_ddp_training", [&](const Tree& c) { check_ddp_training(file, c); }},
      {"accel_distributed_grads", [&](const Tree& c) { check_distributed_grads(file, c); }},
      {"accel_gather", check_gather},
      {"accel_gather_for_metrics", check_gather_for_metrics},
      {"accel_gather_object", check_gather_object},
      {"accel_pad_across_processes", check_pad_across_processes},
      {"accel_reduce", check_reduce},
      {"accel_scheduler", check_scheduler},
      {"accel_split_between_processes", check_split_between_processes},
      {"accel_trigger", check_trigger},
  };
  const auto check = checks.find(file.name);
  set_warning_sink([](std::string_view) {});  // that scale does nothing
  for_each_case(file, [&](const std::string&, const Tree& c) {
    report.run(case_name(file, c), c, [&] {
      if (check == checks.end()) throw Skip{file.name};
      check->second(c);
    });
  });
  set_warning_sink({});
}

}  // namespace weft::testing
