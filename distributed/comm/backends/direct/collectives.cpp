// The algorithms of DirectBackend; direct.h explains eager, direct and staged.
#include <algorithm>
#include <cstring>

#include "distributed/comm/backends/direct/direct.h"

namespace weft::comm {
namespace {

// Who exposes its input, and in how many parts: one that is for everybody, or one for each rank.
struct Pattern {
  bool root_only = false;
  bool part_for_each = false;
};

Pattern pattern_of(OpKind kind) {
  switch (kind) {
    case OpKind::broadcast: return {.root_only = true};
    case OpKind::scatter: return {.root_only = true, .part_for_each = true};
    case OpKind::reduce_scatter:
    case OpKind::all_to_all: return {.part_for_each = true};
    default: return {};
  }
}

void copy_bytes(void* destination, const void* source, int64_t bytes) {
  if (bytes > 0 && destination != source) std::memcpy(destination, source, static_cast<size_t>(bytes));
}

// Elements [low, high) of `count` for one of `size` ranks; the borders are whole cache lines.
struct Share {
  int64_t low;
  int64_t high;
  Share(int64_t count, int64_t element_bytes, int rank, int size) {
    const int64_t line = std::max<int64_t>(1, 64 / element_bytes);
    const int64_t lines = (count + line - 1) / line;
    low = std::min(count, lines * rank / size * line);
    high = std::min(count, lines * (rank + 1) / size * line);
  }
};

// Marks the rank as inside an operation for as long as it lives.
class Inside {
 public:
  explicit Inside(std::atomic<uint32_t>& flag) : flag_(flag) { flag_.store(1, std::memory_order_relaxed); }
  ~Inside() { flag_.store(0, std::memory_order_relaxed); }

