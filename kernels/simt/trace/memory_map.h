// What an address in a kernel is: a shared variable, a buffer of the device, or neither.
//
//   MemoryMap map;
//   map.begin_launch(launch);
//   Place place = map.find(address, bytes);
//   if (place.space == Space::global && !place.inside) …   // beyond the end of place.name
//
// __shared__ variables are thread-local ones to the host compiler: the symbol tables of the libraries that hold traced
// code say where they are and what they are called. All calls come from the thread that runs the blocks.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/simt/emulator/launch.h"
#include "kernels/simt/emulator/memory.h"

namespace weft::trace {

enum class Space : uint8_t {
  none,     // a stack, constants, arguments: nothing to examine
  shared,   // offset counts from the beginning of all of the block's shared memory
  global,   // of the device
  unknown,  // nobody's
};

struct Place {
  Space space = Space::unknown;
  bool inside = true;    // false: at least partly outside of what `name` is
  bool harmless = true;  // false: an access would hit foreign memory
  size_t index = 0;      // shared: the byte's number, for shadow memory
  int64_t offset = 0;    // bytes from the beginning of what `name` is; negative before it
  int64_t size = 0;      // bytes of it
  const std::string* name = nullptr;
};

// Code compiled for tracing announces its library.
void add_traced_module(const void* pc);

class MemoryMap {
 public:
  // A buffer that the kernel gets as its third argument is called "{argument 3}": names cost a look at the debug
  // information, which comes at the end, for all kernels at once.
  void begin_launch(const emulator::Launch& launch);
  void end_launch();
  Place find(const void* address, size_t bytes);
  // Bytes of shared memory that `index` may reach.
  size_t shared_size() const { return shared_size_; }

 private:
  struct Variable {
    size_t begin;  // in the module's thread-local memory
    size_t size;
    std::string name;
  };
  struct Module {
    uintptr_t base = 0;  // where it is loaded
    std::string path;
    const char* memory = nullptr;  // the running thread's copy of its thread-local memory; null before its first use
    size_t size = 0;
    size_t first_index = 0;
    std::vector<Variable> variables;  // by address
  };
  struct Range {
    const char* begin;
    const char* end;
  };
  struct Named {
    emulator::Buffer buffer;
    std::string name;
  };

  void locate_modules();
  static std::vector<Variable> read_variables(const std::string& path);
  Place in_module(const Module& module, const char* address, size_t bytes) const;
  Place in_buffers(const char* address, size_t bytes);
  bool is_program_memory(const char* address) const;

  const emulator::Launch* launch_ = nullptr;
  const char* dynamic_ = nullptr;
  std::string dynamic_name_;
  size_t shared_size_ = 0;
  std::vector<Module> modules_;
  std::vector<Range> loaded_;  // segments of all libraries
  std::vector<Named> buffers_;
  uint64_t buffers_version_ = 0;
  size_t last_ = 0;  // buffer found last
};

}  // namespace weft::trace
