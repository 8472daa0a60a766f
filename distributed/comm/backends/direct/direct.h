// DirectBackend: collectives of ranks that can address each other's memory, the common part of local (threads) and shm
// (processes of one host).
//
// How ranks meet. Every rank has a step counter that only it writes. To arrive it adds one; it goes on when every other
// rank's counter has come as far. Before arriving it announces its operation, so after arriving each rank can compare all
// announcements and all ranks come to the same verdict. Who waits spins for a moment, then sleeps on its doorbell;
// whoever arrives rings the doorbells of those who sleep. A sleeper wakes now and then to look whether the rank it waits
// for is still alive and whether the time is up.
//
// How data moves. A rank exposes its input; after arriving, every rank pulls what it needs from whoever has it:
//   eager    up to kEagerBytes: the input is copied to the rank's staging slot before it arrives; one meeting in all
//   direct   all buffers lie in memory that everyone can address: peers read (all_reduce: also write) them in place; a second
//            meeting tells when everyone is done
//   staged   otherwise: the input goes window by window through the slots, one meeting a window. There are two slots, so
//            that one can be filled while slow ranks still read the other.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "distributed/comm/backend.h"
#include "distributed/comm/backends/direct/control.h"
#include "distributed/comm/futex.h"

namespace weft::comm {

class DirectBackend : public Backend {
 public:
  static constexpr int64_t kEagerBytes = int64_t{8} << 10;

  ~DirectBackend() override;
  void run(const Operation& operation, Patience patience) override;
  bool progress(Transfer& transfer) override;
  void wait_for_progress(std::span<Transfer* const> transfers, Patience patience) override;
  void poke() override;
  bool check(const Operation& operation) override;
  void abort(ErrorCode code, std::string_view reason) override;

 protected:
  // Where memory lies, in words that mean the same to every rank. Segment 0: nobody else can reach it.
  struct Location {
    uint64_t segment = 0;
    uint64_t offset = 0;
  };
  // `memory` has the layout's bytes, the same for all ranks. `abort` may belong to another group of the same family.
  DirectBackend(int rank, int size, std::string name, const ControlLayout& layout, std::byte* memory,
                AbortControl* abort, Scope scope);

  virtual Location locate(const void* data, int64_t bytes) const = 0;
  // This rank's address of what `rank` called `location`; throws internal when it cannot be.
  virtual std::byte* resolve(int rank, Location location, int64_t bytes) const = 0;
  // Whether a receiver can read any address of the sender's.
  virtual bool one_address_space() const = 0;
  // Whether the rank is known to be gone; may be slow.
  virtual bool connection_lost(int rank) const = 0;

  AbortControl* abort_control() const { return abort_; }

 private:
  RankControl& control(int rank) const { return *reinterpret_cast<RankControl*>(memory_ + layout_.rank_offset(rank)); }
  std::byte* slot(int rank, int index) const { return memory_ + layout_.slot_offset(rank, index); }
  int next_slot() { return static_cast<int>(slot_count_++ & 1); }

  // --- meeting (direct.cpp) ------------------------------------------------------------------------------------
  void announce(const Announcement& mine);
  void arrive(const Operation& operation, Patience patience);
  void check_agreement(const Operation& operation);
  void ring(int rank) const;
  void throw_if_aborted(const Operation& operation) const;
  // Returns when ready() holds. behind(rank) says whether that rank keeps it from holding.
  template <class Ready, class Behind>
  void await(const Operation& operation, Patience patience, Ready ready, Behind behind);
  // One turn of a sleeper: throws when the group was aborted, a rank that is behind is lost, or the time is up.
  template <class Ready, class Behind>
  void examine(const Operation& operation, std::chrono::steady_clock::time_point start, Ready ready, Behind behind);
  [[noreturn]] void give_up(const Operation& operation, ErrorCode code, const std::string& text);

