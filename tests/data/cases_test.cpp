// Faults that were reported against other libraries, as far as they are a matter of data/. The numbers are those of the
// project's list of cases.
#include <gtest/gtest.h>

#include <set>

#include "data/shard.h"
#include "tensor/factory.h"

namespace weft::data {
namespace {

using Ids = std::vector<int64_t>;

struct Items : Dataset {
  explicit Items(int64_t size) : count(size) {}
  int64_t size() const override { return count; }
  Sample get(int64_t index) const override { return Sample(Tree(index)); }
  int64_t count;
};

struct Stream : IterableDataset {
  explicit Stream(Ids values_) : values(std::move(values_)) {}
  struct Reading : SampleStream {
    explicit Reading(const Ids& values_) : values(values_) {}
    bool next(Sample& sample) override {
      if (at == values.size()) return false;
      sample = Sample(Tree(values[at++]));
      return true;
    }
    Ids values;
    size_t at = 0;
  };
  std::unique_ptr<SampleStream> iterate(int64_t) const override { return std::make_unique<Reading>(values); }
  Ids values;
};

// Batches nobody knows the number of.
struct Generated : BatchSource {
  Generated(int64_t batches_, bool drop_last_) : batches(batches_), drop(drop_last_) {}
  struct Reading : BatchStream {
    explicit Reading(int64_t batches_) : batches(batches_) {}
    bool next(IndexBatch& batch) override {
      if (at == batches) return false;
      batch.indices = {2 * at, 2 * at + 1};
      ++at;
      return true;
    }
    int64_t batches, at = 0;
  };
  std::unique_ptr<BatchStream> iterate(int64_t) const override { return std::make_unique<Reading>(batches); }
  bool drop_last() const override { return drop; }
  int64_t batches;
  bool drop;
};

Ids ids(const Batch& batch) {
  const auto view = batch.as_tensor().view<int64_t>();
  return {view.begin(), view.end()};
}

std::vector<Ids> batches_of(const DataLoader& loader) {
  std::vector<Ids> all;
  for (auto& batch : loader) all.push_back(ids(batch));
  return all;
}

std::vector<Ids> batches_of(const BatchSource& source) {
  std::vector<Ids> all;
  auto stream = source.iterate(0);
  for (IndexBatch batch; stream->next(batch);) all.push_back(batch.indices);
  return all;
}

Ids joined(const std::vector<Ids>& lists) {
  Ids all;
  for (const Ids& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

Ids range(int64_t begin, int64_t end) {
  Ids values;
  for (int64_t i = begin; i < end; ++i) values.push_back(i);
  return values;
}

Ids sorted(Ids values) {
  std::sort(values.begin(), values.end());
  return values;
}

// What gather_for_metrics makes of the ranks' batches at each step: joined in rank order, and cut to the samples that
// are not repetitions.
std::vector<Ids> gathered(const std::vector<DataLoaderShard>& ranks) {
  std::vector<Ids> steps;
  std::vector<DataLoader::Iterator> at;
  for (const auto& rank : ranks) at.push_back(rank.begin());
  while (true) {
    Ids step;
    bool any = false;
    for (auto& iterator : at)
      if (!(iterator == std::default_sentinel)) {
        any = true;
        const Ids part = ids(*iterator);
        step.insert(step.end(), part.begin(), part.end());
      }
    if (!any) return steps;
    if (const int64_t real = ranks[0].real_samples(); real >= 0) step.resize(static_cast<size_t>(real));
    steps.push_back(step);
    for (auto& iterator : at)
      if (!(iterator == std::default_sentinel)) ++iterator;
  }
}

template <class D>
std::vector<DataLoaderShard> shards(const D& dataset, const DataLoaderOptions& options, int world,
                                    ShardOptions shard = {}) {
  std::vector<DataLoaderShard> ranks;
  shard.world_size = world;
  for (shard.rank = 0; shard.rank < world; ++shard.rank) ranks.emplace_back(DataLoader(dataset, options), shard);
  return ranks;
}

TEST(Cases, C1_AnEvenLastBatchIsKept) {
  const auto ranks = shards(Items(512), {.batch_size = 16}, 2);
  const auto steps = gathered(ranks);
  ASSERT_EQ(steps.size(), 16u);
  for (const Ids& step : steps) EXPECT_EQ(step.size(), 32u);
  EXPECT_EQ(sorted(joined(steps)), range(0, 512));
  EXPECT_EQ(ranks[0].remainder(), 0);
}

TEST(Cases, C2_DropLastLeavesNothingToTrim) {
  for (const int world : {1, 2, 3}) {
    const auto ranks = shards(Items(world == 1 ? 9 : 5 * world + 4), {.batch_size = 5, .drop_last = true}, world);
    const auto steps = gathered(ranks);
    ASSERT_EQ(steps.size(), 1u);
    EXPECT_EQ(steps[0], range(0, 5 * world));
    EXPECT_EQ(ranks[0].remainder(), -1);
  }
}

TEST(Cases, C4_LengthIsTheNumberOfBatches) {
  const auto base = std::make_shared<BatchSampler>(std::make_shared<SequentialSampler>(3), 2);
  const ShardOptions first = {.rank = 0, .world_size = 2, .split_batches = true, .even_batches = false};
  const ShardOptions second = {.rank = 1, .world_size = 2, .split_batches = true, .even_batches = false};
  EXPECT_EQ(batches_of(BatchSamplerShard(base, first)), (std::vector<Ids>{{0}, {2}}));
  EXPECT_EQ(BatchSamplerShard(base, first).size(), 2);
  EXPECT_EQ(batches_of(BatchSamplerShard(base, second)), (std::vector<Ids>{{1}}));
  EXPECT_EQ(BatchSamplerShard(base, second).size(), 1);

  // The whole kind: lengths, for every way to shard.
  for (int64_t n = 0; n < 40; ++n)
    for (const int64_t batch_size : {1, 2, 3, 4, 6, 12})
      for (const int world : {1, 2, 3, 4})
        for (int bits = 0; bits < 16; ++bits) {
          const ShardOptions base_options = {
              .split_batches = (bits & 1) != 0, .even_batches = (bits & 2) != 0, .allow_uneven = (bits & 8) != 0};
          if (base_options.split_batches && !base_options.allow_uneven && batch_size % world != 0) continue;
          const auto ranks =
              shards(Items(n), {.batch_size = batch_size, .drop_last = (bits & 4) != 0}, world, base_options);
          Ids seen;
          for (const auto& rank : ranks) {
            const int64_t length = rank.size();
            const auto batches = batches_of(rank);
            ASSERT_EQ(std::ssize(batches), length) << n << " " << batch_size << " " << world << " " << bits;
            const Ids all = joined(batches);
            seen.insert(seen.end(), all.begin(), all.end());
          }
          // No sample is lost: every one without drop_last, and all that make whole steps with it.
          const std::set<int64_t> distinct(seen.begin(), seen.end());
          const int64_t step = base_options.split_batches ? batch_size : batch_size * world;
          ASSERT_EQ(std::ssize(distinct), (bits & 4) ? n / step * step : n);
          const bool repeats =
              base_options.even_batches && !(bits & 4) && !(base_options.split_batches && base_options.allow_uneven);
          ASSERT_TRUE(repeats || distinct.size() == seen.size());
        }
}

TEST(Cases, C5_ResumingInsideALaterEpochKeepsItsOrder) {
  const DataLoaderOptions options = {.batch_size = 4, .shuffle = true, .seed = 42};
  const DataLoader straight(Items(500), options);
  std::vector<Ids> want = batches_of(straight);
  ASSERT_EQ(want.size(), 125u);
  for (const Ids& batch : batches_of(straight)) want.push_back(batch);

  // Saved at step 200: epoch 1, 75 batches done.
  const DataLoader saved(Items(500), options);
  Tree state;
  int64_t steps = 0;
  for (int epoch = 0; epoch < 2 && steps < 200; ++epoch)
    for (auto& batch : saved) {
      EXPECT_EQ(ids(batch), want[static_cast<size_t>(steps)]);
      if (++steps == 200) {
        state = saved.state_dict();
        break;
      }
    }
  EXPECT_EQ(state["epoch"].as_int(), 1);
  EXPECT_EQ(state["batches"].as_int(), 75);

  const std::vector<Ids> rest(want.begin() + 200, want.end());
  const DataLoader restored(Items(500), options);
  restored.load_state_dict(state);
  EXPECT_EQ(restored.size(), 50);
  EXPECT_EQ(batches_of(restored), rest);

  // Skipping by hand, on top of the restored state, skips once; and works with the epoch alone.
  const DataLoader again(Items(500), options);
  again.load_state_dict(state);
  EXPECT_EQ(batches_of(skip_first_batches(again, 75)), rest);
  const DataLoader by_hand(Items(500), options);
  by_hand.set_epoch(1);
  EXPECT_EQ(batches_of(skip_first_batches(by_hand, 75)), rest);
  EXPECT_EQ(by_hand.epoch(), 2);
  EXPECT_EQ(again.epoch(), 2);
  EXPECT_EQ(batches_of(again), batches_of(by_hand));
}

TEST(Cases, C7_AnUnseededShuffleResumesToo) {
  for (const int world : {1, 2}) {
    const DataLoaderOptions options = {.batch_size = 2 / world, .shuffle = true};
    std::vector<DataLoaderShard> before = shards(Items(64), options, world), after = shards(Items(64), options, world);
    Ids seen;
    for (int rank = 0; rank < world; ++rank) {
      const auto& loader = before[static_cast<size_t>(rank)];
      Tree state;
      for (auto& batch : loader) {
        for (const int64_t id : ids(batch)) seen.push_back(id);
        state = loader.state_dict();
        if (loader.batches_done() == 10) break;  // 20 samples in all
      }
      after[static_cast<size_t>(rank)].load_state_dict(state);
      for (const int64_t id : joined(batches_of(after[static_cast<size_t>(rank)]))) seen.push_back(id);
    }
    EXPECT_EQ(sorted(seen), range(0, 64));  // none twice, none missing
  }
}

TEST(Cases, C8_ASkipHoldsForOnePass) {
  const DataLoader loader(Items(10), {.batch_size = 1, .shuffle = true, .seed = 1});
  const DataLoader skipped = skip_first_batches(loader, 3);
  EXPECT_EQ(skipped.size(), 7);
  EXPECT_EQ(batches_of(skipped).size(), 7u);
  EXPECT_EQ(skipped.size(), 10);
  EXPECT_EQ(batches_of(skipped).size(), 10u);
  EXPECT_EQ(batches_of(loader).size(), 10u);
  EXPECT_EQ(loader.epoch(), 3);
  EXPECT_EQ(batches_of(skip_first_batches(loader, 30)).size(), 0u);
}

TEST(Cases, C10_AStreamOfItsOwnIsNotShardedAgain) {
  std::set<int64_t> seen;
  for (int rank = 0; rank < 2; ++rank) {
    const DataLoaderShard loader(DataLoader(Stream(range(100 * rank, 100 * rank + 8)), {.batch_size = 2}),
                                 {.rank = rank, .world_size = 2, .shard_iterable_dataset = false});
    const Ids mine = joined(batches_of(loader));
    EXPECT_EQ(mine.size(), 8u);
    seen.insert(mine.begin(), mine.end());
  }
  EXPECT_EQ(seen.size(), 16u);
}

TEST(Cases, C11_DropLastWithoutALength) {
  for (const int64_t batches : {0, 1, 4, 5, 6})
    for (const int world : {2, 3}) {
      for (int rank = 0; rank < world; ++rank) {
        const DataLoaderShard loader(
            DataLoader(Items(20), {.batch_sampler = std::make_shared<Generated>(batches, true)}),
            {.rank = rank, .world_size = world});
        EXPECT_FALSE(loader.sized());
        EXPECT_EQ(std::ssize(batches_of(loader)), batches / world);
      }
    }
}

TEST(Cases, C14_EveryEpochHasItsOwnOrder) {
  const auto ranks = shards(Items(22), {.batch_size = 3, .shuffle = true, .seed = 4}, 2);
  std::set<Ids> orders;
  for (int epoch = 0; epoch < 3; ++epoch) {
    const Ids order = joined(gathered(ranks));
    EXPECT_EQ(sorted(order), range(0, 22)) << "each sample once";
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 3u);
}

// Beyond single rows: after cutting to real_samples, each sample comes exactly once an epoch, for every kind of loader.
TEST(Cases, EachSampleOnceAfterGathering) {
  for (int64_t n = 0; n < 30; ++n)
    for (const int64_t batch_size : {1, 2, 4, 12})
      for (const int world : {1, 2, 3, 4})
        for (const bool split : {false, true}) {
          if (split && batch_size % world != 0) continue;
          const ShardOptions options = {.split_batches = split};
          const auto maps = shards(Items(n), {.batch_size = batch_size, .shuffle = true}, world, options);
          ASSERT_EQ(sorted(joined(gathered(maps))), range(0, n)) << n << " " << batch_size << " " << world;
          const auto streams = shards(Stream(range(0, n)), {.batch_size = batch_size}, world, options);
          ASSERT_EQ(joined(gathered(streams)), range(0, n)) << n << " " << batch_size << " " << world;
          std::vector<DataLoaderShard> varied;
          for (int rank = 0; rank < world; ++rank)
            varied.emplace_back(DataLoader(Items(20), {.batch_sampler = std::make_shared<Generated>(n % 10, false)}),
                                ShardOptions{.rank = rank, .world_size = world});
          ASSERT_EQ(joined(gathered(varied)), range(0, 2 * (n % 10)));
        }
}

// A pass that begins anywhere gives what the whole pass gives from there on, on every rank and for every kind.
TEST(Cases, SkippingEqualsReading) {
  for (const int64_t n : {0, 1, 5, 11, 12, 24, 25})
    for (const int64_t batch_size : {1, 2, 6})
      for (const int world : {1, 2, 3})
        for (int bits = 0; bits < 8; ++bits) {
          const ShardOptions options = {.split_batches = (bits & 1) != 0, .even_batches = (bits & 2) != 0};
          if (options.split_batches && batch_size % world != 0) continue;
          const DataLoaderOptions loader_options = {.batch_size = batch_size, .drop_last = (bits & 4) != 0};
          for (const bool stream : {false, true}) {
            const auto ranks = stream ? shards(Stream(range(0, n)), loader_options, world, options)
                                      : shards(Items(n), loader_options, world, options);
            for (const auto& rank : ranks) {
              const auto whole = batches_of(rank);
              for (size_t skip = 0; skip <= whole.size() + 1; ++skip) {
                const auto from = whole.begin() + static_cast<std::ptrdiff_t>(std::min(skip, whole.size()));
                ASSERT_EQ(batches_of(skip_first_batches(rank, static_cast<int64_t>(skip))),
                          std::vector<Ids>(from, whole.end()))
                    << n << " " << batch_size << " " << world << " " << bits << " " << stream << " " << skip;
              }
            }
          }
        }
}

TEST(Shard, UnevenPartsKeepTheGlobalOrder) {
  const auto order = joined(batches_of(DataLoader(Items(40), {.batch_size = 16, .shuffle = true, .seed = 6})));
  for (const int world : {1, 2, 3, 5}) {
    const auto ranks = shards(Items(40), {.batch_size = 16, .shuffle = true, .seed = 6}, world,
                              {.split_batches = true, .allow_uneven = true});
    EXPECT_EQ(joined(gathered(ranks)), order);
    for (const auto& rank : ranks) EXPECT_EQ(rank.size(), 3);
  }
  // Batches smaller than the number of ranks: some get none, and all the same number of batches.
  const auto ranks = shards(Items(3), {.batch_size = 2}, 3, {.split_batches = true, .allow_uneven = true});
  EXPECT_EQ(batches_of(ranks[0]), (std::vector<Ids>{{0}, {2}}));
  EXPECT_EQ(batches_of(ranks[1]), (std::vector<Ids>{{1}, {}}));
  EXPECT_EQ(batches_of(ranks[2]), (std::vector<Ids>{{}, {}}));
  EXPECT_EQ(even_part(16, 1, 3), (std::pair<int64_t, int64_t>{6, 11}));
}

TEST(Shard, BadRanksAndShardsOfShards) {
  const DataLoader loader(Items(10), {.batch_size = 3});
  EXPECT_THROW(DataLoaderShard(loader, {.rank = 2, .world_size = 2}), Error);
  EXPECT_THROW(DataLoaderShard(loader, {.rank = -1, .world_size = 2}), Error);
  EXPECT_THROW(DataLoaderShard(loader, {.rank = 0, .world_size = 2, .split_batches = true}), Error);
  const DataLoaderShard shard(loader, {.rank = 0, .world_size = 2});
  EXPECT_THROW(DataLoaderShard(shard, {.rank = 0, .world_size = 2}), Error);
  EXPECT_THROW(DataLoaderShard(DataLoader(Items(20), {.batch_sampler = std::make_shared<Generated>(3, false)}),
                               {.rank = 0, .world_size = 2, .split_batches = true}),
               Error);
}

}  // namespace
}  // namespace weft::data
