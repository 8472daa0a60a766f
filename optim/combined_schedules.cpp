#include "optim/combined_schedules.h"

#include <algorithm>

namespace weft::optim {
namespace {

using Schedulers = std::vector<std::shared_ptr<LRScheduler>>;

void check_all(const Schedulers& schedulers, const Optimizer* optimizer, const char* op) {
  WEFT_CHECK(!schedulers.empty(), op, "expected at least one scheduler");
  for (size_t i = 0; i < schedulers.size(); ++i) {
    WEFT_CHECK(schedulers[i], op, "scheduler {} is null", i);
    const Optimizer& own = schedulers[i]->optimizer();
    WEFT_CHECK(&own == (optimizer ? optimizer : &schedulers[0]->optimizer()), op,
               "scheduler {} is of another optimizer", i);
  }
}

Tree states_of(const Schedulers& schedulers) {
  Tree states = Tree::list();
  for (const auto& scheduler : schedulers) states.push_back(scheduler->state_dict());
  return states;
}

void load_states(const Schedulers& schedulers, const Tree& state) {
  const Tree::List& states = state.at("schedulers").as_list();
  WEFT_CHECK(states.size() == schedulers.size(), "load_state_dict", "expected the states of {} schedulers, got {}",
             schedulers.size(), states.size());
  for (size_t i = 0; i < states.size(); ++i) schedulers[i]->load_state_dict(states[i]);
}

Optimizer& optimizer_of(const Schedulers& schedulers) {
  check_all(schedulers, nullptr, "ChainedScheduler");
  return const_cast<Optimizer&>(schedulers[0]->optimizer());
}

}  // namespace

SequentialLR::SequentialLR(Optimizer& optimizer, Schedulers schedulers, std::vector<int64_t> milestones)
    : LRScheduler(optimizer), schedulers_(std::move(schedulers)), milestones_(std::move(milestones)) {
  check_all(schedulers_, &optimizer, "SequentialLR");
  WEFT_CHECK(milestones_.size() + 1 == schedulers_.size(), "SequentialLR",
             "expected {} milestones for {} schedulers, got {}", schedulers_.size() - 1, schedulers_.size(),
             milestones_.size());
  WEFT_CHECK(std::is_sorted(milestones_.begin(), milestones_.end()), "SequentialLR", "the milestones do not rise");
  // Undoes what the others did to the rates when they were made.
  last_epoch_ = 0;
  restart(*schedulers_[0]);
}

void SequentialLR::restart(LRScheduler& scheduler) {
  if (scheduler.reset())
    for (size_t g = 0; g < scheduler.group_count(); ++g) scheduler.optimizer_->set_lr(scheduler.base_lr(g), g);
  scheduler.start();
}

void SequentialLR::advance() {
  ++last_epoch_;
  const auto index =
      static_cast<size_t>(std::upper_bound(milestones_.begin(), milestones_.end(), last_epoch_) - milestones_.begin());
  if (index > 0 && milestones_[index - 1] == last_epoch_)
    restart(*schedulers_[index]);
  else
    schedulers_[index]->step();
}

bool SequentialLR::reset() {
  last_epoch_ = -1;
  return true;
}

Tree SequentialLR::state_dict() const {
  Tree state = LRScheduler::state_dict();
  state["schedulers"] = states_of(schedulers_);
  return state;
}

void SequentialLR::load_state_dict(const Tree& state) {
  load_states(schedulers_, state);
  LRScheduler::load_state_dict(state);
}

ChainedScheduler::ChainedScheduler(Schedulers schedulers)
    : LRScheduler(optimizer_of(schedulers)), schedulers_(std::move(schedulers)) {
  last_epoch_ = 0;  // they have made their first step
}

void ChainedScheduler::advance() {
  ++last_epoch_;
  for (const auto& scheduler : schedulers_) scheduler->step();
}

Tree ChainedScheduler::state_dict() const {
  Tree state = LRScheduler::state_dict();
  state["schedulers"] = states_of(schedulers_);
  return state;
}

void ChainedScheduler::load_state_dict(const Tree& state) {
  load_states(schedulers_, state);
  LRScheduler::load_state_dict(state);
}

}  // namespace weft::optim
