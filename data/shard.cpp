#include "data/shard.h"

#include <algorithm>

#include "data/loader_parts.h"

namespace weft::data {
namespace {

void check_ranks(const ShardOptions& options, std::string_view op) {
  WEFT_CHECK(options.world_size >= 1 && options.rank >= 0 && options.rank < options.world_size, op,
             "expected 0 <= rank < world_size, got rank {} of {}", options.rank, options.world_size);
}

// split_batches: this rank's share of every batch.
class SplitStream final : public BatchStream {
 public:
  SplitStream(std::unique_ptr<BatchStream> batches, int64_t batch_size, bool drop_last, const ShardOptions& options)
      : batches_(std::move(batches)), batch_size_(batch_size), drop_last_(drop_last), options_(options) {}

  bool next(IndexBatch& batch) override {
    if (!read()) return false;
    const auto size = static_cast<int64_t>(batch_.indices.size());
    const int64_t share = batch_size_ / options_.world_size;
    batch.real_samples = -1;
    if (size < batch_size_) {
      if (drop_last_) return false;
      if (options_.even_batches) {
        batch.real_samples = size;
        fill();
      }
    }
    const auto whole = static_cast<int64_t>(batch_.indices.size());
    const int64_t begin = std::min(share * options_.rank, whole), end = std::min(begin + share, whole);
    batch.indices.assign(batch_.indices.begin() + begin, batch_.indices.begin() + end);
    return begin < end;  // without even_batches a short last batch may have nothing for this rank
  }
  void skip(int64_t count) override {
    if (count > 0 && first_.empty() && read()) --count;
    batches_->skip(count);
  }

 private:
  bool read() {
    if (!batches_->next(batch_) || batch_.indices.empty()) return false;
    if (first_.empty()) first_ = batch_.indices;
    return true;
  }
  void fill() {
    for (size_t i = 0; static_cast<int64_t>(batch_.indices.size()) < batch_size_; ++i)
      batch_.indices.push_back(first_[i % first_.size()]);
  }
  std::unique_ptr<BatchStream> batches_;
  int64_t batch_size_;
  bool drop_last_;
  ShardOptions options_;
  IndexBatch batch_;
  std::vector<int64_t> first_;  // the epoch's first batch
};

// split_batches with allow_uneven.
class UnevenStream final : public BatchStream {
 public:
  UnevenStream(std::unique_ptr<BatchStream> batches, const ShardOptions& options)
      : batches_(std::move(batches)), options_(options) {}
  bool next(IndexBatch& batch) override {
    if (!batches_->next(batch_)) return false;
    const auto size = static_cast<int64_t>(batch_.indices.size());
    const auto [begin, end] = even_part(size, options_.rank, options_.world_size);
    batch.indices.assign(batch_.indices.begin() + begin, batch_.indices.begin() + end);
    batch.real_samples = size;
    return true;
  }
  void skip(int64_t count) override { batches_->skip(count); }

 private:
  std::unique_ptr<BatchStream> batches_;
  ShardOptions options_;
  IndexBatch batch_;
};

// Rounds of world_size batches, of which this rank takes one. A round is read whole before anything of it is given, so
// that ranks agree on whether there is one.
class RoundStream final : public BatchStream {
 public:
  RoundStream(std::unique_ptr<BatchStream> batches, std::optional<int64_t> batch_size, bool drop_last,
              const ShardOptions& options)
      : batches_(std::move(batches)), batch_size_(batch_size), drop_last_(drop_last), options_(options) {}

  bool next(IndexBatch& batch) override {
    if (!read()) return false;
    batch.real_samples = -1;
    const size_t ranks = round_.size();
    if (count_ < ranks && drop_last_) return false;
    if (options_.even_batches && !drop_last_) {
      int64_t real = 0;
      for (size_t r = 0; r < count_; ++r) real += static_cast<int64_t>(round_[r].indices.size());
      if (fill()) batch.real_samples = real;
    } else if (static_cast<size_t>(options_.rank) >= count_) {
      return false;
    }
    std::swap(batch.indices, round_[static_cast<size_t>(options_.rank)].indices);
    return !batch.indices.empty();
  }
  void skip(int64_t count) override {
    if (count > 0 && !started_ && read()) --count;  // its batches may be needed to fill the last round
    batches_->skip(count * options_.world_size);
  }

