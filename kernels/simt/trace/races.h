// Who touched which byte last, and whether anything ordered it before the next access to that byte.
//
//   Stamp now{thread, block_epoch, clock};
//   races.write(index, bytes, now, site, ordered, [&](const Conflict& c) { … });
//
// The method is that of data-race detectors (Flanagan and Freund, FastTrack, 2009) for the two orders that CUDA has: a
// barrier of the block orders all its threads, so a counter of barriers is enough; __syncwarp orders the lanes in its
// mask, which takes a vector clock a lane. So a race is found in whatever order the emulator runs the threads.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace weft::trace {

// One access: the thread, and where it was in time.
struct Stamp {
  uint32_t thread = 0;  // in the launch
  uint32_t epoch = 0;   // barriers of the block it has passed
  uint32_t clock = 0;   // __syncwarps it has passed
  uint32_t site = 0;
};

// A byte. Readers: of those since the last write, the last one, the last other one of its warp, and the last one of
// another warp; whatever thread writes next, if any reader is unordered with it, one of these is.
struct Cell {
  uint32_t owner = 0;  // the block (shared) or launch (global) that the rest is about
  bool written = false;
  bool atomic = false;   // the last write was
  bool pending = false;  // a cp.async is on its way
  uint8_t readers = 0;
  Stamp writer;
  std::array<Stamp, 3> reader;

  void add_reader(const Stamp& stamp) {
    const auto warp = [](const Stamp& s) { return s.thread / 32; };
    if (readers > 0 && reader[0].thread != stamp.thread) {
      // The last one steps back: within the warp, or as the other warp's.
      reader[warp(reader[0]) == warp(stamp) ? 1 : 2] = reader[0];
      if (warp(reader[0]) != warp(stamp)) reader[1] = reader[0];
      readers = 3;
    } else if (readers == 0) {
      reader[1] = reader[2] = stamp;
      readers = 1;
    }
    reader[0] = stamp;
  }
};

// The clocks of a block's lanes: how far each lane knows the others of its warp to have come.
class WarpClocks {
 public:
  void reset(unsigned threads) {
    own_.assign(threads, 1);
    known_.assign(threads, {});
  }
  uint32_t clock(unsigned thread) const { return own_[thread]; }
  // Is what `other` did at `clock`, in the same warp, ordered before what `thread` does now?
  bool ordered(unsigned thread, unsigned other, uint32_t clock) const { return known_[thread][other % 32] >= clock; }
  // The lanes of `mask` in the warp of `thread` meet.
  void join(unsigned thread, unsigned mask);

 private:
  std::vector<uint32_t> own_;
  std::vector<std::array<uint32_t, 32>> known_;
};

// Cells of global memory, made as they are touched.
class GlobalCells {
 public:
  Cell* at(uintptr_t address) {
    const uintptr_t page = address / kPage;
    if (page != last_page_ || !last_) {
      auto& cells = pages_[page];
      if (!cells) cells = std::make_unique<Cell[]>(kPage);
      last_page_ = page;
      last_ = cells.get();
    }
    return last_ + address % kPage;
  }
  void clear() {
    pages_.clear();
    last_ = nullptr;
  }
  size_t pages() const { return pages_.size(); }

 private:
  static constexpr uintptr_t kPage = 1024;
  std::unordered_map<uintptr_t, std::unique_ptr<Cell[]>> pages_;
  uintptr_t last_page_ = 0;
  Cell* last_ = nullptr;
};

}  // namespace weft::trace
