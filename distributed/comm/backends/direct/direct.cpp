#include "distributed/comm/backends/direct/direct.h"

#include <new>

namespace weft::comm {

void ControlLayout::construct(std::byte* memory) const {
  new (memory + abort_offset()) AbortControl;
  for (int rank = 0; rank < size; ++rank) new (memory + rank_offset(rank)) RankControl;
  for (int from = 0; from < size; ++from)
    for (int to = 0; to < size; ++to) new (memory + mailbox_offset(from, to)) MailboxControl;
}

DirectBackend::DirectBackend(int rank, int size, std::string name, const ControlLayout& layout, std::byte* memory,
                             AbortControl* abort, Scope scope)
    : Backend(rank, size, std::move(name)),
      layout_(layout),
      memory_(memory),
      abort_(abort),
      scope_(scope),
      crowded_(size > static_cast<int>(std::thread::hardware_concurrency())) {
  window_.base.resize(static_cast<size_t>(size));
  sources_.resize(static_cast<size_t>(size));
  destinations_.reserve(static_cast<size_t>(size));
}

DirectBackend::~DirectBackend() {
  control(rank()).left.store(1);
  for (int other = 0; other < size(); ++other) ring(other);
}

void DirectBackend::ring(int rank) const {
  RankControl& other = control(rank);
  if (!other.sleeping.load()) return;
  other.doorbell.fetch_add(1);
  futex_wake(other.doorbell, scope_);
}

void DirectBackend::poke() {
  poked_.store(1);
  ring(rank());
}

void DirectBackend::abort(ErrorCode code, std::string_view reason) {
  abort_->set(code, reason);
  for (int other = 0; other < size(); ++other) ring(other);
}

void DirectBackend::throw_if_aborted(const Operation& operation) const {
  if (abort_->aborted()) [[unlikely]]
    fail(abort_->code, title(operation, group_name(), rank()), "{}", abort_->reason);
}

bool DirectBackend::check(const Operation& operation) {
  throw_if_aborted(operation);
  for (int other = 0; other < size(); ++other)
    if (other != rank() && connection_lost(other)) return true;
  return false;
}

void DirectBackend::give_up(const Operation& operation, ErrorCode code, const std::string& text) {
  const std::string what = title(operation, group_name(), rank());
  abort(code, fmt::format("rank {} stopped the group in {}: {}", rank(), what, text));
  fail(code, what, "{}", text);
}

void DirectBackend::announce(const Announcement& mine) {
  RankControl& own = control(rank());
  own.last.store(mine);
  own.arrival[arrival_count_++ & 1].store(mine);
}

void DirectBackend::arrive(const Operation& operation, Patience patience) {
  const uint64_t step = ++step_;
  control(rank()).step.store(step);
  for (int other = 0; other < size(); ++other)
    if (other != rank()) ring(other);
  const auto behind = [&](int other) { return control(other).step.load() < step; };
  int reached = 0;  // ranks below have arrived
  const auto ready = [&] {
    while (reached < size() && !behind(reached)) ++reached;
    return reached == size();
  };
  await(operation, patience, ready, behind);
}

// All ranks look at the same announcements in the same order, so they find the same two that differ.
void DirectBackend::check_agreement(const Operation& operation) {
  const size_t index = (arrival_count_ - 1) & 1;
  const Announcement first = control(0).arrival[index].load();
  for (int other = 1; other < size(); ++other) {
    const Announcement next = control(other).arrival[index].load();
    if (!first.agrees_with(next)) [[unlikely]] {
      fail(ErrorCode::mismatch, title(operation, group_name(), rank()),
           "ranks disagree: rank 0 calls {}, rank {} calls {}", first.describe(), other, next.describe());
    }
  }
}

}  // namespace weft::comm
