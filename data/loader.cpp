#include "data/loader.h"

#include <algorithm>

#include "data/loader_parts.h"
#include "tensor/random.h"

namespace weft::data {
namespace detail {

// Where a loader stands; shared with the loaders that skip_first_batches makes of it.
struct Progress {
  int64_t epoch = 0;
  int64_t position = 0;  // batches done in the pass that runs
  bool in_pass = false;  // a pass began and did not reach its end
  bool end_of_dataloader = false;
  int64_t real_samples = -1;
  uint64_t passes = 0;  // begun so far; only the newest one moves the rest
  std::function<void()> on_begin;
  std::function<void(bool)> on_end;
};

struct LoaderCore {
  LoaderParts parts;
  std::shared_ptr<Progress> progress = std::make_shared<Progress>();
  std::optional<int64_t> start = {};  // where the next pass begins, when it was given
  int64_t left_out = 0;               // batches that the newest pass of this loader skipped
};

class LoaderPass {
 public:
  LoaderPass(std::shared_ptr<LoaderCore> core, int64_t first)
      : core_(std::move(core)),
        progress_(core_->progress),
        number_(progress_->passes),
        pipeline_(make_producer(core_->parts, progress_->epoch, first), core_->parts.num_workers,
                  core_->parts.num_workers * core_->parts.prefetch_factor) {
    if (progress_->on_begin) progress_->on_begin();
  }
  ~LoaderPass() {
    if (!over_) finish(false);
  }

  void advance() {
    WEFT_CHECK(!over_, "data_loader", "the iterator is at its end");
    bool more = false;
    try {
      more = pipeline_.next(result_);
    } catch (...) {
      finish(false);
      throw;
    }
    if (!more) return finish(true);
    if (core_->parts.device.type != DeviceType::cpu)
      result_.batch = result_.batch.map_tensors([&](const Tensor& t) { return t.to(core_->parts.device); });
    if (!is_newest()) return;
    ++progress_->position;
    progress_->end_of_dataloader = result_.last;
    progress_->real_samples = result_.real_samples;
  }
  bool over() const { return over_; }
  Batch& batch() { return result_.batch; }

 private:
  bool is_newest() const { return progress_->passes == number_; }
  void finish(bool at_end) {
    over_ = true;
    if (!is_newest()) return;
    if (at_end) {
      progress_->in_pass = false;
      progress_->position = 0;
      ++progress_->epoch;
      core_->left_out = 0;
    }
    if (progress_->on_end) progress_->on_end(at_end);
  }

