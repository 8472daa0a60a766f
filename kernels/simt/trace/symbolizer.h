// From addresses in machine code to lines of source, by binutils' addr2line: one child process for all addresses of a
// library, which has ended when the function returns.
//
//   std::vector<Frame> frames = resolve({{pc, true}})[0];   // innermost first, then the functions it is inlined in
#pragma once
#include <string>
#include <vector>

#include "kernels/simt/trace/report.h"

namespace weft::trace {

struct Frame {
  std::string function;
  Line at;
};

struct Address {
  const void* pc = nullptr;
  bool is_return = false;  // of a call: the line is that of the instruction before
  friend bool operator==(const Address&, const Address&) = default;
};

// An address that nobody knows has no frames: its library has no debug information, or there is no addr2line. Answers
// are kept for the life of the process.
std::vector<std::vector<Frame>> resolve(const std::vector<Address>& addresses);

}  // namespace weft::trace
