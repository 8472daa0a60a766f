// Accelerator: options, the loop, collectives over trees, the process guards.
#include "distributed/accelerator/accelerator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "kernels/base/log.h"
#include "tests/support/spawn_ranks.h"
#include "weft/weft.h"

namespace weft {
namespace {

using namespace std::chrono_literals;

// f(accelerator) on `size` ranks.
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

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void expect_error(const std::function<void()>& f, std::initializer_list<const char*> parts) {
  const std::string error = error_of(f);
  for (const char* part : parts) EXPECT_NE(error.find(part), std::string::npos) << "\"" << error << "\" lacks " << part;
}

struct Net : nn::Module<Net> {
  nn::Linear fc1{this, "fc1", {.in = 8, .out = 16}};
  nn::Linear fc2{this, "fc2", {.in = 16, .out = 4}};
  Tensor forward(const Tensor& x) { return fc2(tanh(fc1(x))); }
};

// One weight, at first 1; its gradient is the sum of x.
struct Weight : nn::Module<Weight> {
  Weight() { register_parameter("w", w, ones({1})); }
  Tensor forward(const Tensor& x) { return sum(w * x); }
  Tensor w;
};

data::TensorDataset random_data(int64_t rows) {
  Generator generator(7);
  return data::TensorDataset(
      {{"input", randn({rows, 8}, {}, &generator)}, {"target", randint(0, 4, {rows}, i64, &generator)}});
}

struct Numbers : data::Dataset {
  explicit Numbers(int64_t size) : count(size) {}
  int64_t size() const override { return count; }
  data::Sample get(int64_t index) const override { return data::Sample(Tree(index)); }
  int64_t count;
};

// --- options ----------------------------------------------------------------------------------------------------

TEST(Accelerator, RefusesBadOptions) {
  expect_error([] { Accelerator({.mixed_precision = "fp64"}); }, {"fp64", "no, fp16, bf16 or fp8"});
  expect_error([] { Accelerator({.gradient_accumulation_steps = 0}); }, {"at least 1", "0"});
  expect_error(
      [] {
        Accelerator({.gradient_accumulation_steps = 2,
                     .gradient_accumulation_plugin = GradientAccumulationPlugin{.num_steps = 3}});
      },
      {"2", "3"});
  Accelerator same(
      {.gradient_accumulation_steps = 3, .gradient_accumulation_plugin = GradientAccumulationPlugin{.num_steps = 3}});
  EXPECT_EQ(same.gradient_accumulation_steps(), 3);
  expect_error([&] { same.set_gradient_accumulation_steps(0); }, {"at least 1"});
  same.set_gradient_accumulation_steps(5);
  EXPECT_EQ(same.gradient_accumulation_steps(), 5);
}

TEST(Accelerator, ReadsTheEnvironment) {
  setenv("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "4", 1);
  EXPECT_EQ(Accelerator().gradient_accumulation_steps(), 4);
  EXPECT_EQ(Accelerator({.gradient_accumulation_steps = 2}).gradient_accumulation_steps(), 2);
  setenv("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "many", 1);
  expect_error([] { Accelerator a; }, {"many"});
  unsetenv("ACCELERATE_GRADIENT_ACCUMULATION_STEPS");
  setenv("ACCELERATE_MIXED_PRECISION", "int4", 1);
  expect_error([] { Accelerator a; }, {"int4"});
  unsetenv("ACCELERATE_MIXED_PRECISION");
}

TEST(Accelerator, KnowsWhoItIs) {
  on_ranks(3, {}, [](Accelerator& accelerator) {
    EXPECT_EQ(accelerator.num_processes(), 3);
    EXPECT_EQ(accelerator.process_index(), accelerator.group().rank());
    EXPECT_EQ(accelerator.is_main_process(), accelerator.process_index() == 0);
    EXPECT_EQ(accelerator.is_last_process(), accelerator.process_index() == 2);
    EXPECT_TRUE(accelerator.use_distributed());
    EXPECT_EQ(accelerator.mixed_precision(), "no");
  });
}

// --- the program of the README ------------------------------------------------------------------------------------

// What api.md shows, without mixed precision and trackers; returns the last loss.
double train_program(AcceleratorOptions options) {
  options.gradient_accumulation_steps = 4;
  Accelerator accelerator(options);
  manual_seed(3);
  Net net;  // it goes before the accelerator
  auto opt = optim::AdamW(net.parameters(), {.lr = 1e-2});
  auto sched = optim::warmup_cosine(opt, {.warmup_steps = 2, .total_steps = 20});
  data::DataLoader dl(random_data(96), {.batch_size = 4, .shuffle = true, .seed = 1});

  auto [model, optimizer, loader, scheduler] = accelerator.prepare(net, opt, dl, sched);
  double last = 0;
  for (auto& batch : loader) {
    auto step = accelerator.accumulate(model);  // RAII for Python's "with"
    Tensor loss = nn::cross_entropy(model(batch["input"]), batch["target"]);
    accelerator.backward(loss);
    if (accelerator.sync_gradients()) accelerator.clip_grad_norm_(model.parameters(), 1.0);
    optimizer.step();
    scheduler.step();
    optimizer.zero_grad();
    last = loss.item();
  }
  EXPECT_EQ(&model, &net);
  const Tensor all = accelerator.gather(net.fc1.weight.detach().reshape({1, -1}));
  for (int rank = 1; rank < accelerator.num_processes(); ++rank) EXPECT_EQ(all[rank].to_vector(), all[0].to_vector());
  return last;
}

TEST(Accelerator, ProgramOfTheManualAlone) { EXPECT_GT(train_program({}), 0); }

TEST(Accelerator, ProgramOfTheManualOnThreads) {
  run_ranks(3, [](ProcessGroup group) { EXPECT_GT(train_program({.group = group}), 0); });
}

WEFT_RANK_FUNCTION(program_of_the_manual) { EXPECT_GT(train_program({}), 0); }

TEST(Accelerator, ProgramOfTheManualOnProcesses) {
  EXPECT_TRUE(testing::all_succeeded(testing::spawn_ranks(2, "program_of_the_manual")));
}

// --- the number of ranks changes nothing --------------------------------------------------------------------------

// Losses of 60 steps over global batches of 12 (shares of at most one sample difference).
std::vector<double> losses_on(int size) {
  std::vector<double> losses;
  on_ranks(size, {.split_batches = true, .dataloader_config = {.allow_uneven = true}}, [&](Accelerator& accelerator) {
    manual_seed(1);
    Net net;
    optim::AdamW adam(net.parameters(), {.lr = 1e-2});
    data::DataLoader plain(random_data(100), {.batch_size = 10, .shuffle = true, .drop_last = true, .seed = 5});
    auto [model, optimizer, loader] = accelerator.prepare(net, adam, plain);
    for (int epoch = 0; epoch < 6; ++epoch) {
      for (auto& batch : loader) {
        // Parts may differ in size: weigh each by its samples, so that the mean over ranks is that over samples.
        const int64_t whole = loader.real_samples() < 0 ? 10 : loader.real_samples();
        const Tensor loss = cross_entropy(model(batch["input"]), batch["target"], {.reduction = LossReduction::sum}) *
                            (static_cast<double>(accelerator.num_processes()) / static_cast<double>(whole));
        accelerator.backward(loss);
        accelerator.clip_grad_norm_(model.parameters(), 0.5);
        optimizer.step();
        optimizer.zero_grad();
        const double mean = accelerator.reduce(loss, TreeReduce::mean).item();
        if (accelerator.is_main_process()) losses.push_back(mean);
      }
    }
  });
  return losses;
}

TEST(Accelerator, RanksDoNotChangeTheLosses) {
  const std::vector<double> alone = losses_on(1);
  ASSERT_EQ(alone.size(), 60u);
  EXPECT_LT(alone.back(), alone.front());
  for (const int size : {2, 3, 4}) {
    const std::vector<double> together = losses_on(size);
    ASSERT_EQ(together.size(), alone.size());
    for (size_t i = 0; i < alone.size(); ++i)
      EXPECT_NEAR(together[i], alone[i], 1e-5 * alone[i]) << size << " ranks, step " << i;
  }
}

// --- prepare ------------------------------------------------------------------------------------------------------

TEST(Accelerator, PrepareTwiceGivesTheSame) {
  on_ranks(2, {}, [](Accelerator& accelerator) {
    Weight net;
    optim::SGD sgd(net.parameters());
    data::DataLoader plain(Numbers{8}, {.batch_size = 2});
    auto [loader, model, optimizer] = accelerator.prepare(plain, net, sgd);
    auto [again_model, again_loader, again_optimizer] = accelerator.prepare(model, loader, optimizer);
    EXPECT_EQ(&again_model, &net);
    EXPECT_EQ(&again_optimizer.optimizer(), &sgd);
    EXPECT_EQ(again_loader.size(), loader.size());  // not sharded once more
    EXPECT_EQ(&again_loader.parts(), &loader.parts());
    model(ones({1})).backward();  // one DDP: were there two, this would be an error
    EXPECT_EQ(net.w.grad().item(), 1);
  });
}

TEST(Accelerator, PreparesFromLeftToRight) {
  on_ranks(2, {}, [](Accelerator& accelerator) {
    Weight net;
    Net other;
    optim::SGD sgd(net.parameters());
    const auto prepared = accelerator.prepare(net, other, sgd);
    EXPECT_EQ(&std::get<0>(prepared), &net);
    EXPECT_EQ(&accelerator.unwrap_model(std::get<1>(prepared)), &other);
  });
}

TEST(Accelerator, EvaluationModelsAndFrozenOnesNeedNoDdp) {
  on_ranks(2, {}, [](Accelerator& accelerator) {
    Weight evaluated, frozen;
    frozen.requires_grad_(false);
    accelerator.prepare_model(evaluated, true);
    accelerator.prepare_model(frozen);
    evaluated(full({1}, accelerator.process_index() + 1)).backward();
    EXPECT_EQ(evaluated.w.grad().item(), accelerator.process_index() + 1);
  });
}

TEST(Accelerator, FreeMemoryStartsOver) {
  on_ranks(2, {.gradient_accumulation_steps = 2}, [](Accelerator& accelerator) {
    Weight net;
    accelerator.prepare(net);
    {
      auto guard = accelerator.accumulate(net);
      EXPECT_EQ(accelerator.step(), 1);
    }
    accelerator.free_memory();
    EXPECT_EQ(accelerator.step(), 0);
    net(full({1}, accelerator.process_index())).backward();
    EXPECT_EQ(net.w.grad().item(), accelerator.process_index());  // no DDP any more
  });
}

// --- accumulation -------------------------------------------------------------------------------------------------

TEST(Cases, C17_AccumulateSeveralModels) {
  on_ranks(2, {.gradient_accumulation_steps = 2}, [](Accelerator& accelerator) {
    Weight gen, disc;
    accelerator.prepare(gen, disc);
    const double rank = accelerator.process_index();
    for (int micro = 0; micro < 2; ++micro) {
      auto guard = accelerator.accumulate(gen, disc);
      accelerator.backward(gen(full({1}, 1 + rank + micro)));
      accelerator.backward(disc(full({1}, 10 * (1 + rank + micro))));
      if (micro == 0) {  // this rank's own, halved
        EXPECT_EQ(gen.w.grad().item(), (1 + rank) / 2);
        EXPECT_EQ(disc.w.grad().item(), 10 * (1 + rank) / 2);
      }
    }
    EXPECT_EQ(gen.w.grad().item(), 2);  // mean of 1, 2, 2, 3
    EXPECT_EQ(disc.w.grad().item(), 20);
  });
}

// The batches (counted over epochs) after which the weight had changed.
std::vector<int> updates(bool sync_with_dataloader) {
  std::vector<int> result;
  on_ranks(1,
           {.gradient_accumulation_plugin =
                GradientAccumulationPlugin{.num_steps = 2, .sync_with_dataloader = sync_with_dataloader}},
           [&](Accelerator& accelerator) {
             Weight net;
             optim::SGD sgd(net.parameters(), {.lr = 0.1});
             data::DataLoader plain(Numbers{5}, {.batch_size = 1});
             auto [model, optimizer, loader] = accelerator.prepare(net, sgd, plain);
             int batches = 0;
             for (int epoch = 0; epoch < 2; ++epoch) {
               for ([[maybe_unused]] auto& batch : loader) {
                 auto guard = accelerator.accumulate(model);
                 const double before = net.w.item();
                 accelerator.backward(model(ones({1})));
                 optimizer.step();
                 optimizer.zero_grad();
                 ++batches;
                 if (net.w.item() != before) result.push_back(batches);
               }
             }
           });
  return result;
}

TEST(Cases, C19_TheEndOfALoaderForcesAnUpdateOrNot) {
  EXPECT_EQ(updates(true), (std::vector<int>{2, 4, 5, 7, 9, 10}));
  EXPECT_EQ(updates(false), (std::vector<int>{2, 4, 6, 8, 10}));
}

TEST(Cases, C20_SchedulesCountProcesses) {
  const auto rate = [](AcceleratorOptions options) {
    double lr = 0;
    on_ranks(4, options, [&](Accelerator& accelerator) {
      Weight net;
      optim::SGD sgd(net.parameters(), {.lr = 1});
      optim::LambdaLR step_lr(sgd, [](int64_t n) { return std::pow(0.1, static_cast<double>(n / 20)); });
      auto [optimizer, scheduler] = accelerator.prepare(sgd, step_lr);
      for (int update = 0; update < 5; ++update) {
        optimizer.step();
        scheduler.step();
      }
      if (accelerator.is_main_process()) lr = scheduler.last_lr().at(0);
    });
    return lr;
  };
  EXPECT_DOUBLE_EQ(rate({}), 0.1);
  EXPECT_DOUBLE_EQ(rate({.split_batches = true}), 1);
  EXPECT_DOUBLE_EQ(rate({.step_scheduler_with_optimizer = false}), 1);
}

TEST(Cases, C22_LossIsScaledOnce) {
  on_ranks(2, {.gradient_accumulation_steps = 4}, [](Accelerator& accelerator) {
    Weight net;
    accelerator.prepare(net);
    for (int micro = 1; micro <= 4; ++micro) {
      auto guard = accelerator.accumulate(net);
      accelerator.backward(net(ones({1})));
      EXPECT_EQ(net.w.grad().item(), 0.25 * micro);
    }
  });
}

TEST(Cases, C23_NoUpdateNoScheduleStep) {
  on_ranks(1, {.gradient_accumulation_steps = 2}, [](Accelerator& accelerator) {
    Weight net;
    optim::SGD sgd(net.parameters(), {.lr = 1});
    optim::LambdaLR plain(sgd, [](int64_t n) { return 1 / (1.0 + static_cast<double>(n)); });
    auto [model, optimizer, scheduler] = accelerator.prepare(net, sgd, plain);
    std::vector<double> rates;
    for (int micro = 0; micro < 4; ++micro) {
      auto guard = accelerator.accumulate(model);
      accelerator.backward(model(ones({1})));
      optimizer.step();
      scheduler.step();
      optimizer.zero_grad();
      rates.push_back(scheduler.last_lr().at(0));
    }
    EXPECT_EQ(rates, (std::vector<double>{1, 0.5, 0.5, 1.0 / 3}));
  });
}

TEST(Accelerator, ClippingWaitsForTheUpdate) {
  on_ranks(2, {.gradient_accumulation_steps = 2}, [](Accelerator& accelerator) {
    Weight net;
    accelerator.prepare(net);
    for (int micro = 0; micro < 2; ++micro) {
      auto guard = accelerator.accumulate(net);
      accelerator.backward(net(full({1}, 8)));
      const double norm = accelerator.clip_grad_norm_(net.parameters(), 1);
      EXPECT_EQ(norm, micro == 0 ? 0 : 8);
      EXPECT_NEAR(net.w.grad().item(), micro == 0 ? 4 : 1, 1e-5);
    }
    accelerator.clip_grad_value_(net.parameters(), 0.5);
    EXPECT_EQ(net.w.grad().item(), 0.5);
  });
}

// --- guards -------------------------------------------------------------------------------------------------------

TEST(Accelerator, TheMainProcessGoesFirst) {
  std::mutex mutex;
  std::vector<int> order;
  on_ranks(3, {}, [&](Accelerator& accelerator) {
    for (int round = 0; round < 3; ++round) {
      auto guard = round == 1 ? accelerator.local_main_process_first() : accelerator.main_process_first();
      if (accelerator.is_main_process()) std::this_thread::sleep_for(5ms);
      std::lock_guard lock(mutex);
      order.push_back(accelerator.process_index());
    }
    accelerator.wait_for_everyone();
  });
  ASSERT_EQ(order.size(), 9u);
  int ahead = 0;  // rounds of the main process so far; the others are never in a round before it
  std::vector<int> done(3);
  for (const int rank : order) {
    ++done[static_cast<size_t>(rank)];
    ahead = std::max(ahead, done[0]);
    EXPECT_LE(done[static_cast<size_t>(rank)], ahead);
  }
}

TEST(Accelerator, FunctionsForSomeProcesses) {
  std::mutex mutex;
  std::vector<std::string> said;
  on_ranks(3, {}, [&](Accelerator& accelerator) {
    const auto say = [&](const std::string& what) {
      std::lock_guard lock(mutex);
      said.push_back(fmt::format("{} {}", what, accelerator.process_index()));
    };
    accelerator.on_main_process(say)("main");
    accelerator.on_local_main_process(say)("local main");
    accelerator.on_last_process(say)("last");
    accelerator.on_process(say, 1)("one");
    accelerator.on_local_process(say, 2)("local two");
    expect_error([&] { accelerator.on_process(say, 3); }, {"process 3", "there are 3"});
    expect_error([&] { accelerator.on_local_process(say, -1); }, {"process -1"});
  });
  std::sort(said.begin(), said.end());
  EXPECT_EQ(said, (std::vector<std::string>{"last 2", "local main 0", "local two 2", "main 0", "one 1"}));
}

TEST(Accelerator, PrintsOnce) {
  ::testing::internal::CaptureStdout();
  on_ranks(3, {}, [](Accelerator& accelerator) { accelerator.print("loss {:.2f}", 0.5); });
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "loss 0.50\n");
}

TEST(Accelerator, SeedsEveryRank) {
  on_ranks(2, {}, [](Accelerator& accelerator) {
    set_seed(5);
    const Tensor same = accelerator.gather(randn({1, 3}));
    EXPECT_EQ(same[0].to_vector(), same[1].to_vector());
    set_seed(5, true, accelerator.process_index());
    const Tensor different = accelerator.gather(randn({1, 3}));
    EXPECT_EQ(different[0].to_vector(), same[0].to_vector());
    EXPECT_NE(different[0].to_vector(), different[1].to_vector());
  });
}

// --- metrics ------------------------------------------------------------------------------------------------------

// Samples gathered at each step, and all of them.
std::pair<std::vector<int64_t>, std::vector<double>> gathered(int size, int64_t rows, data::DataLoaderOptions options) {
  std::pair<std::vector<int64_t>, std::vector<double>> result;
  on_ranks(size, {}, [&](Accelerator& accelerator) {
    data::DataLoader plain(Numbers{rows}, options);
    auto [loader] = accelerator.prepare(plain);
    for (auto& batch : loader) {
      const Tensor all = accelerator.gather_for_metrics(batch.as_tensor());
      if (!accelerator.is_main_process()) continue;
      result.first.push_back(all.numel());
      for (const double id : all.to_vector()) result.second.push_back(id);
    }
  });
  return result;
}

TEST(Cases, C1_MetricsOfAnEvenlyDividedDataset) {
  auto [sizes, ids] = gathered(2, 512, {.batch_size = 16});
  EXPECT_EQ(sizes, std::vector<int64_t>(16, 32));
  std::sort(ids.begin(), ids.end());
  ASSERT_EQ(ids.size(), 512u);
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(ids[i], static_cast<double>(i));
}

TEST(Cases, C2_MetricsAfterDropLast) {
  const auto [sizes, ids] = gathered(1, 9, {.batch_size = 5, .drop_last = true});
  EXPECT_EQ(sizes, std::vector<int64_t>{5});
  EXPECT_EQ(ids, (std::vector<double>{0, 1, 2, 3, 4}));
  const auto [two_sizes, two_ids] = gathered(2, 19, {.batch_size = 5, .drop_last = true});
  EXPECT_EQ(two_sizes, std::vector<int64_t>{10});
  EXPECT_EQ(two_ids, (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(Accelerator, MetricsOfWhatIsNoTensor) {
  on_ranks(2, {}, [](Accelerator& accelerator) {
    data::DataLoader plain(Numbers{9}, {.batch_size = 5});
    auto [loader] = accelerator.prepare(plain);
    for (auto& batch : loader) {
      Tree names = Tree::list();
      for (const double id : batch.as_tensor().to_vector()) names.push_back(fmt::format("n{}", id));
      EXPECT_EQ(to_string(accelerator.gather_for_metrics(names)),
                "[\"n0\", \"n1\", \"n2\", \"n3\", \"n4\", \"n5\", \"n6\", \"n7\", \"n8\"]");
    }
  });
}

// --- collectives --------------------------------------------------------------------------------------------------

Tensor matrix(std::initializer_list<double> values, const Shape& shape) { return tensor(values).reshape(shape); }

TEST(Cases, C88_GatherOfScalars) {
  on_ranks(2, {}, [](Accelerator& accelerator) {
    const Tensor all = accelerator.gather(full({}, accelerator.process_index() == 0 ? 3 : 5));
    EXPECT_EQ(all.shape(), (Shape{2}));
    EXPECT_EQ(all.to_vector(), (std::vector<double>{3, 5}));
  });
}

TEST(Cases, C89_GatherOfANonContiguousTensor) {
  on_ranks(2, {}, [](Accelerator& accelerator) {
    const Tensor x = matrix({1, 2, 3, 4}, {2, 2}).t();
    ASSERT_FALSE(x.is_contiguous());
    EXPECT_EQ(accelerator.gather(x).to_vector(), (std::vector<double>{1, 3, 2, 4, 1, 3, 2, 4}));
  });
}

TEST(Cases, C91_PaddingOfANegativeDimension) {
  on_ranks(2, {}, [](Accelerator& accelerator) {
    const Tensor x = ones({4, accelerator.process_index() == 0 ? 100 : 200});
    const Tensor last = accelerator.pad_across_processes(x, -1), first = accelerator.pad_across_processes(x, 1);
    EXPECT_EQ(last.shape(), (Shape{4, 200}));
    EXPECT_EQ(last.to_vector(), first.to_vector());
    EXPECT_EQ(last[0][150].item(), accelerator.process_index());
    EXPECT_EQ(accelerator.pad_across_processes(x, -3).as_tensor().shape(), x.shape());
  });
}

TEST(Cases, C92_ReduceMean) {
  on_ranks(4, {}, [](Accelerator& accelerator) {
    const Tensor x = tensor({1, 2, 3, 4}) + 4 * accelerator.process_index();
    EXPECT_EQ(accelerator.reduce(x).to_vector(), (std::vector<double>{28, 32, 36, 40}));
    EXPECT_EQ(accelerator.reduce(x, TreeReduce::mean).to_vector(), (std::vector<double>{7, 8, 9, 10}));
    EXPECT_EQ(x[0].item(), 1 + 4 * accelerator.process_index());
    expect_error([&] { accelerator.reduce(x.to(i64), TreeReduce::mean); }, {"mean", "i64[4]"});
  });
}

TEST(Cases, C94_ReduceOnOneProcess) {
  on_ranks(1, {}, [](Accelerator& accelerator) {
    const Tensor x = tensor({0, 1, 2, 3});
    for (const TreeReduce reduction : {TreeReduce::sum, TreeReduce::mean}) {
      const Tensor y = accelerator.reduce(x, reduction);
      y.add_(ones({4}));  // one's own
      EXPECT_EQ(y.to_vector(), (std::vector<double>{1, 2, 3, 4}));
      EXPECT_EQ(x.to_vector(), (std::vector<double>{0, 1, 2, 3}));
    }
  });
}

TEST(Cases, C95_GatherObjectJoinsTheFirstLevelOnly) {
  on_ranks(2, {}, [](Accelerator& accelerator) {
    const Tree mine = Tree::list({Tree::list({"a", "b"}), Tree::list({"c", "d"})});
    const Tree want = Tree::list({mine[0], mine[1], mine[0], mine[1]});
    EXPECT_EQ(accelerator.gather_object(mine), want);
    // Anything a tree can hold, of another size on every rank.
    const int rank = accelerator.process_index();
    const Tree object = Tree::map({{"x", arange(rank + 1)}, {"none", nullptr}, {"nan", std::nan("")}});
    const Tree all = accelerator.gather_object(object);
    ASSERT_EQ(all.size(), 2);
    EXPECT_EQ(all[rank], object);
  });
}

TEST(Cases, C97_FewerItemsThanRanks) {
  const auto part = [](int rank, bool padding) {
    return to_string(split_between(Tree::list({"a", "b"}), rank, 4, padding));
  };
  const char* plain[] = {"[\"a\"]", "[\"b\"]", "[]", "[]"};
  const char* padded[] = {"[\"a\"]", "[\"b\"]", "[\"b\"]", "[\"b\"]"};
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(part(rank, false), plain[rank]);
    EXPECT_EQ(part(rank, true), padded[rank]);
  }
}

TEST(Cases, C98_NoPaddingWhereTheSplitIsEven) {
  on_ranks(2, {}, [](Accelerator& accelerator) {
    const Tree lists = Tree::list({Tree::list({0, 1}), Tree::list({2, 3})});
    const Tree mine = accelerator.split_between_processes(lists, true);
    ASSERT_EQ(mine.size(), 1);
    EXPECT_EQ(accelerator.gather_object(mine[0]), Tree::list({0, 1, 2, 3}));
  });
}

TEST(Accelerator, SplitsMapsOfOneLength) {
  const Tree inputs = Tree::map({{"a", Tree::list({1, 2, 3})}, {"b", tensor({1, 2, 3})}});
  EXPECT_EQ(to_string(split_between(inputs, 1, 2, true)["a"]), "[3, 3]");
  EXPECT_EQ(split_between(inputs, 1, 2, true)["b"].as_tensor().to_vector(), (std::vector<double>{3, 3}));
  expect_error(
      [] {
        split_between(Tree::map({{"a", Tree::list({1})}, {"b", Tree::list({1, 2})}}), 0, 2, false);
      },
      {"\"b\" has 2", "1"});
  expect_error([] { split_between(Tree::map({{"a", 3}}), 0, 2, false); }, {"\"a\"", "integer"});
  expect_error([] { split_between(full({}, 1), 0, 2, false); }, {"scalar"});
}

TEST(Cases, C100_PadInputTensors) {
  const auto shape = [](const Shape& from, int64_t batch, int processes, int64_t dim) {
    Accelerator accelerator({.group = ProcessGroup::threads(1)[0]});
    return accelerator.pad_input_tensors(ones(from), batch, processes, dim).as_tensor().shape();
  };
  EXPECT_EQ(shape({8, 4}, 8, 4, 0), (Shape{8, 4}));
  EXPECT_EQ(shape({6, 4}, 6, 4, 0), (Shape{8, 4}));
  EXPECT_EQ(shape({3, 4, 4}, 3, 4, 0), (Shape{4, 4, 4}));
  EXPECT_EQ(shape({4, 6}, 6, 9, 1), (Shape{4, 9}));
}

TEST(Cases, C101_BoolAndLargeIntegers) {
  on_ranks(2, {}, [](Accelerator& accelerator) {
    const int rank = accelerator.process_index();
    const Tensor flags = tensor({rank == 0 ? 1.0 : 0.0, 1, 0}).to(boolean);
    EXPECT_EQ(accelerator.gather(flags).to_vector(), (std::vector<double>{1, 1, 0, 0, 1, 0}));
    EXPECT_EQ(accelerator.broadcast(flags, 1).as_tensor().to_vector(), (std::vector<double>{0, 1, 0}));
    EXPECT_EQ(accelerator.reduce(flags).to_vector(), (std::vector<double>{1, 1, 0}));  // logical or
    const Tensor large = full({1}, static_cast<double>((int64_t{1} << 40) + 1), i64);
    EXPECT_EQ(accelerator.reduce(large).item<int64_t>(), (int64_t{1} << 41) + 2);
  });
}

TEST(Cases, C103_AnEmptyTensorOnOneRank) {
  on_ranks(2, {}, [](Accelerator& accelerator) {
    const Tensor x = accelerator.process_index() == 0 ? empty({0}) : tensor({1, 2, 3});
    expect_error([&] { accelerator.gather(x); }, {"f32[0]", "f32[3]"});
    const Tensor padded = accelerator.pad_across_processes(x);
    EXPECT_EQ(accelerator.gather(padded).to_vector(), (std::vector<double>{0, 0, 0, 1, 2, 3}));
  });
}

TEST(Cases, C104_ReduceToOneRankLeavesTheOthers) {
  on_ranks(2, {}, [](Accelerator& accelerator) {
    const Tensor x = ones({2, 2});
    accelerator.group().reduce(x, 0).wait();
    EXPECT_EQ(x.to_vector(), std::vector<double>(4, accelerator.is_main_process() ? 2 : 1));
  });
}

TEST(Accelerator, GatherOfWhatIsNoTensorIsAnError) {
  on_ranks(2, {}, [](Accelerator& accelerator) {
    expect_error(
        [&] {
          accelerator.gather(Tree::map({{"x", ones({1})}, {"name", "text"}}));
        },
        {"\"name\"", "gather_object"});
  });
}

TEST(Accelerator, ScaleOfReduceWarnsOnce) {
  std::mutex mutex;
  std::vector<std::string> warnings;
  set_warning_sink([&](std::string_view text) {
    std::lock_guard lock(mutex);
    warnings.emplace_back(text);
  });
  on_ranks(1, {}, [](Accelerator& accelerator) {
    for (int i = 0; i < 3; ++i) EXPECT_EQ(accelerator.reduce(ones({1}), TreeReduce::sum, 0.5).item(), 1);
  });
  set_warning_sink({});
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("0.5"), std::string::npos);
}

}  // namespace
}  // namespace weft
