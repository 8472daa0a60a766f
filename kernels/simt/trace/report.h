// What an examination found out about kernels: figures a source line, and findings.
//
//   trace::start();                               // launches are examined from here on
//   launch(kernel, …);
//   trace::Report report = trace::finish();
//   for (const trace::Finding& finding : report.kernels[0].findings)
//     puts(trace::describe(finding).c_str());     // out of bounds at softmax.cu:31: read of 4 bytes …
//
// Only units compiled for tracing are seen: -fsanitize=thread puts a call before each access to memory, and the calls go
// to functions of ours (hooks.cpp) instead of the ThreadSanitizer runtime. docs/kernels.md says how to read a report.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::trace {

enum class Kind : uint8_t {
  // Errors: the kernel is wrong.
  shared_race,           // two threads, one address in shared memory, at least one write, no barrier between them
  global_race,           // the same in global memory, where a barrier orders only the threads of one block
  uninitialised_shared,  // a read of shared memory that the block has not written
  out_of_bounds,         // an access outside of every buffer and shared array
  misaligned,            // an address that is not a multiple of the size of the access
  unfinished_copy,       // the target of a cp.async is used before its wait
  divergent_barrier,     // threads of a block at different __syncthreads
  invalid_mask,          // a warp operation whose mask leaves out the caller, names a lane that has gone, or differs
  deadlock,              // no thread can go on
  other_error,           // what else the emulator refused
  // Remarks: the kernel is slow.
  bank_conflict,    // lanes that hit different words of one bank of shared memory: served one after the other
  uncoalesced,      // a warp's access to global memory touches more than twice the sectors it needs
  divergent_lanes,  // a warp walks through several branches, each with a few lanes
};
inline constexpr int kKinds = 13;

std::string_view name(Kind kind);  // "shared race"
bool is_error(Kind kind);

struct Line {
  std::string file;
  int line = 0;  // 0: unknown
  friend bool operator==(const Line&, const Line&) = default;
};
std::string to_string(const Line& line);  // "softmax.cu:31", the file without its folder

struct Finding {
  Kind kind = Kind::other_error;
  Line at;
  Line other;        // of two threads in conflict, the earlier one's; else line 0
  std::string text;  // of the first time
  uint64_t count = 0;
};
std::string describe(const Finding& finding);

enum class Access : uint8_t { load, store, atomic };
std::string_view name(Access access);

// One instruction kind of a line, summed over all launches. A request is what a warp does at once: the k-th time that
// its lanes execute the instruction between two barriers of the block.
struct LineFigures {
  Line at;
  Access access = Access::load;
  bool shared = false;  // or global
  int bytes = 0;        // a lane
  uint64_t requests = 0;
  uint64_t lanes = 0;           // active ones, over all requests
  uint64_t possible_lanes = 0;  // that the warps have
  uint64_t scattered = 0;       // requests whose active lanes are not neighbours
  uint64_t useful_bytes = 0;    // different bytes
  uint64_t sectors = 0;         // global: of 32 bytes, that were touched
  uint64_t needed_sectors = 0;  // global: that the useful bytes would fill
  uint64_t passes = 0;          // shared: rounds over the banks
  uint64_t needed_passes = 0;   // shared: without conflicts
  int64_t stride = 0;           // bytes between neighbouring lanes, where it was always the same; else 0

  double coalescing() const { return sectors ? static_cast<double>(needed_sectors) / static_cast<double>(sectors) : 1; }
  double conflict() const {
    return needed_passes ? static_cast<double>(passes) / static_cast<double>(needed_passes) : 1;
  }
  double active() const {
    return possible_lanes ? static_cast<double>(lanes) / static_cast<double>(possible_lanes) : 1;
  }
};

// Floating-point operations of a line, of all threads and launches (arithmetic.h says what counts).
struct LineArithmetic {
  Line at;
  uint64_t operations = 0;
};

struct KernelReport {
  std::string name;  // "softmax_rows<float, 4>"
  Line defined_at;
  Line launched_at;  // the first time
  uint64_t launches = 0;
  uint64_t blocks = 0;
  uint64_t threads = 0;
  std::vector<LineFigures> lines;  // by file, line
  std::vector<Finding> findings;   // errors first
  uint64_t read_bytes = 0;         // from global memory: 32 a sector
  uint64_t written_bytes = 0;
  std::optional<uint64_t> operations;      // on floating-point numbers; null where the machine code cannot be read
  std::vector<LineArithmetic> arithmetic;  // by file, line

  // Of all requests to global memory.
  double coalescing() const;
  // The worst line's.
  double conflict() const;
  double active() const;
  // Operations a byte of global memory, read or written; null without either figure.
  std::optional<double> intensity() const;
  size_t errors() const;
};

struct Report {
  std::vector<KernelReport> kernels;  // in the order of their first launch
  size_t errors() const;
  size_t remarks() const;
};

// From here on all launches of this process are examined, on one OS thread. What was recorded before is forgotten.
void start();
// Examines no longer; everything recorded, addresses resolved to lines.
Report finish();

std::string to_json(const Report& report);

}  // namespace weft::trace
