// DataLoader: batches of a dataset, one pass over it an epoch.
//
//   data::DataLoader loader(data::digits("train"), {.batch_size = 64, .shuffle = true, .num_workers = 2});
//   for (int epoch = 0; epoch < 3; ++epoch)
//     for (auto [x, y] : loader) …                       // a new order each epoch, without set_epoch
//   for (auto& batch : loader) use(batch["input"], batch["target"]);
//
// A loader is a handle: copies share the dataset, the epoch and the position. Every begin() starts a pass. Passes are
// numbered by epoch; a pass that was left by break counts, and the next one is the next epoch. One pass at a time.
//
// Batches come in order whatever the number of workers, and are the same: each is made with the thread's default
// generator seeded by (seed, epoch, first sample), so also samples that draw random numbers do not depend on workers.
// An exception in the dataset ends the pass at its batch and reaches the loop as a weft::Error that names the sample.
//
// Resuming: state_dict() at any batch, load_state_dict() into a loader made alike, and the next pass goes on behind
// that batch. shard.h makes the loaders of many ranks out of one.
#pragma once
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>

#include "data/batch.h"
#include "data/collate.h"
#include "data/dataset.h"
#include "data/sampler.h"

namespace weft::data {

struct DataLoaderOptions {
  int64_t batch_size = 1;
  bool shuffle = false;
  bool drop_last = false;   // leave out a last batch that is short
  int num_workers = 0;      // threads that make batches; 0: the calling thread does, when a batch is asked for
  int prefetch_factor = 2;  // batches each worker may be ahead
  std::optional<uint64_t> seed = {};                     // of the shuffle; default: default_generator().seed()
  std::shared_ptr<Sampler> sampler = nullptr;            // instead of shuffle
  std::shared_ptr<BatchSource> batch_sampler = nullptr;  // instead of batch_size, shuffle, sampler and drop_last
  Device device = {};                                    // batches are made on the CPU and moved there
  Collate collate = nullptr;                             // instead of the dataset's own get_batch
};

namespace detail {
struct LoaderParts;  // loader_parts.h: what a loader reads and how
struct LoaderCore;
class LoaderPass;
}  // namespace detail

class DataLoader {
 public:
  DataLoader(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options = {});
  // A stream: neither shuffle, sampler nor batch_sampler apply.
  DataLoader(std::shared_ptr<const IterableDataset> dataset, DataLoaderOptions options = {});
  // The same with a dataset by value: DataLoader(Squares{}, {.batch_size = 8}).
  template <class D>
  requires(
      std::is_base_of_v<Dataset, std::remove_cvref_t<D>> ||
      std::is_base_of_v<IterableDataset, std::remove_cvref_t<D>>) explicit DataLoader(D&& dataset,
                                                                                      DataLoaderOptions options = {})
      : DataLoader(std::make_shared<std::remove_cvref_t<D>>(std::forward<D>(dataset)), std::move(options)) {}

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    using pointer = Batch*;
    using reference = Batch&;
    Batch& operator*() const;
    Batch* operator->() const { return &**this; }
    Iterator& operator++();
    void operator++(int) { ++*this; }
    friend bool operator==(const Iterator& a, std::default_sentinel_t) { return a.at_end(); }

   private:
    friend class DataLoader;
    explicit Iterator(std::shared_ptr<detail::LoaderPass> pass) : pass_(std::move(pass)) {}
    bool at_end() const;
    std::shared_ptr<detail::LoaderPass> pass_;
  };
  // Starts a pass and makes its first batch.
  Iterator begin() const;
  std::default_sentinel_t end() const { return {}; }

  // Batches of the pass that runs or comes next: those of an epoch, less what was skipped, never below 0. Throws
  // unsupported when the length is not known before it was read; see sized().
  int64_t size() const;
  bool sized() const { return batches_per_epoch().has_value(); }
  // Batches of a whole epoch, if known.
  std::optional<int64_t> batches_per_epoch() const;

  // --- where it stands ----------------------------------------------------------------------------------------
  // True from the moment the last batch of a pass is handed out until the next pass begins.
  bool end_of_dataloader() const;
  // Samples of the last, incomplete global batch (the batches of all ranks together): dataset length modulo
  // total_batch_size. 0: it is complete; -1: it was dropped, or the length is unknown.
  int64_t remainder() const;
  // Samples of the dataset in the global batch of which the present batch is a part, when some were repeated to fill
  // it; -1: nothing was. The repeated ones come last in rank order, so gathered batches are cut to this size.
  int64_t real_samples() const;
  // Samples in a full global batch; none when batches vary. For a stream those of this rank's batch, as in Accelerate.
  std::optional<int64_t> total_batch_size() const;
  // Samples of the whole dataset; for a sharded stream the samples each rank reads. None when unknown.
  std::optional<int64_t> total_dataset_length() const;
  // The number of the pass that runs, or of the next one.
  int64_t epoch() const;
  // Batches done in the pass that runs, counted from the start of its epoch.
  int64_t batches_done() const;
  int rank() const;
  int world_size() const;

  // --- what may be changed between passes -----------------------------------------------------------------------
  // The next pass is that of `epoch`. Only needed to leave the order 0, 1, 2, …
  void set_epoch(int64_t epoch) const;
  // The seed of the shuffle. Ranks that share a dataset need the same one.
  uint64_t seed() const;
  void set_seed(uint64_t seed) const;
  // Called when a pass begins, and when it is over: finished, or left early (an iterator went away before the end).
  void set_pass_hooks(std::function<void()> begin, std::function<void(bool finished)> end) const;

  // {"epoch", "batches", "samples", "seed"}: after the last batch of an epoch, the start of the next. May be taken in
  // the middle of a pass, then the batch that was handed out last counts as done.
  Tree state_dict() const;
  // The next pass goes on from there. Another number of ranks is fine when the samples done make whole batches of its
  // own; else an error says which sizes do not fit.
  void load_state_dict(const Tree& state) const;

  const detail::LoaderParts& parts() const;

 protected:
  explicit DataLoader(std::shared_ptr<detail::LoaderCore> core) : core_(std::move(core)) {}
  std::shared_ptr<detail::LoaderCore> core_;
  friend DataLoader skip_first_batches(const DataLoader& loader, int64_t count);
};

// A loader whose next pass begins at batch `count` of its epoch; the passes after it are whole. It shares epoch, position
// and flags with `loader`, so either can be saved, and `loader` goes on with the epoch after. A position restored by
// load_state_dict is replaced, not added to. Seeks where the sampler can.
DataLoader skip_first_batches(const DataLoader& loader, int64_t count);

}  // namespace weft::data
