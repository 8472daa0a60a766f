#include "kernels/simt/trace/recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "kernels/simt/emulator/block.h"

namespace weft::trace {
namespace {

using emulator::current;

// Beyond this many pages of shadow memory, global races are looked for anew: it costs 64 times what it describes.
constexpr size_t kMaxPages = size_t{1} << 15;
constexpr uint32_t kThreadsPerBlock = 1024;

// "thread (3, 0, 0) of block (1, 0, 0)"
std::string thread_name() {
  const uint3 t = current.thread_index, b = current.block_index;
  return fmt::format("thread ({}, {}, {}) of block ({}, {}, {})", t.x, t.y, t.z, b.x, b.y, b.z);
}

// The same of another thread of the running launch; `number` as in Stamp.
std::string thread_name(uint32_t number) {
  const unsigned t = number % kThreadsPerBlock;
  const dim3 dim = current.block_dim;
  return fmt::format("thread ({}, {}, {})", t % dim.x, t / dim.x % dim.y, t / dim.x / dim.y);
}

const char* verb(Access kind) { return kind == Access::load ? "read" : kind == Access::store ? "write" : "atomic"; }

// Inline functions of the standard library are compiled into traced units, too, and the linker may choose those for the
// code here: what they touch is not the kernel's.
class Busy {
 public:
  explicit Busy(bool& flag) : flag_(flag) { flag_ = true; }
  ~Busy() { flag_ = false; }

