// What the examination asks of binutils (addr2line, objdump): the library an address belongs to, and a tool's answer.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace weft::trace {

struct LoadedLibrary {
  std::string path;    // empty: nobody's address
  uintptr_t base = 0;  // an address less this is the file's own
};
LoadedLibrary library_of(const void* address);
// Its base alone, which takes no look at the disk; 0: nobody's address.
uintptr_t library_base(const void* address);

// Runs a program to its end and returns what it writes, `input` being what it reads; empty if there is no such program.
std::string run_tool(const std::vector<std::string>& command, const std::string& input = {});

}  // namespace weft::trace
