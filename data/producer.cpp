// The two kinds of producers behind a DataLoader: batches of indices, and batches read from a stream.
#include <limits>

#include "data/failure.h"
#include "data/loader_parts.h"
#include "tensor/random.h"

namespace weft::data::detail {
namespace {

// The thread's default generator, seeded for one batch and put back afterwards.
class GeneratorScope {
 public:
  explicit GeneratorScope(uint64_t seed) : saved_(default_generator()) { default_generator().manual_seed(seed); }
  ~GeneratorScope() { default_generator() = saved_; }
  GeneratorScope(const GeneratorScope&) = delete;
  GeneratorScope& operator=(const GeneratorScope&) = delete;

 private:
  Generator saved_;
};

// 64 well-mixed bits: the finaliser of SplitMix64 (Steele, Lea & Flood 2014), applied to each word in turn.
uint64_t mix(std::initializer_list<uint64_t> words) {
  uint64_t state = 0;
  for (const uint64_t word : words) {
    state += word + 0x9e3779b97f4a7c15u;
    state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
    state = (state ^ (state >> 27)) * 0x94d049bb133111ebu;
    state ^= state >> 31;
  }
  return state;
}

std::string first_few(const std::vector<int64_t>& indices) {
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(indices.size(), 8); ++i)
    text += fmt::format("{}{}", i ? ", " : "", indices[i]);
  return indices.size() > 8 ? text + " …" : text;
}

class MapProducer final : public BatchProducer {
 public:
  MapProducer(const LoaderParts& parts, int64_t epoch, int64_t first)
      : dataset_(parts.dataset),
        batches_(parts.batches),
        collate_(parts.collate),
        seed_(*parts.seed),
        epoch_(epoch),
        number_(first),
        stream_(batches_->iterate(epoch)),
        limit_(dataset_->endless() ? std::numeric_limits<int64_t>::max() : dataset_->size()) {
    if (first > 0) stream_->skip(first);
  }
  bool next(BatchJob& job) override {
    job.number = number_;
    try {
      if (!stream_->next(job.indices)) return false;
      for (const int64_t index : job.indices.indices)
        WEFT_CHECK(index >= 0 && index < limit_, "sampler", "index {} is out of range for {} samples", index, limit_);
    } catch (...) {
      rethrow_at("data_loader", fmt::format("batch {} of the sampler", number_));
    }
    ++number_;
    return true;
  }
  Batch run(BatchJob& job) const override {
    const auto& indices = job.indices.indices;
    const uint64_t first = indices.empty() ? 0 : static_cast<uint64_t>(indices.front());
    GeneratorScope scope(mix({seed_, static_cast<uint64_t>(epoch_), first}));
    try {
      return collate_ ? collate_(get_samples(*dataset_, indices)) : dataset_->get_batch(indices);
    } catch (...) {
      rethrow_at("data_loader", fmt::format("batch {} of samples {}", job.number, first_few(indices)));
    }
  }

 private:
  std::shared_ptr<const Dataset> dataset_;
  std::shared_ptr<const BatchSource> batches_;
  Collate collate_;
  uint64_t seed_;
  int64_t epoch_, number_;
  std::unique_ptr<BatchStream> stream_;
  int64_t limit_;  // indices are below
};

class StreamProducer final : public BatchProducer {
 public:
  StreamProducer(const LoaderParts& parts, int64_t epoch, int64_t first)
      : dataset_(parts.stream),
        batch_size_(parts.stream_batch_size),
        drop_last_(parts.stream_drop_last),
        collate_(parts.collate),
        seed_(*parts.seed),
        key_(parts.stream_key),
        epoch_(epoch),
        number_(first),
        to_skip_(first),
        stream_(dataset_->iterate(epoch)) {}
  bool next(BatchJob& job) override {
    job.number = number_;
    job.samples.clear();
    if (ended_) return false;
    GeneratorScope scope(mix({seed_, static_cast<uint64_t>(epoch_), static_cast<uint64_t>(number_), key_}));
    try {
      while (to_skip_ > 0) {
        if (stream_->skip(batch_size_) < batch_size_) return !(ended_ = true);
        --to_skip_;
      }
      while (static_cast<int64_t>(job.samples.size()) < batch_size_) {
        Sample sample;
        if (!stream_->next(sample)) {
          ended_ = true;
          break;
        }
        job.samples.push_back(std::move(sample));
      }
      job.indices.real_samples = stream_->real_samples();
    } catch (...) {
      ended_ = true;
      rethrow_at("data_loader", fmt::format("sample {} of the stream (batch {})",
                                            number_ * batch_size_ + static_cast<int64_t>(job.samples.size()), number_));
    }
    if (job.samples.empty() || (ended_ && drop_last_)) return false;
    ++number_;
    return true;
  }
  Batch run(BatchJob& job) const override {
    try {
      return collate_ ? collate_(job.samples) : default_collate(job.samples);
    } catch (...) {
      rethrow_at("data_loader", fmt::format("batch {}", job.number));
    }
  }

 private:
  std::shared_ptr<const IterableDataset> dataset_;
  int64_t batch_size_;
  bool drop_last_;
  Collate collate_;
  uint64_t seed_, key_;
  int64_t epoch_, number_, to_skip_;
  bool ended_ = false;
  std::unique_ptr<SampleStream> stream_;
};

}  // namespace

std::unique_ptr<BatchProducer> make_producer(const LoaderParts& parts, int64_t epoch, int64_t first) {
  if (parts.stream) return std::make_unique<StreamProducer>(parts, epoch, first);
  return std::make_unique<MapProducer>(parts, epoch, first);
}

}  // namespace weft::data::detail
