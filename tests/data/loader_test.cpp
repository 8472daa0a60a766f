#include "data/loader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <stdexcept>
#include <thread>

#include "data/shard.h"
#include "tensor/factory.h"
#include "tensor/random.h"
#include "tests/support/nightly.h"

namespace weft::data {
namespace {

using Ids = std::vector<int64_t>;

struct Items : Dataset {
  explicit Items(int64_t size) : count(size) {}
  int64_t size() const override { return count; }
  Sample get(int64_t index) const override { return {{"input", index}, {"target", 2 * index}}; }
  int64_t count;
};

struct Counting : IterableDataset {
  explicit Counting(int64_t size) : count(size) {}
  struct Stream : SampleStream {
    explicit Stream(int64_t size) : count(size) {}
    bool next(Sample& sample) override {
      if (at == count) return false;
      sample = {{"input", at}, {"target", 2 * at}};
      ++at;
      return true;
    }
    int64_t at = 0, count;
  };
  std::unique_ptr<SampleStream> iterate(int64_t) const override { return std::make_unique<Stream>(count); }
  int64_t count;
};

Ids ids(const Batch& batch) {
  const auto view = batch["input"].as_tensor().view<int64_t>();
  return {view.begin(), view.end()};
}

Ids all_ids(const DataLoader& loader) {
  Ids all;
  for (auto& batch : loader)
    for (const int64_t id : ids(batch)) all.push_back(id);
  return all;
}

Ids sorted(Ids values) {
  std::sort(values.begin(), values.end());
  return values;
}

Ids range(int64_t begin, int64_t end) {
  Ids values;
  for (int64_t i = begin; i < end; ++i) values.push_back(i);
  return values;
}

TEST(DataLoader, ReadsLikeTheReadme) {
  int64_t rows = 0;
  for (auto [x, y] : DataLoader(std::make_shared<Items>(10), {.batch_size = 4, .shuffle = true})) {
    EXPECT_EQ(x.size(0), y.size(0));
    for (int64_t i = 0; i < x.size(0); ++i) EXPECT_EQ(2 * x.view<int64_t>()(i), y.view<int64_t>()(i));
    rows += x.size(0);
  }
  EXPECT_EQ(rows, 10);
  DataLoader loader(Items(3), {.batch_size = 2});
  for (auto& [x, y] : loader) x = y;
  for (const auto& [x, y] : loader) EXPECT_EQ(x.size(0), y.size(0));
  for (auto&& [x, y] : loader) EXPECT_EQ(x.size(0), y.size(0));
  for (auto& batch : loader) {
    const Tensor& input = batch["input"];
    EXPECT_EQ(input.size(0), batch["target"].as_tensor().size(0));
  }
}

TEST(DataLoader, AThirdEntryAndWrongNames) {
  const Batch batch{{"input", zeros({2})}, {"target", ones({2})}, {"mask", full({2}, 7)}};
  const auto& [input, target] = batch;
  EXPECT_EQ(input.to_vector()[0], 0);
  EXPECT_EQ(target.to_vector()[0], 1);
  EXPECT_EQ(batch["mask"].as_tensor().to_vector()[0], 7);
  try {
    Batch copy = batch;
    (void)copy["label"];
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_NE(std::string(error.what()).find("mask"), std::string::npos) << error.what();
  }
  EXPECT_THROW((void)Batch({{"input", zeros({1})}}).get<1>(), Error);
  EXPECT_THROW((void)Batch(Tree(3)).get<0>(), Error);
}

TEST(DataLoader, OrderAndLengthForAnyNumberOfWorkers) {
  for (const int workers : {0, 1, 2, 5})
    for (const int64_t n : {0, 1, 7, 64})
      for (const int64_t batch_size : {1, 3, 64, 100})
        for (const bool drop_last : {false, true}) {
          const DataLoaderOptions options = {
              .batch_size = batch_size, .drop_last = drop_last, .num_workers = workers, .prefetch_factor = 1};
          const DataLoader map(Items{n}, options), stream(Counting{n}, options);
          const int64_t whole = drop_last ? n / batch_size * batch_size : n;
          for (int epoch = 0; epoch < 2; ++epoch) {
            int64_t batches = 0;
            Ids got;
            for (auto& batch : map) {
              ++batches;
              for (const int64_t id : ids(batch)) got.push_back(id);
              EXPECT_EQ(map.end_of_dataloader(), batches == map.size());
            }
            EXPECT_EQ(batches, map.size());
            EXPECT_EQ(got, range(0, whole));
            EXPECT_EQ(all_ids(stream), range(0, whole));
            EXPECT_EQ(map.epoch(), epoch + 1);
          }
          EXPECT_FALSE(stream.sized());
          EXPECT_THROW(stream.size(), Error);
        }
}

TEST(DataLoader, ShufflesAnewEachEpochAndTheSameWithWorkers) {
  const DataLoaderOptions options = {.batch_size = 5, .shuffle = true, .seed = 3};
  DataLoaderOptions threaded = options;
  threaded.num_workers = 3;
  const DataLoader a(Items(50), options), b(Items(50), threaded);
  std::set<Ids> orders;
  for (int epoch = 0; epoch < 4; ++epoch) {
    const Ids order = all_ids(a);
    EXPECT_EQ(order, all_ids(b));
    EXPECT_EQ(sorted(order), range(0, 50));
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 4u);
}

TEST(DataLoader, ASeedOfTheProgramDecidesTheShuffle) {
  manual_seed(11);
  const Ids first = all_ids(DataLoader(Items(30), {.shuffle = true}));
  manual_seed(12);
  const Ids other = all_ids(DataLoader(Items(30), {.shuffle = true}));
  manual_seed(11);
  EXPECT_EQ(all_ids(DataLoader(Items(30), {.shuffle = true})), first);
  EXPECT_NE(first, other);
}

struct Noisy : Dataset {
  int64_t size() const override { return 40; }
  Sample get(int64_t index) const override {
    return {{"input", index}, {"noise", default_generator().integer(0, int64_t{1} << 40)}};
  }
};

TEST(DataLoader, RandomSamplesDoNotDependOnWorkers) {
  const auto noise = [](int workers) {
    Ids all;
    const DataLoader loader(Noisy{}, {.batch_size = 7, .num_workers = workers, .seed = 5});
    for (int epoch = 0; epoch < 2; ++epoch)
      for (auto& batch : loader)
        for (const double value : batch["noise"].as_tensor().to_vector()) all.push_back(static_cast<int64_t>(value));
    return all;
  };
  manual_seed(1);
  const uint32_t before = Generator(default_generator()).next_u32();
  const Ids inline_ = noise(0);
  EXPECT_EQ(default_generator().next_u32(), before) << "the program's own random numbers moved";
  EXPECT_EQ(noise(1), inline_);
  EXPECT_EQ(noise(4), inline_);
  EXPECT_EQ(std::set<int64_t>(inline_.begin(), inline_.end()).size(), 80u);
}

struct Failing : Items {
  using Items::Items;
  Sample get(int64_t index) const override {
    if (index == 17) throw std::runtime_error("no such picture");
    return Items::get(index);
  }
};

TEST(DataLoader, AFailureNamesItsSampleAndComesInItsPlace) {
  for (const int workers : {0, 1, 4}) {
    const DataLoader loader(Failing(30), {.batch_size = 5, .num_workers = workers});
    int batches = 0;
    try {
      for (auto& batch : loader) {
        EXPECT_EQ(ids(batch).front(), 5 * batches);
        ++batches;
      }
      FAIL() << "no error";
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("sample 17"), std::string::npos) << text;
      EXPECT_NE(text.find("no such picture"), std::string::npos) << text;
    }
    EXPECT_EQ(batches, 3);
    EXPECT_THROW(all_ids(loader), Error);  // and the next pass fails alike
  }
}

struct FailingStream : IterableDataset {
  struct Stream : Counting::Stream {
    using Counting::Stream::Stream;
    bool next(Sample& sample) override {
      if (at == 7) fail(ErrorCode::io, "read", "the disk is gone");
      return Counting::Stream::next(sample);
    }
  };
  std::unique_ptr<SampleStream> iterate(int64_t) const override { return std::make_unique<Stream>(20); }
};

TEST(DataLoader, AStreamThatFails) {
  for (const int workers : {0, 1, 3}) {
    int batches = 0;
    try {
      for (auto& batch : DataLoader(FailingStream{}, {.batch_size = 2, .num_workers = workers}))
        EXPECT_EQ(ids(batch).front(), 2 * batches++);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::io);
      EXPECT_NE(std::string(error.what()).find("sample 7"), std::string::npos) << error.what();
    }
    EXPECT_EQ(batches, 3);
  }
}

