// Floating-point operations of a kernel: how often each stretch of its code ran, times what the stretch computes.
//
//   BlockCounts blocks;
//   blocks.add(pc);                                         // at each basic block, by -fsanitize-coverage=trace-pc
//   for (const Operations& each : operations(blocks)) …    // the instruction, and what it did in all
//
// The compiler calls a function at the beginning of each basic block; counted are the calls. What a block computes is
// read from its machine code, by binutils' objdump, up to the next such call. Additions, subtractions, multiplications,
// divisions, square roots and calls of the mathematical library (exp, log …) are one operation each, a fused
// multiply-add two. Comparisons, minima, maxima, signs and conversions are none, as in the counters of
// GPUs (clang's conversion of a float to a 64-bit number without sign takes a subtraction, which is counted).
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace weft::trace {

// By the address that the call at a block's beginning returns to.
class BlockCounts {
 public:
  struct Entry {
    uintptr_t address = 0;  // 0: free
    uint64_t count = 0;
  };

  void add(const void* pc, uint64_t count = 1) {
    const auto address = reinterpret_cast<uintptr_t>(pc);
    if (2 * used_ >= table_.size()) grow();
    Entry& entry = find(address);
    if (entry.address == 0) {
      entry.address = address;
      ++used_;
    }
    entry.count += count;
  }
  // Those that ran, by address.
  std::vector<Entry> sorted() const;

 private:
  Entry& find(uintptr_t address) {
    const size_t mask = table_.size() - 1;
    size_t slot = (address * 0x9e3779b97f4a7c15u >> 32) & mask;
    while (table_[slot].address != 0 && table_[slot].address != address) slot = (slot + 1) & mask;
    return table_[slot];
  }
  void grow();

  std::vector<Entry> table_;  // a power of two
  size_t used_ = 0;
};

struct Operations {
  const void* instruction = nullptr;
  uint64_t count = 0;
};

// Null where machine code cannot be read: without objdump, or on processors other than x86-64. What was read is kept for
// the life of the process.
std::optional<std::vector<Operations>> operations(const BlockCounts& blocks);

}  // namespace weft::trace