  std::shared_ptr<LoaderCore> core_;
  std::shared_ptr<Progress> progress_;
  uint64_t number_;
  Pipeline pipeline_;
  Pipeline::Result result_;
  bool over_ = false;
};

std::shared_ptr<LoaderCore> make_core(LoaderParts parts) {
  auto core = std::make_shared<LoaderCore>();
  core->parts = std::move(parts);
  return core;
}

}  // namespace detail

namespace {

detail::LoaderParts common_parts(const DataLoaderOptions& options) {
  WEFT_CHECK(options.batch_size >= 1, "data_loader", "expected batch_size of at least 1, got {}", options.batch_size);
  WEFT_CHECK(options.num_workers >= 0 && options.num_workers <= 1024, "data_loader",
             "expected num_workers in [0, 1024], got {}", options.num_workers);
  WEFT_CHECK(options.prefetch_factor >= 1 && options.prefetch_factor <= 65536, "data_loader",
             "expected prefetch_factor in [1, 65536], got {}", options.prefetch_factor);
  detail::LoaderParts parts;
  parts.collate = options.collate;
  parts.device = options.device;
  parts.num_workers = options.num_workers;
  parts.prefetch_factor = options.prefetch_factor;
  *parts.seed = options.seed.value_or(default_generator().seed());
  return parts;
}

detail::LoaderParts map_parts(std::shared_ptr<const Dataset> dataset, const DataLoaderOptions& options) {
  WEFT_CHECK(dataset != nullptr, "data_loader", "no dataset was given");
  detail::LoaderParts parts = common_parts(options);
  const int64_t length = dataset->size();
  WEFT_CHECK(length >= 0, "data_loader", "the dataset says its size is {}", length);
  if (options.batch_sampler) {
    WEFT_CHECK(options.batch_size == 1 && !options.shuffle && !options.sampler && !options.drop_last, "data_loader",
               "batch_sampler excludes batch_size, shuffle, sampler and drop_last");
    parts.batches = options.batch_sampler;
  } else {
    WEFT_CHECK(!(options.sampler && options.shuffle), "data_loader", "sampler excludes shuffle");
    std::shared_ptr<Sampler> sampler = options.sampler;
    if (!sampler && options.shuffle)
      sampler = std::make_shared<RandomSampler>(length, RandomSamplerOptions{.seed = *parts.seed});
    if (!sampler) sampler = std::make_shared<SequentialSampler>(length, dataset->endless());
    parts.batches = std::make_shared<BatchSampler>(sampler, options.batch_size, options.drop_last);
  }
  if (const auto sampler = parts.batches->sampler(); sampler && sampler->seed()) {
    if (options.seed) sampler->set_seed(*options.seed);
    *parts.seed = *sampler->seed();
  }
  parts.batches_per_epoch = parts.batches->size();
  parts.total_batch_size = parts.samples_per_step = parts.batches->batch_size();
  parts.total_dataset_length = length;
  if (!parts.batches->drop_last() && parts.total_batch_size)
    parts.remainder = parts.batches->samples().value_or(length) % *parts.total_batch_size;
  parts.dataset = std::move(dataset);
  return parts;
}

detail::LoaderParts stream_parts(std::shared_ptr<const IterableDataset> dataset, const DataLoaderOptions& options) {
  WEFT_CHECK(dataset != nullptr, "data_loader", "no dataset was given");
  WEFT_CHECK(!options.shuffle && !options.sampler && !options.batch_sampler, "data_loader",
             "a stream cannot be read in another order: shuffle, sampler and batch_sampler do not apply to it");
  detail::LoaderParts parts = common_parts(options);
  parts.stream_batch_size = options.batch_size;
  parts.stream_drop_last = options.drop_last;
  parts.total_batch_size = parts.samples_per_step = options.batch_size;
  if (const auto length = dataset->size()) {
    parts.total_dataset_length = *length;
    parts.batches_per_epoch = (options.drop_last ? *length : *length + options.batch_size - 1) / options.batch_size;
    if (!options.drop_last) parts.remainder = *length % options.batch_size;
  }
  parts.stream = std::move(dataset);
  return parts;
}

}  // namespace

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options)
    : core_(detail::make_core(map_parts(std::move(dataset), options))) {}

DataLoader::DataLoader(std::shared_ptr<const IterableDataset> dataset, DataLoaderOptions options)
    : core_(detail::make_core(stream_parts(std::move(dataset), options))) {}

Batch& DataLoader::Iterator::operator*() const { return pass_->batch(); }

DataLoader::Iterator& DataLoader::Iterator::operator++() {
  pass_->advance();
  return *this;
}

bool DataLoader::Iterator::at_end() const { return pass_->over(); }

DataLoader::Iterator DataLoader::begin() const {
  detail::Progress& progress = *core_->progress;
  const auto start = std::exchange(core_->start, std::nullopt);
  if (progress.in_pass && !start) ++progress.epoch;  // the last pass was left early, and this one does not resume it
  core_->left_out = start.value_or(0);
  progress.in_pass = true;
  progress.position = core_->left_out;
  progress.end_of_dataloader = false;
  progress.real_samples = -1;
  ++progress.passes;
  auto pass = std::make_shared<detail::LoaderPass>(core_, core_->left_out);
  pass->advance();
  return Iterator(std::move(pass));
}

