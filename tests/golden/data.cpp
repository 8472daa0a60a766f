// Cases of data_*: samplers, shards and loaders replayed item by item, and the random generators.
#include <functional>
#include <string>
#include <vector>

#include "data/loader.h"
#include "data/shard.h"
#include "tests/golden/groups.h"
#include "tests/golden/random.h"

namespace weft::testing {
namespace {

using namespace weft::data;

// Item i of a dataset is the integer i.
struct Items : Dataset {
  explicit Items(int64_t size) : count(size) {}
  int64_t size() const override { return count; }
  Sample get(int64_t index) const override { return Sample(Tree(index)); }
  int64_t count;
};

struct ItemStream : IterableDataset {
  ItemStream(int64_t size, bool sized_) : count(size), sized(sized_) {}
  struct Stream : SampleStream {
    explicit Stream(int64_t size) : count(size) {}
    bool next(Sample& sample) override {
      if (at == count) return false;
      sample = Sample(Tree(at++));
      return true;
    }
    int64_t at = 0, count;
  };
  std::unique_ptr<SampleStream> iterate(int64_t) const override { return std::make_unique<Stream>(count); }
  std::optional<int64_t> size() const override { return sized ? std::optional(count) : std::nullopt; }
  int64_t count;
  bool sized;
};

Tree list_of(const std::vector<int64_t>& values) {
  Tree::List list;
  for (const int64_t value : values) list.emplace_back(value);
  return list;
}

Tree list_of(const Batch& batch) {
  Tree::List list;
  for (const double value : batch.as_tensor().to_vector()) list.emplace_back(static_cast<int64_t>(value));
  return list;
}

// Batches of the given sizes, consecutive indices.
struct GivenBatches : BatchSource {
  GivenBatches(std::vector<int64_t> sizes_, bool drop_last_) : sizes(std::move(sizes_)), drop(drop_last_) {}
  struct Stream : BatchStream {
    explicit Stream(std::vector<int64_t> sizes_) : sizes(std::move(sizes_)) {}
    bool next(IndexBatch& batch) override {
      if (at == sizes.size()) return false;
      batch.indices.clear();
      for (int64_t i = 0; i < sizes[at]; ++i) batch.indices.push_back(index++);
      ++at;
      return true;
    }
    std::vector<int64_t> sizes;
    size_t at = 0;
    int64_t index = 0;
  };
  std::unique_ptr<BatchStream> iterate(int64_t) const override { return std::make_unique<Stream>(sizes); }
  std::optional<int64_t> size() const override { return static_cast<int64_t>(sizes.size()); }
  bool drop_last() const override { return drop; }
  std::vector<int64_t> sizes;
  bool drop;
};

// An optional length against a number or {"raises": …}.
void expect_length(std::optional<int64_t> got, const Tree& want, std::string_view what) {
  if (want.is_map()) {
    if (got) fail(ErrorCode::internal, "golden", "{}: got {}, expected none", what, *got);
  } else {
    expect_equal(got ? Tree(*got) : Tree(), want, what);
  }
}

ShardOptions shard_options(const Tree& c, int rank) {
  return {.rank = rank,
          .world_size = static_cast<int>(c["world"].as_int()),
          .split_batches = c.contains("split_batches") && c["split_batches"].as_bool(),
          .even_batches = !c.contains("even_batches") || c["even_batches"].as_bool()};
}

std::shared_ptr<BatchSampler> batches_of(const Tree& c, int64_t n) {
  return std::make_shared<BatchSampler>(std::make_shared<SequentialSampler>(n), c["batch_size"].as_int(),
                                        c.contains("drop_last") && c["drop_last"].as_bool());
}

Tree all_batches(const BatchSource& source) {
  Tree::List list;
  auto stream = source.iterate(0);
  for (IndexBatch batch; stream->next(batch);) list.push_back(list_of(batch.indices));
  return list;
}

// The part of a loader's pass that `want` describes: batches, flags, lengths.
void check_pass(const DataLoader& loader, const Tree& want) {
  if (want.contains("len"))
    expect_length(loader.sized() ? std::optional(loader.size()) : std::nullopt, want["len"], "len");
  if (want.contains("total_batch_size"))
    expect_length(loader.total_batch_size(), want["total_batch_size"], "total_batch_size");
  if (want.contains("total_dataset_length"))
    expect_length(loader.total_dataset_length(), want["total_dataset_length"], "total_dataset_length");
  Tree::List batches, ends, remainders;
  for (auto& batch : loader) {
    batches.push_back(list_of(batch));
    ends.emplace_back(loader.end_of_dataloader());
    remainders.emplace_back(loader.remainder());
  }
  expect_equal(Tree(batches), want["batches"], "batches");
  if (want.contains("end_of_dataloader")) expect_equal(Tree(ends), want["end_of_dataloader"], "end_of_dataloader");
  if (want.contains("remainder")) expect_equal(Tree(remainders), want["remainder"], "remainder");
  if (want.contains("after")) {
    expect_equal(loader.end_of_dataloader(), want["after"]["end_of_dataloader"], "end_of_dataloader after");
    if (want["after"].contains("remainder"))
      expect_equal(loader.remainder(), want["after"]["remainder"], "remainder after");
  }
}

void check_batch_sampler_shard(const std::string& key, const Tree& c) {
  const int world = static_cast<int>(c["world"].as_int());
  for (int rank = 0; rank < world; ++rank) {
    const ShardOptions options = shard_options(c, rank);
    std::shared_ptr<BatchSource> base;
    if (key == "no_batch_size") {
      std::vector<int64_t> sizes;
      for (const Tree& size : c["batch_sizes"].as_list()) sizes.push_back(size.as_int());
      base = std::make_shared<GivenBatches>(sizes, c["drop_last"].as_bool());
    } else {
      base = batches_of(c, c.contains("n") ? c["n"].as_int() : 10);
    }
    if (c.contains("raises")) {
      expect_throws([&] { BatchSamplerShard(base, options); });
      continue;
    }
    const BatchSamplerShard shard(base, options);
    expect_equal(all_batches(shard), c["ranks"][rank], fmt::format("rank {}", rank));
    expect_length(shard.size(), c["len"][rank], "len");
    if (c.contains("total_length")) expect_length(shard.total_length(), c["total_length"], "total_length");
  }
}

void check_iterable_shard(const std::string&, const Tree& c) {
  const int world = static_cast<int>(c["world"].as_int());
  for (int rank = 0; rank < world; ++rank) {
    const auto make = [&] {
      return IterableDatasetShard(std::make_shared<ItemStream>(c.contains("n") ? c["n"].as_int() : 10, true),
                                  c["batch_size"].as_int(), c.contains("drop_last") && c["drop_last"].as_bool(),
                                  shard_options(c, rank));
    };
    if (c.contains("raises") || c["ranks"][rank].is_map()) {
      expect_throws(make);
      continue;
    }
    const IterableDatasetShard shard = make();
    Tree::List got;
    auto stream = shard.iterate(0);
    for (Sample sample; stream->next(sample);) got.push_back(sample);
    expect_equal(Tree(got), c["ranks"][rank], fmt::format("rank {}", rank));
    expect_length(shard.size(), c["len"][rank], "len");
  }
}

DataLoader whole_loader(const Tree& c, const std::string& kind) {
  const DataLoaderOptions options = {.batch_size = c["batch_size"].as_int(), .drop_last = c["drop_last"].as_bool()};
  const int64_t n = c["n"].as_int();
  if (kind == "map") return DataLoader(std::make_shared<Items>(n), options);
  return DataLoader(std::make_shared<ItemStream>(n, kind == "sized_iterable"), options);
}

void check_loader_shard(const std::string&, const Tree& c) {
  for (int rank = 0; rank < static_cast<int>(c["world"].as_int()); ++rank) {
    const DataLoader whole = whole_loader(c, c["dataset"].as_string());
    if (c["ranks"][rank].contains("raises")) {
      expect_throws([&] { DataLoaderShard(whole, shard_options(c, rank)); });
    } else {
      check_pass(DataLoaderShard(whole, shard_options(c, rank)), c["ranks"][rank]);
    }
  }
}

void check_skip_first_batches(const std::string& key, const Tree& c) {
  const int64_t skip = c["skip"].as_int();
  if (key == "prepared") {
    for (int rank = 0; rank < static_cast<int>(c["world"].as_int()); ++rank)
      check_pass(skip_first_batches(DataLoaderShard(whole_loader(c, "map"), shard_options(c, rank)), skip),
                 c["ranks"][rank]);
    return;
  }
  if (key == "batch_sampler") {
    const int64_t n = c["n"].as_int();
    const DataLoader loader(std::make_shared<Items>(n), {.batch_sampler = batches_of(c, n)});
    const DataLoader skipped = skip_first_batches(loader, skip);
    expect_length(skipped.batches_per_epoch(), c["total_length"], "total_length");
    return check_pass(skipped, c);
  }
  check_pass(skip_first_batches(whole_loader(c, key == "iterable_dataloader" ? "iterable" : "map"), skip), c);
}

void check_seedable_sampler(const std::string&, const Tree& c) {
  const int64_t n = c["n"].as_int();
  const auto order = [&](const RandomSampler& sampler, int64_t epoch) {
    std::vector<int64_t> indices(static_cast<size_t>(sampler.size()));
    sampler.iterate(epoch)->read(indices);
    return list_of(indices);
  };
  const auto seed = static_cast<uint64_t>(c["data_seed"].as_int());
  const RandomSampler sampler(n, {.seed = seed});
  for (int64_t epoch = 0; epoch < c["epochs"].size(); ++epoch)
    expect_equal(order(sampler, epoch), c["epochs"][epoch], fmt::format("epoch {}", epoch));
  expect_equal(order(sampler, 5), c["epoch_5"], "epoch 5");
  expect_equal(order(RandomSampler(n, {.seed = seed, .num_samples = n + 5}), 0), c["num_samples_n_plus_5"], "n + 5");
  expect_equal(order(RandomSampler(n, {.seed = seed, .replacement = true}), 0), c["replacement"], "replacement");
}

using Check = std::function<void(const std::string& key, const Tree& c)>;

Check check_of(const std::string& name) {
  if (name == "data_batch_sampler_shard") return check_batch_sampler_shard;
  if (name == "data_iterable_shard") return check_iterable_shard;
  if (name == "data_loader_shard") return check_loader_shard;
  if (name == "data_skip_first_batches") return check_skip_first_batches;
  if (name == "data_seedable_sampler") return check_seedable_sampler;
  if (name == "data_rng") return check_random;
  return {};
}

}  // namespace

void run_data(const GoldenFile& file, Report& report) {
  const Check check = check_of(file.name);
  for_each_case(file, [&](const std::string& key, const Tree& c) {
    report.run(file.name + "." + key, c, [&] {
      if (!check) throw Skip{fmt::format("{} is not in this version", file.name)};
      check(key, c);
    });
  });
}

}  // namespace weft::testing