 private:
  bool& flag_;
};

}  // namespace

Recorder* Recorder::active = nullptr;

Recorder& Recorder::instance() {
  static auto* const recorder = new Recorder;  // lives as long as kernels run
  return *recorder;
}

void Recorder::start() {
  const std::lock_guard lock(launching_);
  kernels_.clear();
  numbers_.clear();
  reported_ = errors_ = 0;
  if (active) return;
  before_ = emulator::config();
  emulator::config().threads = 1;
  emulator::config().stack_bytes = std::max<size_t>(before_.stack_bytes, 256 * 1024);  // the hooks run there
  emulator::set_observer(this);
  active = this;
}

void Recorder::stop() {
  const std::lock_guard lock(launching_);
  if (!active) return;
  active = nullptr;
  emulator::set_observer(nullptr);
  emulator::config().threads = before_.threads;
  emulator::config().stack_bytes = before_.stack_bytes;
}

// --- launches and blocks ----------------------------------------------------------------------------------------

void Recorder::launch_begin(const emulator::Launch& launch) {
  launching_.lock();
  const auto [number, is_new] = numbers_.emplace(launch.kernel, kernels_.size());
  if (is_new) {
    kernels_.emplace_back();
    kernels_.back().address = launch.kernel;
    kernels_.back().launched_at = launch.at;
  }
  kernel_ = &kernels_[number->second];
  const uint64_t blocks = uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  ++kernel_->launches;
  kernel_->blocks += blocks;
  kernel_->threads += blocks * launch.block.x * launch.block.y * launch.block.z;
  map_.begin_launch(launch);
  ++launch_;
  block_ = 0;
  atomics_.clear();
  if (global_.pages() > kMaxPages) global_.clear();
}

void Recorder::launch_end(const emulator::Launch&) {
  map_.end_launch();
  kernel_ = nullptr;
  const bool news = errors_ != reported_;
  reported_ = errors_;
  launching_.unlock();
  if (news && !path_.empty()) write(path_);
}

void Recorder::write(const std::string& path) {
  const std::string text = to_json(report());
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (!file) return;
  std::fwrite(text.data(), 1, text.size(), file);
  std::fclose(file);
}

void Recorder::block_begin(emulator::Block& block) {
  const Busy busy(busy_);
  ++block_owner_;
  log_.reset(block.threads());
  log_epoch_ = 0;
  clocks_.reset(block.threads());
  early_reads_.clear();
  stopping_ = false;
}

void Recorder::block_end(emulator::Block&) {
  const Busy busy(busy_);
  settle_early_reads();
  log_.flush(kernel_->sites);
  ++block_;
}

// --- accesses ---------------------------------------------------------------------------------------------------

void Recorder::access(const void* address, size_t bytes, Access kind, const void* pc) {
  if (busy_ || !kernel_) return;
  const Busy busy(busy_);
  // A GPU has no access of more than 16 bytes: a longer one is several.
  const auto* begin = static_cast<const char*>(address);
  for (size_t done = 0; done < bytes; done += 16)
    examine(begin + done, std::min<size_t>(16, bytes - done), kind, Role::plain, pc);
}

void Recorder::atomic(const void* address, size_t bytes, const void* pc) {
  if (busy_ || !kernel_) return;
  const Busy busy(busy_);
  examine(address, bytes, Access::atomic, Role::atomic, pc);
}

void Recorder::copy_started(void* shared, const void* global, size_t bytes, const void* pc) {
  if (busy_ || !kernel_) return;
  const Busy busy(busy_);
  examine(global, bytes, Access::load, Role::plain, pc);
  examine(shared, bytes, Access::store, Role::copy_start, pc);
}

void Recorder::copy_landed(void* shared, const void*, size_t bytes, const void* pc) {
  if (busy_ || !kernel_) return;
  const Busy busy(busy_);
  examine(shared, bytes, Access::store, Role::copy_end, pc);
}

void Recorder::matrix_row_read(const void* shared, size_t bytes, const void* pc) {
  if (busy_ || !kernel_) return;
  const Busy busy(busy_);
  examine(shared, bytes, Access::load, Role::plain, pc);
}

void Recorder::matrices_multiplied(uint64_t operations, const void* pc) {
  if (busy_ || !kernel_) return;
  const Busy busy(busy_);
  kernel_->products[pc] += operations;
}

void Recorder::warp_synced(unsigned mask) {
  const Busy busy(busy_);
  clocks_.join(current.thread, mask);
}

void Recorder::examine(const void* address, size_t bytes, Access kind, Role role, const void* pc) {
  const Place place = map_.find(address, bytes);
  if (place.space == Space::none) return;
  const uint32_t site = site_of(pc, kind, place.space == Space::shared, bytes);
  const auto number = reinterpret_cast<uintptr_t>(address);
  const auto end_block = [&](Kind found, const std::string& text) {
    add(found, site + 1, 0, text);
    stopping_ = true;
    busy_ = false;  // this stack is given up, with the guard on it
    current.block->stop([&] { return fmt::format("{}: {}", name(found), text); });
  };
  if (!place.inside || place.space == Space::unknown) {
    std::string text;
    if (place.name)
      text = fmt::format("{} of {} bytes at byte {} of {}, which has {} bytes, by {}", verb(kind), bytes, place.offset,
                         *place.name, place.size, thread_name());
    else
      text = fmt::format("{} of {} bytes at {}, which is no memory of the device, by {}", verb(kind), bytes, address,
                         thread_name());
    if (!place.harmless || place.space == Space::unknown) return end_block(Kind::out_of_bounds, text);
    return add(Kind::out_of_bounds, site + 1, 0, text);
  }
  if ((bytes & (bytes - 1)) == 0 && number % bytes != 0)
    return end_block(Kind::misaligned,
                     fmt::format("{} of {} bytes at byte {} of {}, which is {} bytes past a multiple of {}, by {}",
                                 verb(kind), bytes, place.offset, *place.name, number % bytes, bytes, thread_name()));

  if (current.block->epoch() != log_epoch_) {
    log_epoch_ = current.block->epoch();
    log_.flush(kernel_->sites);
    settle_early_reads();
  }
  if (role != Role::copy_end) log_.add(current.thread, site, number, static_cast<unsigned>(bytes));
  const Stamp now{block_ * kThreadsPerBlock + current.thread, current.block->epoch(), clocks_.clock(current.thread),
                  site + 1};
  if (place.space == Space::shared)
    check_shared(place, bytes, now, kind, role);
  else
    check_global(place, number, bytes, now, kind, role);
}

uint32_t Recorder::site_of(const void* pc, Access kind, bool shared, size_t bytes) {
  const uint64_t key = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(pc)) << 8 | static_cast<uint64_t>(bytes) << 3 |
                       static_cast<uint64_t>(kind) << 1 | static_cast<uint64_t>(shared);
  const auto [number, is_new] = kernel_->site_numbers.emplace(key, static_cast<uint32_t>(kernel_->sites.size()));
  if (is_new) {
    Site site;
    site.pc = pc;
    site.figures.access = kind;
    site.figures.shared = shared;
    site.figures.bytes = static_cast<int>(bytes);
    kernel_->sites.push_back(site);
  }
  return number->second;
}