 private:
  bool read() {
    if (ended_) return false;
    round_.resize(static_cast<size_t>(options_.world_size));
    for (count_ = 0; count_ < round_.size(); ++count_)
      if (!batches_->next(round_[count_])) break;
    ended_ = count_ < round_.size();
    if (!started_ && options_.even_batches && !drop_last_) first_.assign(round_.begin(), round_.begin() + count());
    started_ = true;
    return count_ > 0;
  }
  std::ptrdiff_t count() const { return static_cast<std::ptrdiff_t>(count_); }

  // Makes the round complete from the first round: sample by sample where batches have a fixed size, else by whole
  // batches. Says whether anything was missing.
  bool fill() {
    if (!batch_size_) {
      if (count_ == round_.size()) return false;
      for (size_t r = count_; r < round_.size(); ++r) round_[r] = first_[(r - count_) % first_.size()];
      return true;
    }
    std::vector<int64_t> source;
    size_t used = 0;
    for (size_t r = 0; r < round_.size(); ++r) {
      auto& indices = round_[r].indices;
      if (r >= count_) indices.clear();
      if (static_cast<int64_t>(indices.size()) >= *batch_size_) continue;
      if (source.empty())
        for (const auto& batch : first_) source.insert(source.end(), batch.indices.begin(), batch.indices.end());
      if (source.empty()) return false;
      while (static_cast<int64_t>(indices.size()) < *batch_size_) indices.push_back(source[used++ % source.size()]);
    }
    return used > 0;
  }

  std::unique_ptr<BatchStream> batches_;
  std::optional<int64_t> batch_size_;
  bool drop_last_;
  ShardOptions options_;
  std::vector<IndexBatch> round_, first_;
  size_t count_ = 0;  // batches of the round that were there
  bool started_ = false, ended_ = false;
};

class ShardStream final : public SampleStream {
 public:
  ShardStream(std::unique_ptr<SampleStream> samples, int64_t round, int64_t share, bool drop_last, int rank)
      : samples_(std::move(samples)), round_(round), share_(share), before_(share * rank), drop_last_(drop_last) {}

  bool next(Sample& sample) override {
    if (given_ == mine_.size() && !read()) return false;
    sample = std::move(mine_[given_++]);
    return true;
  }
  int64_t skip(int64_t count) override {
    int64_t skipped = 0;
    Sample ignored;
    // Leave the round that was begun, and read the first one: it may be needed to fill the last.
    while (skipped < count && (given_ < mine_.size() || !started_)) {
      if (!next(ignored)) return skipped;
      ++skipped;
    }
    if (const int64_t rounds = (count - skipped) / share_; rounds > 0 && !ended_) {
      const int64_t there = samples_->skip(rounds * round_);
      skipped += there / round_ * share_;
      if (there < rounds * round_) {
        ended_ = true;
        if (there % round_ > 0 && !drop_last_) skipped += share_;
      }
    }
    while (skipped < count && next(ignored)) ++skipped;
    return skipped;
  }
  int64_t real_samples() const override { return real_samples_; }

