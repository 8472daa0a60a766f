// Accelerator::save_state, load_state and save_model.
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <mutex>

#include "kernels/base/log.h"
#include "tests/support/child_process.h"
#include "tests/support/spawn_ranks.h"
#include "weft/weft.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using test::TemporaryFolder;

template <class F>
void on_ranks(int size, const AcceleratorOptions& options, F&& f) {
  run_ranks(size,
            [&](ProcessGroup group) {
              AcceleratorOptions mine = options;
              mine.group = group;
              Accelerator accelerator(mine);
              f(accelerator);
            },
            {.timeout = 20s});
}

AcceleratorOptions automatic(const fs::path& folder, std::optional<int64_t> limit = {}, int64_t iteration = 0) {
  AcceleratorOptions options;
  options.project_dir = folder;
  options.project_config.automatic_checkpoint_naming = true;
  options.project_config.total_limit = limit;
  options.project_config.iteration = iteration;
  return options;
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void expect_error(const std::function<void()>& f, std::initializer_list<std::string> parts) {
  const std::string error = error_of(f);
  for (const std::string& part : parts)
    EXPECT_NE(error.find(part), std::string::npos) << "\"" << error << "\" lacks " << part;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// The warnings while it lives.
class Warnings {
 public:
  Warnings() {
    set_warning_sink([this](std::string_view text) {
      std::lock_guard lock(mutex_);
      lines_.emplace_back(text);
    });
  }
  ~Warnings() { set_warning_sink({}); }
  std::vector<std::string> lines() {
    std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

struct Net : nn::Module<Net> {
  nn::Linear fc1{this, "fc1", {.in = 8, .out = 16}};
  nn::Dropout dropout{this, "dropout", {.p = 0.2}};
  nn::Linear fc2{this, "fc2", {.in = 16, .out = 4}};
  Tensor forward(const Tensor& x) { return fc2(dropout(tanh(fc1(x)))); }
};

struct Weight : nn::Module<Weight> {
  explicit Weight(double value = 1) { register_parameter("w", w, full({1}, value)); }
  Tensor forward(const Tensor& x) { return sum(w * x); }
  Tensor w;
};

// An object of the user's.
struct Counter {
  int64_t steps = 0;
  Tree state_dict() const { return Tree::map({{"steps", steps}}); }
  void load_state_dict(const Tree& state) { steps = state["steps"].as_int(); }
};

data::TensorDataset random_data() {
  Generator generator(7);
  return data::TensorDataset(
      {{"input", randn({72, 8}, {}, &generator)}, {"target", randint(0, 4, {72}, i64, &generator)}});
}

// --- a run that was stopped ---------------------------------------------------------------------------------------

// A training of which every part is saved. Losses are those of this rank.
struct Training {
  Accelerator accelerator;
  Net net;
  Counter counter;
  optim::AdamW adam{net.parameters(), {.lr = 1e-2}};
  optim::LambdaLR schedule = optim::warmup_cosine(adam, {.warmup_steps = 5, .total_steps = 40});
  data::DataLoader plain{random_data(), {.batch_size = 4, .shuffle = true, .seed = 11}};
  data::DataLoader loader{plain};
  std::vector<double> losses;

  Training(const ProcessGroup& group, uint64_t seed)
      : accelerator({.gradient_accumulation_steps = 3, .group = (manual_seed(seed), group)}) {
    auto [model, optimizer, prepared, scheduler] = accelerator.prepare(net, adam, plain, schedule);
    loader = prepared;
    accelerator.register_for_checkpointing(counter);
  }

  // Goes on for so many batches; calls after_batch inside the loop with the number of those done.
  void run(
      int64_t batches, const std::function<void(int64_t)>& after_batch = [](int64_t) {}) {
    auto optimizer = accelerator.prepare_optimizer(adam);
    auto scheduler = accelerator.prepare_scheduler(schedule);
    for (int64_t done = 0; done < batches;) {
      for (auto& batch : loader) {
        auto step = accelerator.accumulate(net);
        const Tensor noise = randn({1});  // of the rank's own generator
        const Tensor loss = cross_entropy(net(batch["input"]), batch["target"]) * (1 + 0.01 * noise.item());
        accelerator.backward(loss);
        optimizer.step();
        scheduler.step();
        optimizer.zero_grad();
        losses.push_back(loss.item());
        ++counter.steps;
        after_batch(++done);
        if (done == batches) break;
      }
    }
  }
};

TEST(AcceleratorState, ResumesBitForBit) {
  constexpr int64_t kAfter = 20;
  for (const int size : {1, 2, 3}) {
    for (const int64_t before : {3, 6, 72 / 4 / size}) {  // in an epoch, and at its end; gradients are no state
      const TemporaryFolder folder;
      run_ranks(size,
                [&](ProcessGroup group) {
                  Training whole(group, 100 + static_cast<uint64_t>(group.rank()));
                  whole.run(before + kAfter, [&](int64_t done) {
                    if (done == before) whole.accelerator.save_state(folder / "state");
                  });
                  Training never_saved(group, 100 + static_cast<uint64_t>(group.rank()));
                  never_saved.run(before + kAfter);
                  EXPECT_EQ(never_saved.losses, whole.losses);

                  Training resumed(group,
                                   200 + static_cast<uint64_t>(group.rank()));  // other weights and random states
                  resumed.run(2);
                  resumed.net.zero_grad();
                  resumed.losses.clear();
                  resumed.accelerator.load_state(folder / "state");
                  EXPECT_EQ(resumed.counter.steps, before);
                  resumed.run(kAfter);
                  EXPECT_EQ(resumed.losses, std::vector<double>(whole.losses.begin() + before, whole.losses.end()))
                      << size << " ranks, after " << before;
                  EXPECT_EQ(resumed.counter.steps, whole.counter.steps);
                  EXPECT_EQ(resumed.schedule.last_epoch(), whole.schedule.last_epoch());
                  EXPECT_EQ(resumed.adam.state_dict(), whole.adam.state_dict());
                  for (const auto& [name, tensor] : whole.net.state_dict())
                    EXPECT_EQ(resumed.net.state_dict().at(name).to_vector(), tensor.to_vector()) << name;
                },
                {.timeout = 20s});
    }
  }
}

TEST(AcceleratorState, TheFilesOfAFolder) {
  const TemporaryFolder folder;
  run_ranks(2, [&](ProcessGroup group) {
    Training training(group, 1);
    EXPECT_EQ(training.accelerator.save_state(folder / "deep/state"), folder / "deep/state");
  });
  EXPECT_EQ(
      names_in(folder / "deep/state"),
      (std::vector<std::string>{"accelerator.safetensors", "custom_checkpoint_0.safetensors", "dataloader.safetensors",
                                "model.safetensors", "optimizer.safetensors", "random_states_0.safetensors",
                                "random_states_1.safetensors", "scheduler.safetensors"}));
  EXPECT_EQ(names_in(folder / "deep"), std::vector<std::string>{"state"});  // nothing temporary is left
  EXPECT_EQ(load_safetensors(folder / "deep/state/model.safetensors").tensors.size(), 4);
}

// --- names and limits ---------------------------------------------------------------------------------------------

TEST(Cases, C64_AStaleHigherNumberDoesNotTakeTheNewOnesPlace) {
  for (const int size : {1, 2}) {
    const TemporaryFolder folder;
    fs::create_directories(folder / "checkpoints/checkpoint_1000");
    on_ranks(size, automatic(folder.path(), 1, 10), [&](Accelerator& accelerator) {
      Weight net;
      accelerator.prepare(net);
      accelerator.save_state();
      EXPECT_EQ(names_in(folder / "checkpoints"), std::vector<std::string>{"checkpoint_10"});
      EXPECT_EQ(accelerator.save_iteration(), 11);
    });
  }
}

TEST(Cases, C65_ALimitOfOneKeepsTheNewest) {
  const TemporaryFolder folder;
  on_ranks(2, automatic(folder.path(), 1), [&](Accelerator& accelerator) {
    Weight net;
    accelerator.prepare(net);
    for (int i = 0; i < 3; ++i) {
      net.w.detach().fill_(i);
      accelerator.save_state();
    }
    EXPECT_EQ(names_in(folder / "checkpoints"), std::vector<std::string>{"checkpoint_2"});
    net.w.detach().fill_(-1);
    accelerator.load_state();
    EXPECT_EQ(net.w.item(), 2);
  });
}

TEST(AcceleratorState, NumbersAreOrderedAsNumbers) {
  const TemporaryFolder folder;
  on_ranks(1, automatic(folder.path(), 2, 8), [&](Accelerator& accelerator) {
    Weight net;
    accelerator.prepare(net);
    for (int i = 8; i < 11; ++i) {
      net.w.detach().fill_(i);
      accelerator.save_state();
    }
    EXPECT_EQ(names_in(folder / "checkpoints"), (std::vector<std::string>{"checkpoint_10", "checkpoint_9"}));
    accelerator.load_state();
    EXPECT_EQ(net.w.item(), 10);
    EXPECT_EQ(accelerator.save_iteration(), 11);
  });
}

TEST(AcceleratorState, AnUsedNumberIsAnError) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "checkpoints/checkpoint_0");
  on_ranks(2, automatic(folder.path()), [&](Accelerator& accelerator) {
    expect_error([&] { accelerator.save_state(); }, {"checkpoint_0", "exists", "iteration"});
  });
}

// --- tied weights -------------------------------------------------------------------------------------------------

struct Language : nn::Module<Language> {
  explicit Language(bool tie)
      : head{this, "head", {.in = 4, .out = 6, .bias = false, .weight = tie ? embed.weight : Tensor()}} {}
  nn::Embedding embed{this, "embed", {.count = 6, .dim = 4}};
  nn::Linear head;
};

TEST(Cases, C67_TiedWeights) {
  const TemporaryFolder folder;
  on_ranks(2, {}, [&](Accelerator& accelerator) {
    Language tied(true);
    tied.embed.weight.detach().fill_(3);
    accelerator.prepare(tied);
    accelerator.save_state(folder / "state");
    accelerator.save_model(tied, folder / "model");
  });
  for (const char* name : {"state", "model"}) {
    const SafetensorsFile file(folder / fmt::format("{}/model.safetensors", name));
    EXPECT_EQ(file.header().entries.size(), 1u);
    EXPECT_EQ(file.header().aliases.size(), 1);
  }
  for (const bool tie : {true, false}) {
    on_ranks(2, {}, [&](Accelerator& accelerator) {
      Language fresh(tie);
      accelerator.prepare(fresh);
      accelerator.load_state(folder / "state");
      EXPECT_EQ(fresh.embed.weight.to_vector(), std::vector<double>(24, 3));
      EXPECT_EQ(fresh.head.weight.to_vector(), std::vector<double>(24, 3));
      EXPECT_EQ(fresh.head.weight.is(fresh.embed.weight), tie);
    });
  }
}

TEST(Cases, C68_AMissingNameIsAnError) {
  const TemporaryFolder folder;
  on_ranks(2, {}, [&](Accelerator& accelerator) {
    Weight small;
    accelerator.prepare(small);
    accelerator.save_state(folder / "state");
  });
  on_ranks(2, {}, [&](Accelerator& accelerator) {
    Language other(false);
    accelerator.prepare(other);
    expect_error([&] { accelerator.load_state(folder / "state"); }, {"missing", "head.weight"});
  });
}

// --- random states ------------------------------------------------------------------------------------------------

TEST(Cases, C70_ALostRandomStateIsAWarningOfItsRank) {
  const TemporaryFolder folder;
  const fs::path damaged = folder / "state/random_states_1.safetensors";
  on_ranks(2, {}, [&](Accelerator& accelerator) {
    Weight net(5);
    accelerator.prepare(net);
    accelerator.save_state(folder / "state");
  });
  fs::resize_file(damaged, 20);
  const auto warnings_on = [&](int size) {
    Warnings warnings;
    on_ranks(size, {}, [&](Accelerator& accelerator) {
      Weight net;
      accelerator.prepare(net);
      accelerator.load_state(folder / "state");
      EXPECT_EQ(net.w.item(), 5);
    });
    std::vector<std::string> lines = warnings.lines();
    std::sort(lines.begin(), lines.end());
    return lines;
  };
  EXPECT_TRUE(warnings_on(1).empty());
  const std::vector<std::string> lines = warnings_on(3);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NE(lines[0].find("rank 1"), std::string::npos) << lines[0];
  EXPECT_NE(lines[0].find(damaged.string()), std::string::npos) << lines[0];
  EXPECT_NE(lines[1].find("rank 2"), std::string::npos) << lines[1];
  EXPECT_NE(lines[1].find("random_states_2"), std::string::npos) << lines[1];
}

// --- killed while saving ------------------------------------------------------------------------------------------

// Ends the process in the middle of a save: its state is asked for after the models were written.
struct Deadly : optim::SGD {
  using optim::SGD::SGD;
  bool armed = false;
  Tree state_dict() const override {
    if (armed) ::raise(SIGKILL);
    return optim::SGD::state_dict();
  }
};

WEFT_RANK_FUNCTION(save_and_die) {
  Accelerator accelerator(automatic(arguments.at(0)));
  Weight net(1);
  Deadly optimizer(net.parameters());
  accelerator.prepare(net, optimizer);
  accelerator.save_state();
  net.w.detach().fill_(2);
  optimizer.armed = accelerator.is_main_process();
  accelerator.save_state();
}

TEST(Cases, C71_KilledWhileSaving) {
  const TemporaryFolder folder;
  const auto results =
      testing::spawn_ranks(1, "save_and_die", {.arguments = {folder.path().string()}, .environment = {}});
  EXPECT_EQ(results.at(0).signal, SIGKILL) << results.at(0).output;
  EXPECT_EQ(names_in(folder / "checkpoints").size(), 2u);  // the first, and what is left of the second
  on_ranks(1, automatic(folder.path()), [&](Accelerator& accelerator) {
    Weight net(-1);
    optim::SGD sgd(net.parameters());
    accelerator.prepare(net, sgd);
    accelerator.load_state();
    EXPECT_EQ(net.w.item(), 1);
    EXPECT_EQ(accelerator.save_iteration(), 1);
    accelerator.save_state();
    EXPECT_TRUE(fs::exists(folder / "checkpoints/checkpoint_1/optimizer.safetensors"));
  });
}

// --- accumulation -------------------------------------------------------------------------------------------------

TEST(Cases, C73_TheStepOfAccumulationIsSaved) {
  const TemporaryFolder folder;
  on_ranks(2, {.gradient_accumulation_steps = 4}, [&](Accelerator& accelerator) {
    Weight net;
    accelerator.prepare(net);
    for (int micro = 0; micro < 2; ++micro) auto guard = accelerator.accumulate(net);
    accelerator.save_state(folder / "state");
  });
  on_ranks(2, {.gradient_accumulation_steps = 4}, [&](Accelerator& accelerator) {
    Weight net;
    accelerator.prepare(net);
    accelerator.load_state(folder / "state");
    EXPECT_EQ(accelerator.step(), 2);
    for (const bool want : {false, true, false}) {
      auto guard = accelerator.accumulate(net);
      EXPECT_EQ(accelerator.sync_gradients(), want);
    }
  });
}

// --- errors -------------------------------------------------------------------------------------------------------

TEST(AcceleratorState, ErrorsComeOnEveryRankAndChangeNothing) {
  const TemporaryFolder folder;
  on_ranks(2, {}, [&](Accelerator& accelerator) {
    Weight net(5);
    optim::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9});
    accelerator.prepare(net, sgd);
    expect_error([&] { accelerator.save_state(); }, {"name a folder", "automatic_checkpoint_naming"});
    expect_error([&] { accelerator.load_state(); }, {"name a folder"});
    expect_error([&] { accelerator.load_state(folder / "nothing"); }, {"nothing", "rank 0"});
    accelerator.save_state(folder / "state");
    accelerator.wait_for_everyone();
    net.w.detach().fill_(6);
    if (accelerator.is_main_process()) fs::resize_file(folder / "state/optimizer.safetensors", 12);
    accelerator.wait_for_everyone();
    expect_error([&] { accelerator.load_state(folder / "state"); }, {"optimizer.safetensors"});
    if (accelerator.is_main_process()) fs::remove(folder / "state/optimizer.safetensors");
    accelerator.wait_for_everyone();
    expect_error([&] { accelerator.load_state(folder / "state"); }, {"optimizer.safetensors"});
    EXPECT_EQ(net.w.item(), 6);
    if (accelerator.is_main_process()) std::ofstream(folder / "file") << "x";
    accelerator.wait_for_everyone();
    expect_error([&] { accelerator.save_state(folder / "file/state"); }, {"file"});
    // And a save over a former state takes its place.
    accelerator.save_state(folder / "state");
    accelerator.load_state(folder / "state");
    EXPECT_EQ(net.w.item(), 6);
  });
  on_ranks(2, automatic(folder.path()), [&](Accelerator& accelerator) {
    expect_error([&] { accelerator.load_state(); }, {"no checkpoint", "checkpoints"});
  });
}

// --- save_model ---------------------------------------------------------------------------------------------------

TEST(Cases, C74_SaveModelLeavesNothingOfALargerOne) {
  const TemporaryFolder folder;
  for (int i = 1; i <= 3; ++i)
    save_safetensors({{"old", ones({1})}}, folder / fmt::format("model-{:05}-of-00003.safetensors", i));
  for (const char* name : {"model.safetensors.index.json", "config.json", "model-old.safetensors"})
    std::ofstream(folder / name) << "{}";
  on_ranks(2, {}, [&](Accelerator& accelerator) {
    Weight net(4);
    accelerator.prepare(net);
    accelerator.save_model(net, folder.path());
  });
  EXPECT_EQ(names_in(folder.path()),
            (std::vector<std::string>{"config.json", "model-old.safetensors", "model.safetensors"}));
  EXPECT_EQ(load_safetensors(folder / "model.safetensors").tensors.at("w").item(), 4);
}

}  // namespace
}  // namespace weft
