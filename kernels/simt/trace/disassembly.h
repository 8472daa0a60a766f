// Machine code as objdump shows it, as far as counting arithmetic needs it.
//
//   Disassembly code("libweft_simt.so");
//   if (const Instruction* instruction = code.at(0x4f20)) …
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace weft::trace {

struct Instruction {
  enum class Flow : uint8_t { next, jump, branch, stop };
  uintptr_t next = 0;    // the address behind it
  uintptr_t target = 0;  // of a jump or branch
  Flow flow = Flow::next;
  bool begins_block = false;  // the call that the compiler puts at the beginning of each
  int operations = 0;         // on floating-point numbers
};

class Disassembly {
 public:
  explicit Disassembly(std::string path) : path_(std::move(path)) {}
  // Reads what is around these addresses, in ascending order, in few runs of objdump.
  void prefetch(const std::vector<uintptr_t>& addresses);
  // Null: there is no code, or nobody to read it.
  const Instruction* at(uintptr_t address);

 private:
  void read(uintptr_t begin, uintptr_t end);

  std::string path_;
  std::unordered_map<uintptr_t, Instruction> instructions_;
};

}  // namespace weft::trace