int64_t DataLoader::size() const {
  const auto batches = batches_per_epoch();
  if (!batches)
    fail(ErrorCode::unsupported, "data_loader", "the length is unknown: the {} has no size",
         core_->parts.stream ? "stream" : "batch sampler");
  return std::max<int64_t>(0, *batches - core_->start.value_or(core_->left_out));
}

std::optional<int64_t> DataLoader::batches_per_epoch() const { return core_->parts.batches_per_epoch; }
bool DataLoader::end_of_dataloader() const { return core_->progress->end_of_dataloader; }
int64_t DataLoader::remainder() const { return core_->parts.remainder; }
int64_t DataLoader::real_samples() const { return core_->progress->real_samples; }
std::optional<int64_t> DataLoader::total_batch_size() const { return core_->parts.total_batch_size; }
std::optional<int64_t> DataLoader::total_dataset_length() const { return core_->parts.total_dataset_length; }
int64_t DataLoader::epoch() const { return core_->progress->epoch; }
int64_t DataLoader::batches_done() const { return core_->progress->position; }
int DataLoader::rank() const { return core_->parts.rank; }
int DataLoader::world_size() const { return core_->parts.world_size; }
const detail::LoaderParts& DataLoader::parts() const { return core_->parts; }

void DataLoader::set_epoch(int64_t epoch) const {
  WEFT_CHECK(epoch >= 0, "data_loader", "expected an epoch of at least 0, got {}", epoch);
  core_->progress->epoch = epoch;
  core_->progress->in_pass = false;
  core_->progress->position = 0;
}

uint64_t DataLoader::seed() const { return *core_->parts.seed; }

void DataLoader::set_seed(uint64_t seed) const {
  *core_->parts.seed = seed;
  if (!core_->parts.batches) return;
  if (const auto sampler = core_->parts.batches->sampler()) sampler->set_seed(seed);
}

void DataLoader::set_pass_hooks(std::function<void()> begin, std::function<void(bool)> end) const {
  core_->progress->on_begin = std::move(begin);
  core_->progress->on_end = std::move(end);
}

Tree DataLoader::state_dict() const {
  const detail::Progress& progress = *core_->progress;
  const bool whole = progress.in_pass && progress.end_of_dataloader;
  const int64_t batches = whole ? 0 : core_->start.value_or(progress.position);
  const auto step = core_->parts.samples_per_step;
  Tree state;
  state["epoch"] = whole ? progress.epoch + 1 : progress.epoch;
  state["batches"] = batches;
  state["samples"] = step ? Tree(batches * *step) : Tree();
  state["seed"] = static_cast<int64_t>(seed());  // the same 64 bits
  return state;
}

void DataLoader::load_state_dict(const Tree& state) const {
  const int64_t epoch = state["epoch"].as_int();
  int64_t batches = state["batches"].as_int();
  WEFT_CHECK(batches >= 0, "data_loader", "the state says {} batches are done", batches);
  if (const auto step = core_->parts.samples_per_step; step && state["samples"].is_int()) {
    const int64_t samples = state["samples"].as_int();
    WEFT_CHECK(
        samples >= 0 && samples % *step == 0, "data_loader",
        "cannot resume after {} samples with {} samples a step: the state was saved in the middle of such a step; "
        "choose batch size and number of ranks so that it divides",
        samples, *step);
    batches = samples / *step;
  }
  set_epoch(epoch);
  set_seed(static_cast<uint64_t>(state["seed"].as_int()));
  core_->start = batches > 0 ? std::optional(batches) : std::nullopt;
}

DataLoader skip_first_batches(const DataLoader& loader, int64_t count) {
  WEFT_CHECK(count >= 0, "skip_first_batches", "expected a count of at least 0, got {}", count);
  auto core = std::make_shared<detail::LoaderCore>(*loader.core_);
  loader.core_->start.reset();
  core->start = count;
  return DataLoader(std::move(core));
}

}  // namespace weft::data
