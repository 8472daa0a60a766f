#include "data/pipeline.h"

#include <algorithm>

namespace weft::data {

Pipeline::Pipeline(std::unique_ptr<BatchProducer> producer, int workers, int depth) : producer_(std::move(producer)) {
  slots_.resize(static_cast<size_t>(std::max(depth, 2)));
  if (workers == 0) {
    take_inline();
    return;
  }
  try {
    for (int i = 0; i < workers; ++i) threads_.emplace_back([this] { work(); });
  } catch (...) {  // the system has no more threads
    stop();
    throw;
  }
}

Pipeline::~Pipeline() { stop(); }

void Pipeline::stop() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  space_.notify_all();
  for (auto& thread : threads_) thread.join();
  threads_.clear();
}

// Without workers, the job after the present one is fetched early (but not run): that is how the last batch is known.
void Pipeline::take_inline() {
  Slot& ahead = slot(taken_);
  try {
    if (producer_->next(ahead.job))
      ++taken_;
    else
      end_ = taken_;
  } catch (...) {
    ahead.error = std::current_exception();
    end_ = ++taken_;
  }
}

bool Pipeline::next_inline(Result& result) {
  if (consumed_ == end_) return false;
  Slot& current = slot(consumed_++);
  try {
    if (current.error) std::rethrow_exception(std::exchange(current.error, nullptr));
    if (end_ < 0) take_inline();
    result.batch = producer_->run(current.job);
  } catch (...) {
    end_ = consumed_;
    throw;
  }
  result.real_samples = current.job.indices.real_samples;
  result.last = consumed_ == end_;
  return true;
}

bool Pipeline::next(Result& result) {
  if (threads_.empty() && !stopped_) return next_inline(result);
  std::exception_ptr error;
  {
    std::unique_lock lock(mutex_);
    if (stopped_) return false;
    const int64_t ticket = consumed_;
    Slot& current = slot(ticket);
    ready_.wait(
        lock, [&] { return end_ == ticket || (current.ready && (current.error || end_ >= 0 || taken_ > ticket + 1)); });
    if (end_ == ticket) return false;
    result.batch = std::move(current.batch);
    result.real_samples = current.job.indices.real_samples;
    result.last = end_ == ticket + 1;
    error = std::exchange(current.error, nullptr);
    current.ready = false;
    ++consumed_;
  }
  if (error) {
    stop();
    std::rethrow_exception(error);
  }
  space_.notify_one();
  return true;
}

// Waits for a free slot and fills its job; false when there is nothing more to do.
bool Pipeline::take(int64_t& ticket) {
  std::lock_guard source(source_mutex_);
  {
    std::unique_lock lock(mutex_);
    space_.wait(lock,
                [&] { return stopped_ || end_ >= 0 || taken_ < consumed_ + static_cast<int64_t>(slots_.size()); });
    if (stopped_ || end_ >= 0) return false;
    ticket = taken_;
  }
  Slot& mine = slot(ticket);
  bool more = false;
  std::exception_ptr error;
  try {
    more = producer_->next(mine.job);
  } catch (...) {
    error = std::current_exception();
  }
  {
    std::lock_guard lock(mutex_);
    if (error) {
      mine.error = error;
      mine.ready = true;
      end_ = ++taken_;
    } else if (more) {
      ++taken_;
    } else {
      end_ = ticket;
    }
  }
  ready_.notify_one();
  return more;
}

void Pipeline::work() {
  int64_t ticket = 0;
  while (take(ticket)) {
    Slot& mine = slot(ticket);
    Batch batch;
    std::exception_ptr error;
    try {
      batch = producer_->run(mine.job);
    } catch (...) {
      error = std::current_exception();
    }
    {
      std::lock_guard lock(mutex_);
      mine.batch = std::move(batch);
      mine.error = error;
      mine.ready = true;
    }
    ready_.notify_one();
  }
}

}  // namespace weft::data
