// Pipeline: batches made ahead of their use by worker threads, handed over in order.
//
// A BatchProducer has two halves. next() is called by one thread at a time and in order; it decides what the next batch
// holds (which indices; or it reads the next samples of a stream). run() makes the batch and is called by many threads
// at once. The consumer gets batch after batch in the order of next(), with any error in the place of its batch.
//
// Letting a pipeline go stops its threads, wherever they are: a loop may be left by break or by an exception.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "data/batch.h"
#include "data/sampler.h"

namespace weft::data {

// What run() needs to make one batch: indices of a dataset, or samples that were read from a stream.
struct BatchJob {
  int64_t number = 0;  // of the batch, within its epoch
  IndexBatch indices;
  std::vector<Sample> samples;
};

class BatchProducer {
 public:
  virtual ~BatchProducer() = default;
  virtual bool next(BatchJob& job) = 0;
  virtual Batch run(BatchJob& job) const = 0;
};

class Pipeline {
 public:
  struct Result {
    Batch batch;
    int64_t real_samples = -1;  // see IndexBatch
    bool last = false;          // no batch comes after this one
  };

  // workers == 0: everything runs in next(), on the thread that calls it. `depth`: batches that may be under way or
  // wait for the consumer at once, at least 2.
  Pipeline(std::unique_ptr<BatchProducer> producer, int workers, int depth);
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // The next batch, or false at the end. Throws what the producer threw for that batch; after that it is at its end.
  bool next(Result& result);

 private:
  struct Slot {
    BatchJob job;
    Batch batch;
    std::exception_ptr error;
    bool ready = false;
  };

  bool next_inline(Result& result);
  void take_inline();
  void work();
  bool take(int64_t& ticket);
  void stop();
  Slot& slot(int64_t ticket) { return slots_[static_cast<size_t>(ticket) % slots_.size()]; }

  std::unique_ptr<BatchProducer> producer_;
  std::vector<Slot> slots_;
  std::vector<std::thread> threads_;

  std::mutex source_mutex_;  // held around producer_->next(), and while waiting for a free slot
  std::mutex mutex_;         // guards what follows
  std::condition_variable ready_, space_;
  int64_t taken_ = 0;     // batches that next() of the producer gave
  int64_t consumed_ = 0;  // batches handed to the consumer
  int64_t end_ = -1;      // number of batches in all, once known
  bool stopped_ = false;
};

}  // namespace weft::data
