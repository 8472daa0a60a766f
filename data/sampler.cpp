#include "data/sampler.h"

#include <algorithm>
#include <array>
#include <limits>

#include "kernels/base/error.h"
#include "tensor/random.h"

namespace weft::data {
namespace {

class Range final : public IndexStream {
 public:
  Range(int64_t next, int64_t stop) : next_(next), stop_(stop) {}
  int64_t read(std::span<int64_t> out) override {
    const int64_t count = std::min(static_cast<int64_t>(out.size()), stop_ - next_);
    for (int64_t i = 0; i < count; ++i) out[static_cast<size_t>(i)] = next_ + i;
    next_ += count;
    return count;
  }
  void skip(int64_t count) override { next_ += std::min(count, stop_ - next_); }

 private:
  int64_t next_, stop_;
};

// Permutations of [0, n) from one generator, one after another, `total` indices in all.
class Permutations final : public IndexStream {
 public:
  Permutations(int64_t n, int64_t total, uint64_t seed)
      : order_(static_cast<size_t>(n)), position_(n), left_(total), generator_(seed) {}

  int64_t read(std::span<int64_t> out) override {
    const int64_t count = std::min(static_cast<int64_t>(out.size()), left_);
    for (int64_t done = 0; done < count;) {
      shuffle_when_used_up();
      const int64_t part = std::min(count - done, size() - position_);
      std::copy_n(order_.begin() + position_, part, out.begin() + done);
      position_ += part;
      done += part;
    }
    left_ -= count;
    return count;
  }
  void skip(int64_t count) override {
    count = std::min(count, left_);
    left_ -= count;
    while (count > 0) {
      shuffle_when_used_up();
      const int64_t part = std::min(count, size() - position_);
      position_ += part;
      count -= part;
    }
  }

 private:
  int64_t size() const { return static_cast<int64_t>(order_.size()); }
  void shuffle_when_used_up() {
    if (position_ < size()) return;
    generator_.fill_permutation(order_.data(), size());
    position_ = 0;
  }
  std::vector<int64_t> order_;
  int64_t position_, left_;
  Generator generator_;
};

class Draws final : public IndexStream {
 public:
  Draws(int64_t n, int64_t total, uint64_t seed) : n_(n), left_(total), generator_(seed) {}
  int64_t read(std::span<int64_t> out) override {
    const int64_t count = std::min(static_cast<int64_t>(out.size()), left_);
    for (int64_t i = 0; i < count; ++i) out[static_cast<size_t>(i)] = generator_.integer(0, n_);
    left_ -= count;
    return count;
  }

 private:
  int64_t n_, left_;
  Generator generator_;
};

class Batches final : public BatchStream {
 public:
  Batches(std::unique_ptr<IndexStream> indices, int64_t total, int64_t batch_size, bool drop_last)
      : indices_(std::move(indices)), total_(total), batch_size_(batch_size), drop_last_(drop_last) {}
  bool next(IndexBatch& batch) override {
    batch.indices.resize(static_cast<size_t>(std::min(batch_size_, total_)));
    const int64_t count = indices_->read(batch.indices);
    batch.indices.resize(static_cast<size_t>(count));
    batch.real_samples = -1;
    return count == batch_size_ || (count > 0 && !drop_last_);
  }
  void skip(int64_t count) override {
    constexpr int64_t most = std::numeric_limits<int64_t>::max();
    indices_->skip(count > most / batch_size_ ? most : count * batch_size_);
  }

 private:
  std::unique_ptr<IndexStream> indices_;
  int64_t total_, batch_size_;
  bool drop_last_;
};

}  // namespace

void IndexStream::skip(int64_t count) {
  std::array<int64_t, 256> ignored;
  while (count > 0) {
    const auto part = std::min<int64_t>(count, static_cast<int64_t>(ignored.size()));
    if (read({ignored.data(), static_cast<size_t>(part)}) < part) return;
    count -= part;
  }
}

void BatchStream::skip(int64_t count) {
  IndexBatch ignored;
  while (count-- > 0 && next(ignored)) {
  }
}

SequentialSampler::SequentialSampler(int64_t size, bool continued) : size_(size), continued_(continued) {
  WEFT_CHECK(size >= 0, "sampler", "expected a size of at least 0, got {}", size);
}

std::unique_ptr<IndexStream> SequentialSampler::iterate(int64_t epoch) const {
  const int64_t first = continued_ ? epoch * size_ : 0;
  return std::make_unique<Range>(first, first + size_);
}

RandomSampler::RandomSampler(int64_t dataset_size, RandomSamplerOptions options)
    : dataset_size_(dataset_size), options_(options) {
  WEFT_CHECK(dataset_size >= 0, "sampler", "expected a size of at least 0, got {}", dataset_size);
  WEFT_CHECK(size() >= 0, "sampler", "expected num_samples of at least 0, got {}", size());
  WEFT_CHECK(dataset_size > 0 || size() == 0, "sampler", "cannot draw {} samples from an empty dataset", size());
}

std::unique_ptr<IndexStream> RandomSampler::iterate(int64_t epoch) const {
  const uint64_t seed = options_.seed + static_cast<uint64_t>(epoch);
  if (options_.replacement) return std::make_unique<Draws>(dataset_size_, size(), seed);
  return std::make_unique<Permutations>(dataset_size_, size(), seed);
}

BatchSampler::BatchSampler(std::shared_ptr<Sampler> sampler, int64_t batch_size, bool drop_last)
    : sampler_(std::move(sampler)), batch_size_(batch_size), drop_last_(drop_last) {
  WEFT_CHECK(sampler_ != nullptr, "batch_sampler", "no sampler was given");
  WEFT_CHECK(batch_size >= 1, "batch_sampler", "expected batch_size of at least 1, got {}", batch_size);
}

std::unique_ptr<BatchStream> BatchSampler::iterate(int64_t epoch) const {
  return std::make_unique<Batches>(sampler_->iterate(epoch), sampler_->size(), batch_size_, drop_last_);
}

std::optional<int64_t> BatchSampler::size() const {
  const int64_t full = sampler_->size() / batch_size_;
  return drop_last_ || sampler_->size() % batch_size_ == 0 ? full : full + 1;
}

std::optional<int64_t> BatchSampler::samples() const { return drop_last_ ? *size() * batch_size_ : sampler_->size(); }

}  // namespace weft::data
