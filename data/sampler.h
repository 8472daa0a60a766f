// Samplers say in which order an epoch visits a dataset; batch samplers cut that order into batches.
//
//   auto sampler = std::make_shared<data::RandomSampler>(1000, data::RandomSamplerOptions{.seed = 42});
//   data::BatchSampler batches(sampler, 64, /*drop_last=*/true);
//   auto stream = batches.iterate(/*epoch=*/3);
//   for (data::IndexBatch batch; stream->next(batch);) …        // batch.indices: 64 indices
//
// An order is a pure function of the sampler and the number of the epoch. So every rank computes the same one, a pass
// can begin anywhere (skip), and nothing but (seed, epoch, batches done) needs saving to resume a run exactly.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace weft::data {

// The indices of one epoch, in order.
class IndexStream {
 public:
  virtual ~IndexStream() = default;
  // Fills `out` from its front; returns how many there were, fewer than asked for only at the end.
  virtual int64_t read(std::span<int64_t> out) = 0;
  // Leaves out the next `count` indices (or all that are left).
  virtual void skip(int64_t count);
};

class Sampler {
 public:
  virtual ~Sampler() = default;
  // Indices an epoch gives.
  virtual int64_t size() const = 0;
  virtual std::unique_ptr<IndexStream> iterate(int64_t epoch) const = 0;
  // The seed of the order; none where there is nothing random. Ranks that share a dataset need the same one.
  virtual std::optional<uint64_t> seed() const { return std::nullopt; }
  virtual void set_seed(uint64_t) {}
};

// 0, 1, … size - 1 in every epoch. With `continued`, epoch e goes on counting at e × size: for datasets that make up a
// sample for any index (Dataset::endless).
class SequentialSampler final : public Sampler {
 public:
  explicit SequentialSampler(int64_t size, bool continued = false);
  int64_t size() const override { return size_; }
  std::unique_ptr<IndexStream> iterate(int64_t epoch) const override;

 private:
  int64_t size_;
  bool continued_;
};

struct RandomSamplerOptions {
  uint64_t seed = 0;
  bool replacement = false;                 // draw with replacement
  std::optional<int64_t> num_samples = {};  // indices an epoch; default: the size of the dataset
};

// A shuffle that differs from epoch to epoch: epoch e is what torch's RandomSampler gives from a CPU generator seeded
// with seed + e. More samples than the dataset has take another permutation from the same generator.
class RandomSampler final : public Sampler {
 public:
  explicit RandomSampler(int64_t dataset_size, RandomSamplerOptions options = {});
  int64_t size() const override { return options_.num_samples.value_or(dataset_size_); }
  std::unique_ptr<IndexStream> iterate(int64_t epoch) const override;
  std::optional<uint64_t> seed() const override { return options_.seed; }
  void set_seed(uint64_t seed) override { options_.seed = seed; }

 private:
  int64_t dataset_size_;
  RandomSamplerOptions options_;
};

// One batch of indices.
struct IndexBatch {
  std::vector<int64_t> indices;
  // How many samples of the dataset the global batch holds (the batches of all ranks at this step together), where
  // some were repeated to fill it; -1: nothing was filled.
  int64_t real_samples = -1;
};

// The batches of one epoch, in order.
class BatchStream {
 public:
  virtual ~BatchStream() = default;
  // The next batch, or false at the end.
  virtual bool next(IndexBatch& batch) = 0;
  // Leaves out the next `count` batches (or all that are left).
  virtual void skip(int64_t count);
};

// Anything that gives batches of indices. Derive from it for batches of one's own; only iterate() is needed.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Must give the same batches each time it is asked for the same epoch.
  virtual std::unique_ptr<BatchStream> iterate(int64_t epoch) const = 0;
  // Batches an epoch; none when it is not known before they are made.
  virtual std::optional<int64_t> size() const { return std::nullopt; }
  // Samples in a full batch; none when batches vary in size.
  virtual std::optional<int64_t> batch_size() const { return std::nullopt; }
  // Whether a short batch at the end was left out (and, when sharded, an incomplete round of ranks shall be).
  virtual bool drop_last() const { return false; }
  // Samples in all batches of an epoch, if known.
  virtual std::optional<int64_t> samples() const { return std::nullopt; }
  // The sampler below, if there is one.
  virtual std::shared_ptr<Sampler> sampler() const { return nullptr; }
};

// Batches of `batch_size` consecutive indices of a sampler; the last one may be short, unless drop_last leaves it out.
class BatchSampler final : public BatchSource {
 public:
  BatchSampler(std::shared_ptr<Sampler> sampler, int64_t batch_size, bool drop_last = false);
  std::unique_ptr<BatchStream> iterate(int64_t epoch) const override;
  std::optional<int64_t> size() const override;
  std::optional<int64_t> batch_size() const override { return batch_size_; }
  bool drop_last() const override { return drop_last_; }
  std::optional<int64_t> samples() const override;
  std::shared_ptr<Sampler> sampler() const override { return sampler_; }

 private:
  std::shared_ptr<Sampler> sampler_;
  int64_t batch_size_;
  bool drop_last_;
};

}  // namespace weft::data