  // --- algorithms (collectives.cpp) ----------------------------------------------------------------------------
  // What everyone can see of the exposed inputs at the moment: for each rank the address of part 0's window, and how far
  // apart the windows of two parts are.
  struct Window {
    std::vector<std::byte*> base;
    int64_t part_stride = 0;
    std::byte* at(int rank, int part) const { return base[static_cast<size_t>(rank)] + part * part_stride; }
  };
  bool locate_all(const Operation& operation, int64_t exposed_bytes);
  void run_direct(const Operation& operation, Patience patience);
  void run_staged(const Operation& operation, int parts, bool exposes, Patience patience);
  // Takes elements [begin, begin + count) of this rank's result from the window.
  void pull(const Operation& operation, int64_t begin, int64_t count);
  // Reduces elements [low, high) of every rank's window into `destinations` (addresses of element 0 of the window).
  void reduce_window(const Operation& operation, int part, int64_t low, int64_t high,
                     std::span<std::byte* const> destinations);

  // --- mailboxes (transfers.cpp) -------------------------------------------------------------------------------
  MailboxControl& mailbox(int from, int to) const {
    return *reinterpret_cast<MailboxControl*>(memory_ + layout_.mailbox_offset(from, to));
  }
  PieceHeader& piece(int from, int to, uint64_t index) const;
  std::byte* piece_data(int from, int to, uint64_t index) const;
  bool progress_send(Transfer& transfer);
  bool progress_recv(Transfer& transfer);
  bool may_progress(const Transfer& transfer) const;

  ControlLayout layout_;
  std::byte* memory_;
  AbortControl* abort_;
  Scope scope_;
  bool crowded_;  // more ranks than cores
  uint64_t step_ = 0;
  uint64_t slot_count_ = 0;
  uint64_t arrival_count_ = 0;
  std::atomic<uint32_t> poked_{0};
  Window window_;
  std::vector<const void*> sources_;
  std::vector<void*> destinations_;
};

template <class Ready, class Behind>
void DirectBackend::await(const Operation& operation, Patience patience, Ready ready, Behind behind) {
  using namespace std::chrono_literals;
  if (ready()) return;
  const auto start = std::chrono::steady_clock::now();
  const std::chrono::nanoseconds spin = patience == Patience::waiting_thread ? 50us : 5us;
  if (spin_until(ready, spin, crowded_)) return;
  RankControl& own = control(rank());
  while (true) {
    const uint32_t bell = own.doorbell.load();
    own.sleeping.store(1);
    const bool done = ready();
    if (!done) futex_wait(own.doorbell, bell, 20ms, scope_);
    own.sleeping.store(0);
    if (done || ready()) return;
    examine(operation, start, ready, behind);
  }
}

template <class Ready, class Behind>
void DirectBackend::examine(const Operation& operation, std::chrono::steady_clock::time_point start, Ready ready,
                            Behind behind) {
  throw_if_aborted(operation);
  for (int other = 0; other < size(); ++other) {
    if (other == rank() || !behind(other)) continue;
    if (control(other).left.load() || connection_lost(other)) {
      if (ready() || !behind(other)) return;  // it answered before it went
      throw_if_aborted(operation);            // it went because of that
      give_up(operation, ErrorCode::peer_lost,
              fmt::format("rank {} has gone: its process ended or it gave up the group; its last op: {}", other,
                          control(other).last.load().describe()));
    }
  }
  if (std::chrono::steady_clock::now() - start < operation.timeout) return;
  std::string late;
  for (int other = 0; other < size(); ++other) {
    if (other == rank() || !behind(other)) continue;
    late += fmt::format("{}no answer from rank {} for {}; its last op: {}{}", late.empty() ? "" : "; ", other,
                        describe(operation.timeout), control(other).last.load().describe(),
                        control(other).inside.load(std::memory_order_relaxed) ? ", not finished" : "");
  }
  give_up(operation, ErrorCode::timeout, late);
}

}  // namespace weft::comm