// --- races ------------------------------------------------------------------------------------------------------

bool Recorder::ordered(const Stamp& before, const Stamp& now) const {
  if (before.thread == now.thread) return true;
  const uint32_t block = before.thread / kThreadsPerBlock;
  if (block != now.thread / kThreadsPerBlock) return share_atomic(block, now.thread / kThreadsPerBlock);
  if (before.epoch != now.epoch) return true;
  return before.thread / 32 == now.thread / 32 &&
         clocks_.ordered(now.thread % kThreadsPerBlock, before.thread % kThreadsPerBlock, before.clock);
}

// Blocks that meet at an atomic, as "the last one to finish adds up", are taken to use it as a lock does.
bool Recorder::share_atomic(uint32_t block, uint32_t other) const {
  const auto a = atomics_.find(block);
  const auto b = atomics_.find(other);
  if (a == atomics_.end() || b == atomics_.end()) return false;
  return std::find_first_of(a->second.begin(), a->second.end(), b->second.begin(), b->second.end()) != a->second.end();
}

template <class Report>
void Recorder::check_cell(Cell& cell, const Stamp& now, Access kind, Role role, Report&& conflict) {
  if (kind == Access::load) {
    if (cell.written && !ordered(cell.writer, now)) conflict(cell.writer, Access::store);
    cell.add_reader(now);
    return;
  }
  const bool is_atomic = role == Role::atomic;
  if (cell.written && !(is_atomic && cell.atomic) && !ordered(cell.writer, now)) conflict(cell.writer, Access::store);
  if (cell.readers > 0)
    for (const Stamp& reader : cell.reader)
      if (!ordered(reader, now)) {
        conflict(reader, Access::load);
        break;
      }
  cell.written = true;
  cell.atomic = is_atomic;
  cell.readers = 0;
  cell.writer = now;
}

void Recorder::check_shared(const Place& place, size_t bytes, const Stamp& now, Access kind, Role role) {
  if (shared_.size() < map_.shared_size()) {
    settle_early_reads();  // they point into the cells
    shared_.resize(map_.shared_size());
  }
  bool told_race = false, told_early = false, told_pending = false;
  for (size_t i = 0; i < bytes; ++i) {
    Cell& cell = shared_[place.index + i];
    if (cell.owner != block_owner_) {
      cell = Cell{};
      cell.owner = block_owner_;
    }
    const auto byte = place.offset + static_cast<int64_t>(i);
    if (cell.pending && role != Role::copy_end && !told_pending) {
      told_pending = true;
      add(Kind::unfinished_copy, now.site, cell.writer.site,
          fmt::format("{} of byte {} of '{}' by {} while the copy that {} began is on its way", verb(kind), byte,
                      *place.name, thread_name(), thread_name(cell.writer.thread)));
    }
    if ((kind == Access::load || role == Role::atomic) && !cell.written && !told_early) {
      told_early = true;
      if (early_reads_.size() < 1024)
        early_reads_.push_back({&cell, now,
                                fmt::format("read of byte {} of '{}' by {}, which no thread of the block has written",
                                            byte, *place.name, thread_name())});
    }
    // Only the lanes of one copy meet here: its landing is no second write.
    if (role == Role::copy_end && cell.written && cell.writer.thread == now.thread) {
      cell.pending = false;
      cell.writer = now;
      continue;
    }
    check_cell(cell, now, kind, role, [&](const Stamp& before, Access earlier) {
      if (told_race) return;
      told_race = true;
      add(Kind::shared_race, now.site, before.site,
          fmt::format("{} of byte {} of '{}' by {} and {} by {}, with no barrier between them", verb(kind), byte,
                      *place.name, thread_name(), verb(earlier), thread_name(before.thread)));
    });
    cell.pending = role == Role::copy_start;
  }
}

