// The examination while kernels run: the emulator's observer, and what the compiler's calls before each access reach.
//
//   Recorder::instance().start();
//   …
//   Report report = Recorder::instance().finish();
//
// Launches are examined one at a time, and each on one OS thread, so that nothing here needs a lock and every report is
// the same in every run.
#pragma once
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "kernels/simt/emulator/config.h"
#include "kernels/simt/emulator/observer.h"
#include "kernels/simt/trace/arithmetic.h"
#include "kernels/simt/trace/memory_map.h"
#include "kernels/simt/trace/races.h"
#include "kernels/simt/trace/report.h"
#include "kernels/simt/trace/requests.h"

namespace weft::trace {

// A finding before its addresses are lines. Sites count from 1; 0: there is none.
struct RawFinding {
  std::string text;
  uint64_t count = 0;
  Line at;  // where there is no site: as the emulator tells
  Line other;
};

struct KernelRecord {
  const void* address = nullptr;
  emulator::Location launched_at;
  uint64_t launches = 0;
  uint64_t blocks = 0;
  uint64_t threads = 0;
  std::vector<Site> sites;
  BlockCounts ran;                                     // basic blocks
  std::unordered_map<const void*, uint64_t> products;  // operations of mma, by the address of the call
  std::unordered_map<uint64_t, uint32_t> site_numbers;
  std::map<std::tuple<Kind, uint32_t, uint32_t, std::string>, RawFinding> findings;
};

class Recorder final : public emulator::Observer {
 public:
  static Recorder& instance();
  // The one that watches, else null. Read by the hooks before anything else.
  static Recorder* active;

  void start();
  void stop();
  Report report();
  // As JSON; a file that cannot be written is missed by whoever asked for it.
  void write(const std::string& path);
  // Writes the report there as often as an error appears, in case that it ends the program.
  void write_errors_to(std::string path) { path_ = std::move(path); }

  // --- the compiler's calls ---
  void access(const void* address, size_t bytes, Access kind, const void* pc);
  void block_ran(const void* pc) {
    if (busy_ || !kernel_) return;
    busy_ = true;
    kernel_->ran.add(pc);
    busy_ = false;
  }

  // --- emulator::Observer ---
  void launch_begin(const emulator::Launch& launch) override;
  void launch_end(const emulator::Launch& launch) override;
  void block_begin(emulator::Block& block) override;
  void block_end(emulator::Block& block) override;
  void atomic(const void* address, size_t bytes, const void* pc) override;
  void copy_started(void* shared, const void* global, size_t bytes, const void* pc) override;
  void copy_landed(void* shared, const void* global, size_t bytes, const void* pc) override;
  void warp_synced(unsigned mask) override;
  void matrix_row_read(const void* shared, size_t bytes, const void* pc) override;
  void matrices_multiplied(uint64_t operations, const void* pc) override;
  void kernel_error(const char* text) override;

 private:
  enum class Role : uint8_t { plain, atomic, copy_start, copy_end };
  // A read of shared memory that nobody has written so far. If somebody does before the next barrier, it is a race.
  struct EarlyRead {
    Cell* cell;
    Stamp stamp;
    std::string text;
  };

  void examine(const void* address, size_t bytes, Access kind, Role role, const void* pc);
  uint32_t site_of(const void* pc, Access kind, bool shared, size_t bytes);
  void check_shared(const Place& place, size_t bytes, const Stamp& now, Access kind, Role role);
  void check_global(const Place& place, uintptr_t address, size_t bytes, const Stamp& now, Access kind, Role role);
  template <class Report>
  void check_cell(Cell& cell, const Stamp& now, Access kind, Role role, Report&& conflict);
  bool ordered(const Stamp& before, const Stamp& now) const;
  bool share_atomic(uint32_t block, uint32_t other) const;
  void add(Kind kind, uint32_t site, uint32_t other, const std::string& text);
  void settle_early_reads();

  std::mutex launching_;
  emulator::Config before_;
  MemoryMap map_;
  std::map<const void*, size_t> numbers_;  // of kernels, by address
  std::vector<KernelRecord> kernels_;
  KernelRecord* kernel_ = nullptr;
  std::string path_;
  size_t reported_ = 0;
  size_t errors_ = 0;

  uint32_t launch_ = 0;
  uint32_t block_ = 0;        // in the launch, in the order of running
  uint32_t block_owner_ = 0;  // the same over all launches
  RequestLog log_;
  uint32_t log_epoch_ = 0;
  WarpClocks clocks_;
  std::vector<Cell> shared_;
  GlobalCells global_;
  std::vector<EarlyRead> early_reads_;
  std::unordered_map<uint32_t, std::vector<uintptr_t>> atomics_;  // addresses, by block
  bool stopping_ = false;
  bool busy_ = false;
};

}  // namespace weft::trace
