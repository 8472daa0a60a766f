// The memory that ranks of a DirectBackend share: flags to meet at, what each rank is doing, staging areas, mailboxes.
//
// It lies in one block whose addresses may differ between ranks (processes map it where they like), so there are no pointers
// in it. Ranks that are threads use the same structures in ordinary memory.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "distributed/comm/operation.h"

namespace weft::comm {

// An Announcement that others may read while it is being replaced: relaxed words, as for diagnosis a torn one does no harm.
// Where it must be whole (at arrival), the reader is ordered behind the writer by RankControl::step.
class SharedAnnouncement {
 public:
  void store(const Announcement& value) {
    std::array<uint64_t, kWords> words;
    std::memcpy(words.data(), static_cast<const void*>(&value), sizeof(value));
    for (size_t i = 0; i < kWords; ++i) words_[i].store(words[i], std::memory_order_relaxed);
  }
  Announcement load() const {
    std::array<uint64_t, kWords> words;
    for (size_t i = 0; i < kWords; ++i) words[i] = words_[i].load(std::memory_order_relaxed);
    Announcement value;
    std::memcpy(static_cast<void*>(&value), words.data(), sizeof(value));
    return value;
  }

 private:
  static constexpr size_t kWords = sizeof(Announcement) / 8;
  static_assert(sizeof(Announcement) % 8 == 0);
  std::array<std::atomic<uint64_t>, kWords> words_{};
};

// One a rank. Each line of the cache is written by one side only, or seldom.
struct RankControl {
  // How many times this rank has arrived at a meeting point. Written by its owner.
  alignas(64) std::atomic<uint64_t> step{0};
  std::atomic<uint32_t> inside{0};  // the owner is carrying out `last` now
  std::atomic<uint32_t> left{0};    // the owner has given the group up
  // Set while the owner sleeps on `doorbell`; whoever changes something it may wait for then rings.
  alignas(64) std::atomic<uint32_t> sleeping{0};
  std::atomic<uint32_t> doorbell{0};
  // What the owner announces when it arrives, alternating between two, as a fast rank may announce the next operation
  // while a slow one still reads this one's.
  alignas(64) std::array<SharedAnnouncement, 2> arrival;
  SharedAnnouncement last;  // the latest operation of any kind, for error texts
};

// A one-way mailbox between two ranks with room for two pieces of a message.
struct MailboxControl {
  alignas(64) std::atomic<uint64_t> sent{0};      // pieces put in, by the sender
  alignas(64) std::atomic<uint64_t> received{0};  // pieces taken out, by the receiver
};

struct PieceHeader {
  uint64_t direct = 0;  // the sender's address when the receiver may read from there, else 0
  int64_t count = 0;    // elements of the whole message
  DType dtype = DType::u8;
  uint64_t sequence = 0;
};

// Why the group, with all groups that came from the same one, is no longer usable.
struct AbortControl {
  std::atomic<uint32_t> state{0};  // 0 no, 1 being written, 2 yes
  ErrorCode code = ErrorCode::internal;
  char reason[1000] = {};

  bool aborted() const { return state.load(std::memory_order_acquire) == 2; }
  // False when somebody else was first.
  bool set(ErrorCode why, std::string_view text) {
    uint32_t none = 0;
    if (!state.compare_exchange_strong(none, 1)) return false;
    code = why;
    const size_t length = std::min(text.size(), sizeof(reason) - 1);
    std::memcpy(reason, text.data(), length);
    reason[length] = 0;
    state.store(2, std::memory_order_release);
    return true;
  }
};

// Where things lie in the block of a group of `size` ranks.
struct ControlLayout {
  int size;
  int64_t slot_bytes;   // of one staging slot; every rank has two
  int64_t piece_bytes;  // of one piece in a mailbox

  static constexpr int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }
  int64_t mailbox_bytes() const {
    return static_cast<int64_t>(sizeof(MailboxControl)) + 2 * (aligned(sizeof(PieceHeader)) + piece_bytes);
  }
  int64_t abort_offset() const { return 0; }
  int64_t rank_offset(int rank) const {
    return aligned(sizeof(AbortControl)) + rank * static_cast<int64_t>(sizeof(RankControl));
  }
  int64_t mailbox_offset(int from, int to) const {
    return rank_offset(size) + (static_cast<int64_t>(from) * size + to) * mailbox_bytes();
  }
  int64_t slot_offset(int rank, int slot) const {
    const int64_t begin = (mailbox_offset(size, 0) + 4095) / 4096 * 4096;
    return begin + (static_cast<int64_t>(rank) * 2 + slot) * slot_bytes;
  }
  int64_t total_bytes() const { return slot_offset(size, 0); }

  // Starts the life of the objects in zeroed memory; done by one rank, before the others see it.
  void construct(std::byte* memory) const;
};

}  // namespace weft::comm
