#include "data/dataset.h"

#include <cstring>

#include "data/collate.h"
#include "data/failure.h"
#include "tensor/factory.h"

namespace weft::data {

std::vector<Sample> get_samples(const Dataset& dataset, std::span<const int64_t> indices) {
  std::vector<Sample> samples;
  samples.reserve(indices.size());
  for (const int64_t index : indices) {
    try {
      samples.push_back(dataset.get(index));
    } catch (...) {
      rethrow_at("dataset", fmt::format("sample {}", index));
    }
  }
  return samples;
}

Batch Dataset::get_batch(std::span<const int64_t> indices) const {
  if (!indices.empty()) return default_collate(get_samples(*this, indices));
  // The shapes of an empty batch are those of a batch of one, without its row.
  const int64_t any[] = {0};
  return default_collate(get_samples(*this, any)).map_tensors([](const Tensor& t) {
    Shape shape = t.shape();
    shape[0] = 0;
    return t.alias(shape, t.strides(), t.offset());
  });
}

TensorDataset::TensorDataset(OrderedMap<Tensor> tensors) : tensors_(std::move(tensors)) {
  WEFT_CHECK(!tensors_.empty(), "tensor_dataset", "no tensors were given");
  for (auto& [key, tensor] : tensors_) {
    WEFT_CHECK(tensor.defined() && tensor.dim() >= 1, "tensor_dataset", "\"{}\" is {}; expected at least one dimension",
               key, describe(tensor));
    if (&tensor == &tensors_.begin()->second) size_ = tensor.size(0);
    WEFT_CHECK(tensor.size(0) == size_, "tensor_dataset", "\"{}\" has {} rows, \"{}\" has {}", tensors_.begin()->first,
               size_, key, tensor.size(0));
    if (!tensor.is_contiguous()) tensor = tensor.contiguous();
  }
}

Sample TensorDataset::get(int64_t index) const {
  WEFT_CHECK(index >= 0 && index < size_, "tensor_dataset", "index {} is out of range for {} samples", index, size_);
  Tree::Map row;
  for (const auto& [key, tensor] : tensors_) {
    const std::span<const int64_t> sizes = tensor.shape(), strides = tensor.strides();
    row.insert(key, tensor.alias(Shape(sizes.subspan(1)), Strides(strides.subspan(1)),
                                 tensor.offset() + index * tensor.stride(0)));
  }
  return Sample(Tree(std::move(row)));
}

Batch TensorDataset::get_batch(std::span<const int64_t> indices) const {
  for (const int64_t index : indices)
    WEFT_CHECK(index >= 0 && index < size_, "tensor_dataset", "index {} is out of range for {} samples", index, size_);
  Tree::Map rows;
  for (const auto& [key, tensor] : tensors_) {
    Shape shape = tensor.shape();
    shape[0] = static_cast<int64_t>(indices.size());
    Tensor gathered = empty(shape, {.dtype = tensor.dtype()});
    const auto bytes = static_cast<size_t>(size_ > 0 ? tensor.nbytes() / size_ : 0);
    if (bytes > 0 && !indices.empty()) {
      auto* out = static_cast<std::byte*>(gathered.data());
      const auto* in = static_cast<const std::byte*>(tensor.data());
      for (size_t i = 0; i < indices.size(); ++i)
        std::memcpy(out + i * bytes, in + static_cast<size_t>(indices[i]) * bytes, bytes);
    }
    rows.insert(key, std::move(gathered));
  }
  return Batch(Tree(std::move(rows)));
}

Subset::Subset(std::shared_ptr<const Dataset> dataset, std::vector<int64_t> indices)
    : dataset_(std::move(dataset)), indices_(std::move(indices)) {
  WEFT_CHECK(dataset_ != nullptr, "subset", "no dataset was given");
  for (const int64_t index : indices_)
    WEFT_CHECK(index >= 0 && (index < dataset_->size() || dataset_->endless()), "subset",
               "index {} is out of range for {} samples", index, dataset_->size());
}

int64_t Subset::at(int64_t index) const {
  WEFT_CHECK(index >= 0 && index < size(), "subset", "index {} is out of range for {} samples", index, size());
  return indices_[static_cast<size_t>(index)];
}

Sample Subset::get(int64_t index) const { return dataset_->get(at(index)); }

Batch Subset::get_batch(std::span<const int64_t> indices) const {
  std::vector<int64_t> mapped;
  mapped.reserve(indices.size());
  for (const int64_t index : indices) mapped.push_back(at(index));
  return dataset_->get_batch(mapped);
}

int64_t SampleStream::skip(int64_t count) {
  Sample ignored;
  int64_t skipped = 0;
  while (skipped < count && next(ignored)) ++skipped;
  return skipped;
}

}  // namespace weft::data