TEST(DataLoader, SamplesThatDoNotStackSayWhich) {
  struct Ragged : Dataset {
    int64_t size() const override { return 4; }
    Sample get(int64_t index) const override { return {{"input", zeros({index == 2 ? 5 : 7})}, {"target", index}}; }
  };
  try {
    for (auto& batch : DataLoader(Ragged{}, {.batch_size = 4})) (void)batch;
    FAIL() << "no error";
  } catch (const Error& error) {
    const std::string text = error.what();
    for (const char* part : {"input", "[7]", "[5]", "sample 2"}) EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

struct Slow : Items {
  using Items::Items;
  Sample get(int64_t index) const override {
    ++running;
    std::this_thread::sleep_for(std::chrono::milliseconds(index % 7 == 0 ? 3 : 0));
    --running;
    return Items::get(index);
  }
  static std::atomic<int> running;
};
std::atomic<int> Slow::running = 0;

TEST(DataLoader, LeavingEarlyStopsTheThreads) {
  for (int round = 0; round < test::rounds(30, 500); ++round) {
    const DataLoader loader(Slow(100),
                            {.batch_size = 2, .num_workers = 1 + round % 4, .prefetch_factor = 1 + round % 3});
    int batches = 0;
    for (auto& batch : loader) {
      (void)batch;
      if (batches++ == round % 5) break;
    }
    EXPECT_EQ(Slow::running, 0);
    EXPECT_THROW(
        {
          for (auto& batch : loader) {
            (void)batch;
            throw std::runtime_error("the body failed");
          }
        },
        std::runtime_error);
    EXPECT_EQ(Slow::running, 0);
    loader.begin();  // an iterator that nobody keeps
    EXPECT_EQ(Slow::running, 0);
  }
}

TEST(DataLoader, WorkersRunAtTheSameTime) {
  struct Meeting : Items {
    using Items::Items;
    Sample get(int64_t index) const override {
      ++arrived;
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (arrived < 3 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
      return Items::get(index);
    }
    mutable std::shared_ptr<std::atomic<int>> count = std::make_shared<std::atomic<int>>(0);
    std::atomic<int>& arrived = *count;
    Meeting(const Meeting& other) : Items(other), count(other.count), arrived(*count) {}
  };
  const auto meeting = std::make_shared<Meeting>(3);
  EXPECT_EQ(all_ids(DataLoader(meeting, {.num_workers = 3})), range(0, 3));
  EXPECT_EQ(meeting->arrived, 3);
}

TEST(DataLoader, ABreakCountsAsAnEpoch) {
  const DataLoader loader(Items(20), {.batch_size = 2, .shuffle = true, .seed = 1});
  Ids first, second;
  for (auto& batch : loader) {
    first = ids(batch);
    break;
  }
  EXPECT_EQ(loader.epoch(), 0);
  for (auto& batch : loader) {
    second = ids(batch);
    break;
  }
  EXPECT_EQ(loader.epoch(), 1);
  EXPECT_NE(first, second);
  loader.set_epoch(0);
  for (auto& batch : loader) {
    EXPECT_EQ(ids(batch), first);
    break;
  }
}

TEST(DataLoader, ResumesAtAnyBatch) {
  for (const int workers : {0, 2})
    for (int64_t stop = 0; stop <= 21; ++stop) {
      const DataLoaderOptions options = {.batch_size = 3, .shuffle = true, .num_workers = workers, .seed = 9};
      const DataLoader straight(Items(20), options);  // 7 batches an epoch
      std::vector<Ids> want;
      for (int epoch = 0; epoch < 3; ++epoch)
        for (auto& batch : straight) want.push_back(ids(batch));

      std::vector<Ids> got;
      Tree state;
      const DataLoader before(Items(20), options);
      state = before.state_dict();
      for (int epoch = 0; epoch < 3 && std::ssize(got) < stop; ++epoch)
        for (auto& batch : before) {
          got.push_back(ids(batch));
          state = before.state_dict();
          if (std::ssize(got) == stop) break;
        }
      DataLoaderOptions other = options;
      other.seed = 1234;  // the state brings its own
      const DataLoader after(Items(20), other);
      after.load_state_dict(state);
      while (std::ssize(got) < std::ssize(want)) {
        EXPECT_EQ(after.size(), 7 - std::ssize(got) % 7);
        int64_t given = 0;
        for (auto& batch : after) {
          got.push_back(ids(batch));
          ++given;
        }
        ASSERT_GT(given, 0) << "an empty epoch after stopping at " << stop;
      }
      EXPECT_EQ(got, want) << "stopped at " << stop;
    }
}

TEST(DataLoader, StreamsResumeToo) {
  const DataLoader loader(Counting(20), {.batch_size = 3});
  Tree state;
  for (auto& batch : loader) {
    state = loader.state_dict();
    if (ids(batch).front() == 6) break;
  }
  const DataLoader other(Counting(20), {.batch_size = 3, .num_workers = 2});
  other.load_state_dict(state);
  EXPECT_EQ(all_ids(other), range(9, 20));
  EXPECT_EQ(all_ids(other), range(0, 20));
}

TEST(DataLoader, ResumesOnAnotherNumberOfRanks) {
  const auto shard = [](int rank, int world) {
    return DataLoaderShard(DataLoader(Items(48), {.batch_size = 12 / world, .shuffle = true, .seed = 2}),
                           {.rank = rank, .world_size = world});
  };
  const DataLoaderShard two = shard(0, 2);
  Tree state;
  for (auto& batch : two) {
    (void)batch;
    state = two.state_dict();
    if (two.batches_done() == 2) break;
  }
  Ids rest;
  for (int rank = 0; rank < 3; ++rank) {
    const DataLoaderShard three = shard(rank, 3);
    three.load_state_dict(state);
    EXPECT_EQ(three.size(), 2);
    for (const int64_t id : all_ids(three)) rest.push_back(id);
  }
  const Ids order = all_ids(DataLoader(Items(48), {.batch_size = 12, .shuffle = true, .seed = 2}));
  EXPECT_EQ(sorted(rest), sorted(Ids(order.begin() + 24, order.end())));

  const DataLoader odd(Items(48), {.batch_size = 5});
  EXPECT_THROW(odd.load_state_dict(state), Error);
}

TEST(DataLoader, HooksSeeEveryPass) {
  const DataLoader loader(Items(4), {.batch_size = 2});
  std::string log;
  loader.set_pass_hooks([&] { log += "b"; }, [&](bool finished) { log += finished ? "F" : "x"; });
  all_ids(loader);
  for (auto& batch : loader) {
    (void)batch;
    break;
  }
  EXPECT_EQ(log, "bFbx");
}

TEST(DataLoader, BadOptionsAreErrors) {
  const auto items = std::make_shared<Items>(4);
  const auto sampler = std::make_shared<SequentialSampler>(4);
  EXPECT_THROW(DataLoader(items, {.batch_size = 0}), Error);
  EXPECT_THROW(DataLoader(items, {.num_workers = -1}), Error);
  EXPECT_THROW(DataLoader(items, {.prefetch_factor = 0}), Error);
  EXPECT_THROW(DataLoader(items, {.shuffle = true, .sampler = sampler}), Error);
  EXPECT_THROW(DataLoader(items, {.batch_size = 2, .batch_sampler = std::make_shared<BatchSampler>(sampler, 2)}),
               Error);
  EXPECT_THROW(DataLoader(std::shared_ptr<Items>()), Error);
  EXPECT_THROW(DataLoader(Counting(3), {.shuffle = true}), Error);
  EXPECT_THROW(RandomSampler(0, {.num_samples = 3}), Error);
  EXPECT_THROW(skip_first_batches(DataLoader(items), -1), Error);
  EXPECT_EQ(all_ids(DataLoader(items, {.batch_size = int64_t{1} << 40})), range(0, 4));
  EXPECT_THROW(all_ids(DataLoader(items, {.sampler = std::make_shared<SequentialSampler>(5)})), Error) << "no check";
}

TEST(Collate, KindsOfEntries) {
  std::vector<Sample> samples;
  for (int i = 0; i < 2; ++i)
    samples.push_back({{"number", i},
                       {"real", 0.5 * i},
                       {"flag", i == 1},
                       {"name", i ? "b" : "a"},
                       {"list", Tree::list({full({2}, i), i})},
                       {"none", nullptr}});
  const Batch batch = default_collate(samples);
  EXPECT_EQ(batch["number"].as_tensor().dtype(), i64);
  EXPECT_EQ(batch["real"].as_tensor().dtype(), f64);
  EXPECT_EQ(batch["flag"].as_tensor().dtype(), boolean);
  EXPECT_EQ(batch["name"][1].as_string(), "b");
  EXPECT_EQ(batch["list"][0].as_tensor().shape(), (Shape{2, 2}));
  EXPECT_EQ(batch["list"][1].as_tensor().to_vector(), (std::vector<double>{0, 1}));
  EXPECT_TRUE(batch["none"].is_null());
  EXPECT_THROW(default_collate({{{"a", 1}}, {{"b", 1}}}), Error);
  EXPECT_THROW(default_collate({{{"a", 1}}, {{"a", 1.0}}}), Error);
  EXPECT_THROW(default_collate({}), Error);
}

TEST(TensorDataset, RowsAndBatches) {
  const Tensor x = arange(12).reshape({4, 3});
  const TensorDataset dataset({{"input", x}, {"target", arange(4)}});
  EXPECT_EQ(dataset.size(), 4);
  auto [row, label] = dataset.get(2);
  EXPECT_EQ(row.to_vector(), (std::vector<double>{6, 7, 8}));
  EXPECT_EQ(label.dim(), 0);
  const int64_t picked[] = {3, 0};
  const Batch batch = dataset.get_batch(picked);
  EXPECT_EQ(batch["input"].as_tensor().to_vector(), (std::vector<double>{9, 10, 11, 0, 1, 2}));
  EXPECT_EQ(dataset.get_batch({})["input"].as_tensor().shape(), (Shape{0, 3}));
  EXPECT_THROW(dataset.get(4), Error);
  const int64_t bad[] = {-1};
  EXPECT_THROW(dataset.get_batch(bad), Error);
  EXPECT_THROW(TensorDataset({{"a", zeros({2})}, {"b", zeros({3})}}), Error);

  const Subset subset(std::make_shared<TensorDataset>(dataset), {2, 1});
  EXPECT_EQ(subset.get(0)["target"].as_tensor().item<int64_t>(), 2);
  const int64_t both[] = {1, 0};
  EXPECT_EQ(subset.get_batch(both)["target"].as_tensor().to_vector(), (std::vector<double>{1, 2}));
  EXPECT_THROW(Subset(std::make_shared<Items>(2), {2}), Error);
  EXPECT_EQ(Items(3).get_batch({})["input"].as_tensor().shape(), (Shape{0}));
}

}  // namespace
}  // namespace weft::data