 private:
  // Reads up to `count` samples to the end of `out`.
  int64_t take(int64_t count, std::vector<Sample>& out) {
    Sample sample;
    int64_t taken = 0;
    for (; taken < count && samples_->next(sample); ++taken) out.push_back(std::move(sample));
    return taken;
  }
  // Finds this rank's share of the next round.
  bool read() {
    mine_.clear();
    given_ = 0;
    real_samples_ = -1;
    if (ended_) return false;
    int64_t real = 0;  // samples that the round really has
    if (!started_) {
      started_ = true;
      real = take(round_, first_);
      for (int64_t i = before_; i < std::min(before_ + share_, real); ++i)
        mine_.push_back(first_[static_cast<size_t>(i)]);
      if (drop_last_) first_.clear();
    } else {
      real = samples_->skip(before_);
      if (real == before_) real += take(share_, mine_);
      if (real == before_ + share_) real += samples_->skip(round_ - real);
    }
    if (real == round_) return true;
    ended_ = true;
    if (real == 0 || drop_last_) {
      mine_.clear();
      return false;
    }
    real_samples_ = real;
    for (int64_t i = before_ + static_cast<int64_t>(mine_.size()); i < before_ + share_; ++i)
      mine_.push_back(first_[static_cast<size_t>(i - real) % first_.size()]);
    return true;
  }