void Recorder::check_global(const Place& place, uintptr_t address, size_t bytes, const Stamp& now, Access kind,
                            Role role) {
  if (role == Role::atomic) {
    std::vector<uintptr_t>& own = atomics_[now.thread / kThreadsPerBlock];
    if (std::find(own.begin(), own.end(), address) == own.end() && own.size() < 64) own.push_back(address);
  }
  bool told = false;
  for (size_t i = 0; i < bytes; ++i) {
    Cell& cell = *global_.at(address + i);
    if (cell.owner != launch_) {
      cell = Cell{};
      cell.owner = launch_;
    }
    check_cell(cell, now, kind, role, [&](const Stamp& before, Access earlier) {
      if (told) return;
      told = true;
      const bool same = before.thread / kThreadsPerBlock == now.thread / kThreadsPerBlock;
      add(Kind::global_race, now.site, before.site,
          fmt::format("{} of byte {} of {} by {} and {} by {} of {}, with nothing to order them", verb(kind),
                      place.offset + static_cast<int64_t>(i), *place.name, thread_name(), verb(earlier),
                      thread_name(before.thread), same ? "the same block" : "another block"));
    });
  }
}

void Recorder::settle_early_reads() {
  for (const EarlyRead& early : early_reads_)
    if (!early.cell->written || early.cell->atomic) add(Kind::uninitialised_shared, early.stamp.site, 0, early.text);
  early_reads_.clear();
}

// --- findings ---------------------------------------------------------------------------------------------------

void Recorder::add(Kind kind, uint32_t site, uint32_t other, const std::string& text) {
  RawFinding& finding = kernel_->findings[{kind, site, other, {}}];
  if (finding.count++ == 0) {
    finding.text = text;
    ++errors_;
  }
}

namespace {

// The places "file:line" in the emulator's words, in order.
std::vector<Line> places_in(std::string_view text) {
  std::vector<Line> places;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.find_first_of(" ,;", begin);
    if (end == std::string_view::npos) end = text.size();
    const std::string_view word = text.substr(begin, end - begin);
    const size_t colon = word.rfind(':');
    if (colon != std::string_view::npos && colon + 1 < word.size() && word.find('.') < colon &&
        word.find_first_not_of("0123456789", colon + 1) == std::string_view::npos)
      places.push_back({std::string(word.substr(0, colon)), std::atoi(word.data() + colon + 1)});
    begin = end + 1;
  }
  return places;
}

}  // namespace

void Recorder::kernel_error(const char* text) {
  const Busy busy(busy_);
  if (stopping_ || !kernel_) return;  // what stopped it has been told
  const std::string_view all = text;
  const std::string_view own = all.substr(0, all.find("; in block"));
  const std::string_view label = own.substr(0, own.find(':'));
  const Kind kind = label == "divergent barrier"                         ? Kind::divergent_barrier
                    : label == "mask mismatch" || label == "exited lane" ? Kind::invalid_mask
                    : label == "deadlock"                                ? Kind::deadlock
                    : label == "misaligned address"                      ? Kind::misaligned
                                                                         : Kind::other_error;
  std::vector<Line> places = places_in(own);
  places.resize(std::max<size_t>(places.size(), 2));
  RawFinding& finding = kernel_->findings[{kind, 0, 0, to_string(places[0]) + to_string(places[1])}];
  if (finding.count++ > 0) return;
  ++errors_;
  finding.text = label.size() < own.size() ? own.substr(label.size() + 2) : own;
  finding.at = places[0];
  finding.other = places[1];
}

}  // namespace weft::trace
