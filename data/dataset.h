// Datasets: where samples come from.
//
//   struct Squares : data::Dataset {
//     int64_t size() const override { return 100; }
//     data::Sample get(int64_t i) const override { return {{"input", i}, {"target", i * i}}; }
//   };
//   data::TensorDataset pairs({{"input", images}, {"target", labels}});      // row i of each tensor
//
// A Dataset gives any sample by its index; an IterableDataset only one after another (a stream, a file too large to
// index). Both are read by several threads at once, so get() and iterate() must not change the object.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "data/batch.h"

namespace weft::data {

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  virtual Sample get(int64_t index) const = 0;
  // Samples stacked. Override it where a batch can be made faster than sample by sample. By default: get() of each index
  // and default_collate; an error names the index. No indices give tensors with a first dimension of 0.
  virtual Batch get_batch(std::span<const int64_t> indices) const;
  // True when get() takes any index from 0 and size() is only the length of an epoch. A loader that does not shuffle
  // then goes on counting from epoch to epoch instead of repeating itself.
  virtual bool endless() const { return false; }
};

// Row i of every tensor. Nothing is copied but what a batch gathers.
class TensorDataset final : public Dataset {
 public:
  // All tensors have the same first size. They are on the CPU.
  explicit TensorDataset(OrderedMap<Tensor> tensors);
  TensorDataset(std::initializer_list<OrderedMap<Tensor>::value_type> tensors)
      : TensorDataset(OrderedMap<Tensor>(tensors)) {}
  int64_t size() const override { return size_; }
  Sample get(int64_t index) const override;
  Batch get_batch(std::span<const int64_t> indices) const override;
  const OrderedMap<Tensor>& tensors() const { return tensors_; }

 private:
  OrderedMap<Tensor> tensors_;
  int64_t size_ = 0;
};

// Some samples of another dataset, in the order of `indices`.
class Subset final : public Dataset {
 public:
  Subset(std::shared_ptr<const Dataset> dataset, std::vector<int64_t> indices);
  int64_t size() const override { return static_cast<int64_t>(indices_.size()); }
  Sample get(int64_t index) const override;
  Batch get_batch(std::span<const int64_t> indices) const override;

 private:
  int64_t at(int64_t index) const;
  std::shared_ptr<const Dataset> dataset_;
  std::vector<int64_t> indices_;
};

// Samples one after another. One thread at a time calls it.
class SampleStream {
 public:
  virtual ~SampleStream() = default;
  virtual bool next(Sample& sample) = 0;
  // Leaves out up to `count` samples; returns how many there were. Override it where that is cheaper than reading.
  virtual int64_t skip(int64_t count);
  // See IndexBatch::real_samples, for the batch that the last sample belongs to.
  virtual int64_t real_samples() const { return -1; }
};

class IterableDataset {
 public:
  virtual ~IterableDataset() = default;
  // A new reading from the start. Must give the same samples each time it is asked for the same epoch.
  virtual std::unique_ptr<SampleStream> iterate(int64_t epoch) const = 0;
  // Samples an epoch, if known.
  virtual std::optional<int64_t> size() const { return std::nullopt; }
};

// samples[i] = dataset.get(indices[i]); an error names the index that failed and nests the original one.
std::vector<Sample> get_samples(const Dataset& dataset, std::span<const int64_t> indices);

}  // namespace weft::data