  std::unique_ptr<SampleStream> samples_;
  int64_t round_, share_, before_;
  bool drop_last_;
  std::vector<Sample> first_, mine_;
  size_t given_ = 0;
  int64_t real_samples_ = -1;
  bool started_ = false, ended_ = false;
};

}  // namespace

std::pair<int64_t, int64_t> even_part(int64_t count, int rank, int world_size) {
  const int64_t each = count / world_size, more = count % world_size;
  const int64_t begin = rank * each + std::min<int64_t>(rank, more);
  return {begin, begin + each + (rank < more ? 1 : 0)};
}

BatchSamplerShard::BatchSamplerShard(std::shared_ptr<const BatchSource> batches, ShardOptions options)
    : batches_(std::move(batches)), options_(options) {
  WEFT_CHECK(batches_ != nullptr, "batch_sampler_shard", "no batch sampler was given");
  check_ranks(options_, "batch_sampler_shard");
  if (options_.split_batches && !options_.allow_uneven) {
    const auto batch_size = batches_->batch_size();
    WEFT_CHECK(batch_size.has_value(), "batch_sampler_shard",
               "split_batches needs batches of a fixed size; this batch sampler has no batch_size()");
    WEFT_CHECK(*batch_size % options_.world_size == 0, "batch_sampler_shard",
               "split_batches: batch_size {} is not a multiple of world_size {}", *batch_size, options_.world_size);
  }
  size_ = count_batches();
}

std::unique_ptr<BatchStream> BatchSamplerShard::iterate(int64_t epoch) const {
  auto stream = batches_->iterate(epoch);
  if (!options_.split_batches)
    return std::make_unique<RoundStream>(std::move(stream), batches_->batch_size(), drop_last(), options_);
  if (options_.allow_uneven) return std::make_unique<UnevenStream>(std::move(stream), options_);
  return std::make_unique<SplitStream>(std::move(stream), *batches_->batch_size(), drop_last(), options_);
}

std::optional<int64_t> BatchSamplerShard::batch_size() const {
  const auto size = batches_->batch_size();
  if (!options_.split_batches || !size) return size;
  if (options_.allow_uneven && *size % options_.world_size != 0) return std::nullopt;
  return *size / options_.world_size;
}

std::optional<int64_t> BatchSamplerShard::count_batches() const {
  const auto length = batches_->size();
  if (!length) return std::nullopt;
  const int64_t batches = *length, ranks = options_.world_size;
  if (options_.split_batches) {
    if (options_.allow_uneven || options_.even_batches || drop_last() || batches == 0) return batches;
    const int64_t batch_size = *batches_->batch_size();
    int64_t last = 0;  // samples of the last batch
    if (const auto samples = batches_->samples()) {
      last = *samples - (batches - 1) * batch_size;
    } else {
      auto stream = batches_->iterate(0);
      stream->skip(batches - 1);
      IndexBatch batch;
      if (stream->next(batch)) last = static_cast<int64_t>(batch.indices.size());
    }
    return last > batch_size / ranks * options_.rank ? batches : batches - 1;
  }
  const int64_t rounds = batches / ranks, rest = batches % ranks;
  if (drop_last() || rest == 0) return rounds;
  return options_.even_batches || options_.rank < rest ? rounds + 1 : rounds;
}

IterableDatasetShard::IterableDatasetShard(std::shared_ptr<const IterableDataset> dataset, int64_t batch_size,
                                           bool drop_last, ShardOptions options)
    : dataset_(std::move(dataset)), batch_size_(batch_size), drop_last_(drop_last), options_(options) {
  WEFT_CHECK(dataset_ != nullptr, "iterable_dataset_shard", "no dataset was given");
  WEFT_CHECK(batch_size >= 1, "iterable_dataset_shard", "expected batch_size of at least 1, got {}", batch_size);
  check_ranks(options_, "iterable_dataset_shard");
  WEFT_CHECK(!options_.split_batches || batch_size % options_.world_size == 0, "iterable_dataset_shard",
             "split_batches: batch_size {} is not a multiple of world_size {}", batch_size, options_.world_size);
  round_ = options_.split_batches ? batch_size : batch_size * options_.world_size;
  share_ = round_ / options_.world_size;
}

std::unique_ptr<SampleStream> IterableDatasetShard::iterate(int64_t epoch) const {
  return std::make_unique<ShardStream>(dataset_->iterate(epoch), round_, share_, drop_last_, options_.rank);
}

std::optional<int64_t> IterableDatasetShard::size() const {
  const auto length = dataset_->size();
  if (!length) return std::nullopt;
  const int64_t round = batch_size_ * options_.world_size;
  return (drop_last_ ? *length / round : (*length + round - 1) / round) * batch_size_;
}

namespace {

std::shared_ptr<detail::LoaderCore> make_shard(const DataLoader& loader, const ShardOptions& options) {
  check_ranks(options, "data_loader_shard");
  detail::LoaderParts parts = loader.parts();
  WEFT_CHECK(parts.world_size == 1, "data_loader_shard", "the loader is already that of rank {} of {}", parts.rank,
             parts.world_size);
  parts.rank = options.rank;
  parts.world_size = options.world_size;
  if (options.device.type != DeviceType::cpu) parts.device = options.device;
  if (options.world_size == 1) return detail::make_core(std::move(parts));

  const int64_t factor = options.split_batches ? 1 : options.world_size;
  if (parts.batches) {
    auto shard = std::make_shared<BatchSamplerShard>(parts.batches, options);
    if (const auto batch_size = parts.batches->batch_size()) {
      parts.total_batch_size = parts.samples_per_step = *batch_size * factor;
      if (!parts.batches->drop_last())
        parts.remainder = parts.batches->samples().value_or(*parts.total_dataset_length) % *parts.total_batch_size;
    }
    parts.batches_per_epoch = shard->size();
    parts.batches = std::move(shard);
  } else if (options.shard_iterable_dataset) {
    const auto length = parts.stream->size();
    auto shard =
        std::make_shared<IterableDatasetShard>(parts.stream, parts.stream_batch_size, parts.stream_drop_last, options);
    const int64_t round = shard->round_size();
    parts.samples_per_step = round;
    parts.total_batch_size = parts.stream_batch_size = shard->share_size();
    if (length) {
      parts.batches_per_epoch = (parts.stream_drop_last ? *length : *length + round - 1) / round;
      parts.total_dataset_length = shard->size();
      if (!parts.stream_drop_last) parts.remainder = *shard->size() % *parts.total_batch_size;
    }
    parts.stream = std::move(shard);
  } else {
    parts.stream_key = static_cast<uint64_t>(options.rank);  // its own stream, so its own random numbers
  }
  return detail::make_core(std::move(parts));
}

}  // namespace

DataLoaderShard::DataLoaderShard(const DataLoader& loader, const ShardOptions& options)
    : DataLoader(make_shard(loader, options)) {}

}  // namespace weft::data
