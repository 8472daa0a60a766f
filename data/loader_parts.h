// What a DataLoader reads and how, apart from where it stands. For loader.cpp and shard.cpp, which derives the parts of
// a rank's loader from those of the whole.
#pragma once
#include "data/loader.h"
#include "data/pipeline.h"

namespace weft::data::detail {

struct LoaderParts {
  // Either a dataset and batches of its indices …
  std::shared_ptr<const Dataset> dataset;
  std::shared_ptr<const BatchSource> batches;
  // … or a stream and the number of its samples that make a batch of this loader.
  std::shared_ptr<const IterableDataset> stream;
  int64_t stream_batch_size = 1;
  bool stream_drop_last = false;
  uint64_t stream_key = 0;  // differs between ranks whose streams are not the same

  Collate collate;
  int num_workers = 0;
  int prefetch_factor = 2;
  std::shared_ptr<uint64_t> seed = std::make_shared<uint64_t>(0);  // shared by loaders made from one another
  Device device = {};                                              // where batches are handed out

  int rank = 0;
  int world_size = 1;
  std::optional<int64_t> batches_per_epoch;
  std::optional<int64_t> total_batch_size;
  std::optional<int64_t> total_dataset_length;
  int64_t remainder = -1;
  // Samples that one step of all ranks takes from the dataset; none when it varies.
  std::optional<int64_t> samples_per_step;
};

// Reads one epoch, from batch `first` on.
std::unique_ptr<BatchProducer> make_producer(const LoaderParts& parts, int64_t epoch, int64_t first);

// A loader at the start of epoch 0.
std::shared_ptr<LoaderCore> make_core(LoaderParts parts);

}  // namespace weft::data::detail