 private:
  std::atomic<uint32_t>& flag_;
};

}  // namespace

void DirectBackend::run(const Operation& operation, Patience patience) {
  throw_if_aborted(operation);
  const Pattern pattern = pattern_of(operation.kind);
  const int parts = pattern.part_for_each ? size() : 1;
  const bool exposes = !pattern.root_only || operation.peer == rank();
  const int64_t exposed_bytes = parts * operation.bytes();
  const bool eager = exposed_bytes <= kEagerBytes;
  const int slot_index = next_slot();
  if (eager && exposes) copy_bytes(slot(rank(), slot_index), operation.input, exposed_bytes);

  Announcement mine(operation);
  if (!eager) {
    const Location location =
        exposes ? locate(operation.input, exposed_bytes) : locate(operation.output, operation.bytes());
    mine.segment = location.segment;
    mine.offset = location.offset;
  }
  const Inside inside(control(rank()).inside);
  announce(mine);
  arrive(operation, patience);
  check_agreement(operation);

  if (eager) {
    for (int other = 0; other < size(); ++other) window_.base[static_cast<size_t>(other)] = slot(other, slot_index);
    window_.part_stride = operation.bytes();
    pull(operation, 0, operation.count);
  } else if (locate_all(operation, exposed_bytes)) {
    run_direct(operation, patience);
  } else {
    run_staged(operation, parts, exposes, patience);
  }
}

// Direct if all buffers lie in one segment: then every rank has it mapped. All ranks decide alike.
bool DirectBackend::locate_all(const Operation& operation, int64_t exposed_bytes) {
  const size_t index = (arrival_count_ - 1) & 1;
  const uint64_t segment = control(0).arrival[index].load().segment;
  if (segment == 0) return false;
  for (int other = 1; other < size(); ++other)
    if (control(other).arrival[index].load().segment != segment) return false;
  const Pattern pattern = pattern_of(operation.kind);
  for (int other = 0; other < size(); ++other) {
    if (pattern.root_only && other != operation.peer) continue;
    const Announcement theirs = control(other).arrival[index].load();
    window_.base[static_cast<size_t>(other)] = resolve(other, {theirs.segment, theirs.offset}, exposed_bytes);
  }
  window_.part_stride = operation.bytes();
  return true;
}

void DirectBackend::run_direct(const Operation& operation, Patience patience) {
  if (operation.kind == OpKind::all_reduce || operation.kind == OpKind::reduce) {
    // Every rank reduces its share of everybody's buffer and puts the result where it belongs.
    const Share share(operation.count, size_of(operation.dtype), rank(), size());
    const auto root = static_cast<size_t>(std::max(operation.peer, 0));
    const std::span<std::byte* const> all(window_.base);
    reduce_window(operation, 0, share.low, share.high,
                  operation.kind == OpKind::all_reduce ? all : all.subspan(root, 1));
  } else {
    pull(operation, 0, operation.count);
  }
  arrive(operation, patience);
}

void DirectBackend::run_staged(const Operation& operation, int parts, bool exposes, Patience patience) {
  const int64_t element = size_of(operation.dtype);
  // In a slot the windows of all parts lie one behind the other.
  const int64_t window_bytes = layout_.slot_bytes / parts / 64 * 64;
  const int64_t window_count = window_bytes / element;
  // With few ranks it is cheapest that everyone reduces everything for itself; with more each reduces a share, in place in
  // its slot, and collects the others'.
  const bool share_work = operation.kind == OpKind::all_reduce && size() > 3;
  window_.part_stride = window_bytes;
  for (int64_t begin = 0; begin < operation.count; begin += window_count) {
    const int64_t count = std::min(window_count, operation.count - begin);
    const int index = next_slot();
    if (exposes) {
      for (int part = 0; part < parts; ++part)
        copy_bytes(slot(rank(), index) + part * window_bytes,
                   static_cast<const std::byte*>(operation.input) + part * operation.bytes() + begin * element,
                   count * element);
    }
    for (int other = 0; other < size(); ++other) window_.base[static_cast<size_t>(other)] = slot(other, index);
    arrive(operation, patience);
    if (!share_work) {
      pull(operation, begin, count);
      continue;
    }
    const Share own(count, element, rank(), size());
    std::byte* const target[] = {slot(rank(), index)};
    reduce_window(operation, 0, own.low, own.high, target);
    arrive(operation, patience);
    std::byte* output = static_cast<std::byte*>(operation.output) + begin * element;
    for (int other = 0; other < size(); ++other) {
      const Share share(count, element, other, size());
      copy_bytes(output + share.low * element, window_.at(other, 0) + share.low * element,
                 (share.high - share.low) * element);
    }
  }
}

void DirectBackend::reduce_window(const Operation& operation, int part, int64_t low, int64_t high,
                                  std::span<std::byte* const> destinations) {
  if (low == high) return;
  const int64_t skip = low * size_of(operation.dtype);
  for (int other = 0; other < size(); ++other) sources_[static_cast<size_t>(other)] = window_.at(other, part) + skip;
  destinations_.clear();
  for (std::byte* destination : destinations) destinations_.push_back(destination + skip);
  reduce_elements(operation.reduce, operation.dtype, sources_, destinations_, high - low);
}

void DirectBackend::pull(const Operation& operation, int64_t begin, int64_t count) {
  const int64_t bytes = count * size_of(operation.dtype);
  const int64_t skip = begin * size_of(operation.dtype);
  std::byte* output = operation.output ? static_cast<std::byte*>(operation.output) + skip : nullptr;
  const bool is_root = operation.peer == rank();
  // Everyone starts with its right neighbour, so that not all read from the same rank at once.
  const auto collect = [&](int part) {
    for (int i = 1; i <= size(); ++i) {
      const int other = (rank() + i) % size();
      copy_bytes(output + other * operation.bytes(), window_.at(other, part), bytes);
    }
  };
  std::byte* const target[] = {output};
  switch (operation.kind) {
    case OpKind::all_reduce: return reduce_window(operation, 0, 0, count, target);
    case OpKind::reduce: return is_root ? reduce_window(operation, 0, 0, count, target) : void();
    case OpKind::reduce_scatter: return reduce_window(operation, rank(), 0, count, target);
    case OpKind::all_gather: return collect(0);
    case OpKind::gather: return is_root ? collect(0) : void();
    case OpKind::all_to_all: return collect(rank());
    case OpKind::scatter: return copy_bytes(output, window_.at(operation.peer, rank()), bytes);
    case OpKind::broadcast: return is_root ? void() : copy_bytes(output, window_.at(operation.peer, 0), bytes);
    case OpKind::none:
    case OpKind::barrier:
    case OpKind::send:
    case OpKind::recv: return;
  }
}

}  // namespace weft::comm
