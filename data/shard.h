// Sharding: what each rank reads of one dataset.
//
//   data::DataLoader whole(dataset, {.batch_size = 16, .shuffle = true, .seed = 1});
//   data::DataLoaderShard mine(whole, {.rank = rank, .world_size = world_size});
//   for (auto& batch : mine) …                 // 16 samples a rank and step, other ones on every rank
//
// Ranks never talk to each other for this: each computes the same global order and takes its part. The behaviour is
// that of Hugging Face Accelerate 1.15, where not said otherwise:
//   split_batches = false   batches go round: batch 0 to rank 0, batch 1 to rank 1, …; a step takes world_size of them
//   split_batches = true    each batch is cut into world_size equal parts
//   even_batches = true     every rank gets as many full batches as the others, by repeating the epoch's first samples
//   drop_last               (of the loader) what does not make a full step for all ranks is left out
#pragma once
#include "data/loader.h"

namespace weft::data {

struct ShardOptions {
  int rank = 0;
  int world_size = 1;
  bool split_batches = false;
  bool even_batches = true;
  // With split_batches: batches need not divide by world_size; parts differ by at most one sample, nothing is repeated,
  // and in a batch smaller than world_size some ranks get none. Weigh losses by samples: DataLoader::real_samples() is
  // the size of the whole batch. An addition of Weft's.
  bool allow_uneven = false;
  // False: every rank has a stream of its own, which is read as it is.
  bool shard_iterable_dataset = true;
  // Batches are handed out there.
  Device device = {};
};

// The batches of one rank. Its size() is the number of batches it gives on this rank (Accelerate over-counts some).
class BatchSamplerShard final : public BatchSource {
 public:
  // Throws when split_batches cannot cut the batches evenly, or their size is not fixed.
  BatchSamplerShard(std::shared_ptr<const BatchSource> batches, ShardOptions options);
  std::unique_ptr<BatchStream> iterate(int64_t epoch) const override;
  std::optional<int64_t> size() const override { return size_; }
  std::optional<int64_t> batch_size() const override;  // of this rank
  bool drop_last() const override { return batches_->drop_last(); }
  std::shared_ptr<Sampler> sampler() const override { return batches_->sampler(); }
  // Batches of all ranks' batch sampler.
  std::optional<int64_t> total_length() const { return batches_->size(); }

 private:
  std::optional<int64_t> count_batches() const;
  std::shared_ptr<const BatchSource> batches_;
  ShardOptions options_;
  std::optional<int64_t> size_;
};

// The part of one rank of a stream that all ranks read: of every batch_size × world_size samples (batch_size with
// split_batches) it gives its share. A last, incomplete round is filled from the epoch's first samples, or left out with
// drop_last.
class IterableDatasetShard final : public IterableDataset {
 public:
  IterableDatasetShard(std::shared_ptr<const IterableDataset> dataset, int64_t batch_size, bool drop_last,
                       ShardOptions options);
  std::unique_ptr<SampleStream> iterate(int64_t epoch) const override;
  // Accelerate's count: whole rounds of batch_size × world_size samples, times batch_size, also with split_batches. For
  // batches really given see DataLoader::size().
  std::optional<int64_t> size() const override;
  // Samples that all ranks together take at a time, and those of this rank.
  int64_t round_size() const { return round_; }
  int64_t share_size() const { return share_; }

 private:
  std::shared_ptr<const IterableDataset> dataset_;
  int64_t batch_size_;
  bool drop_last_;
  ShardOptions options_;
  int64_t round_, share_;
};

// The loader of one rank, made from the loader of the whole: same dataset, order, workers and collate. Its passes are
// its own; the seed is shared with `loader`. With world_size 1 it reads what `loader` reads.
class DataLoaderShard : public DataLoader {
 public:
  DataLoaderShard(const DataLoader& loader, const ShardOptions& options);
};

// The part [first, second) of `count` things that is rank's when all ranks' parts differ by at most one; the first
// count % world_size ranks have one more.
std::pair<int64_t, int64_t> even_part(int64_t count, int rank, int world_size);

}  // namespace weft::data
