#include "kernels/simt/trace/memory_map.h"

#include <cxxabi.h>
#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>

#include "kernels/simt/emulator/block.h"
#include "kernels/simt/emulator/state.h"

namespace weft::trace {
namespace {

struct TracedModules {
  std::mutex mutex;
  std::vector<const void*> code;  // an address in each unit
};
TracedModules& traced_modules() {
  static auto* const modules = new TracedModules;
  return *modules;
}

// "weft::simt::(anonymous namespace)::reverse(float const*, float*)::tile" -> "tile"
std::string variable_name(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> demangled(abi::__cxa_demangle(symbol, nullptr, nullptr, &status),
                                                         std::free);
  const std::string full = status == 0 && demangled ? demangled.get() : symbol;
  const size_t colon = full.rfind("::");
  return colon == std::string::npos ? full : full.substr(colon + 2);
}

bool contains(uintptr_t begin, uintptr_t size, const void* address) {
  return reinterpret_cast<uintptr_t>(address) - begin < size;
}

}  // namespace

void add_traced_module(const void* pc) {
  TracedModules& modules = traced_modules();
  const std::lock_guard lock(modules.mutex);
  modules.code.push_back(pc);
}

// Thread-local symbols of an ELF file that are __shared__ variables.
std::vector<MemoryMap::Variable> MemoryMap::read_variables(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string image{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::vector<Variable> variables;
  if (image.size() < sizeof(Elf64_Ehdr) || std::memcmp(image.data(), ELFMAG, SELFMAG) != 0) return variables;
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(image.data());
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(image.data() + header->e_shoff);
  if (header->e_shoff + header->e_shnum * sizeof(Elf64_Shdr) > image.size()) return variables;
  for (int s = 0; s < header->e_shnum; ++s) {
    if (sections[s].sh_type != SHT_SYMTAB) continue;
    const Elf64_Shdr& strings = sections[sections[s].sh_link];
    if (sections[s].sh_offset + sections[s].sh_size > image.size() ||
        strings.sh_offset + strings.sh_size > image.size())
      continue;
    const auto* symbols = reinterpret_cast<const Elf64_Sym*>(image.data() + sections[s].sh_offset);
    for (size_t i = 0; i < sections[s].sh_size / sizeof(Elf64_Sym); ++i) {
      if (ELF64_ST_TYPE(symbols[i].st_info) != STT_TLS || symbols[i].st_shndx == SHN_UNDEF) continue;
      const char* symbol = image.data() + strings.sh_offset + symbols[i].st_name;
      // Kernels' shared variables are local to functions (_ZZ…); the rest is the libraries' own.
      if (std::strncmp(symbol, "_ZZ", 3) != 0) continue;
      variables.push_back({symbols[i].st_value, symbols[i].st_size, variable_name(symbol)});
    }
  }
  std::sort(variables.begin(), variables.end(), [](const Variable& a, const Variable& b) { return a.begin < b.begin; });
  return variables;
}

void MemoryMap::locate_modules() {
  std::vector<const void*> code;
  {
    TracedModules& modules = traced_modules();
    const std::lock_guard lock(modules.mutex);
    code = modules.code;
  }
  struct Walk {
    MemoryMap* self;
    const std::vector<const void*>* code;
  } walk{this, &code};
  loaded_.clear();
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* pointer) {
        const auto& [self, code] = *static_cast<Walk*>(pointer);
        bool traced = false;
        size_t thread_local_size = 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& segment = info->dlpi_phdr[i];
          const uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
          if (segment.p_type == PT_TLS) thread_local_size = segment.p_memsz;
          if (segment.p_type != PT_LOAD) continue;
          self->loaded_.push_back(
              {reinterpret_cast<const char*>(begin), reinterpret_cast<const char*>(begin + segment.p_memsz)});
          for (const void* pc : *code) traced = traced || contains(begin, segment.p_memsz, pc);
        }
        if (!traced || thread_local_size == 0) return 0;
        auto& modules = self->modules_;
        auto found = std::find_if(modules.begin(), modules.end(),
                                  [&](const Module& module) { return module.base == info->dlpi_addr; });
        if (found == modules.end()) {
          const std::string path = info->dlpi_name && *info->dlpi_name ? info->dlpi_name : "/proc/self/exe";
          size_t first = emulator::kMaxDynamicShared + 2 * sizeof(double);
          for (const Module& module : modules) first += module.size;
          modules.push_back({info->dlpi_addr, path, nullptr, thread_local_size, first, read_variables(path)});
          found = modules.end() - 1;
        }
        found->memory = static_cast<const char*>(info->dlpi_tls_data);
        return 0;
      },
      &walk);
  shared_size_ = emulator::kMaxDynamicShared + 2 * sizeof(double);
  for (const Module& module : modules_) shared_size_ += module.size;
}

void MemoryMap::begin_launch(const emulator::Launch& launch) {
  launch_ = &launch;
  dynamic_ = nullptr;
  dynamic_name_ = "dynamic shared memory";
  locate_modules();
  if (const uint64_t version = emulator::buffers_version(); version != buffers_version_) {
    buffers_version_ = version;
    buffers_.clear();
    for (const emulator::Buffer& buffer : emulator::buffers()) buffers_.push_back({buffer, {}});
  }
  for (Named& named : buffers_)
    named.name = named.buffer.bytes ? fmt::format("a buffer of {} bytes", named.buffer.bytes) : "a freed buffer";
  last_ = 0;

  std::vector<const void*> pointers(launch.parameters);
  if (launch.list_pointers) launch.list_pointers(launch.arguments, pointers.data());
  for (size_t i = pointers.size(); i-- > 0;) {  // of several names the first parameter's stays
    if (!pointers[i]) continue;
    const auto* pointer = static_cast<const char*>(pointers[i]);
    for (Named& named : buffers_) {
      if (pointer < named.buffer.begin || pointer >= named.buffer.begin + std::max<size_t>(named.buffer.room, 1))
        continue;
      named.name = fmt::format("{{argument {}}}", i + 1);
      break;
    }
  }
}

void MemoryMap::end_launch() { launch_ = nullptr; }

Place MemoryMap::find(const void* pointer, size_t bytes) {
  const auto* address = static_cast<const char*>(pointer);
  const emulator::ThreadState& current = emulator::current;
  const emulator::Fiber& fiber = current.block->fiber();
  if (address >= fiber.stack && address < fiber.stack + fiber.stack_bytes) return {.space = Space::none};
  if (contains(reinterpret_cast<uintptr_t>(&current), sizeof(current), address)) return {.space = Space::none};

  const auto* dynamic = reinterpret_cast<const char*>(current.dynamic_shared);
  if (address >= dynamic && address < dynamic + emulator::kMaxDynamicShared) {
    const int64_t offset = address - dynamic;
    const auto size = static_cast<int64_t>(launch_->shared_bytes);
    const bool fits = address + bytes <= dynamic + emulator::kMaxDynamicShared;
    return {
        Space::shared, offset + static_cast<int64_t>(bytes) <= size, fits, static_cast<size_t>(offset), offset, size,
        &dynamic_name_};
  }
  for (int attempt = 0; attempt < 2; ++attempt) {
    bool all = true;
    for (const Module& module : modules_) {
      all = all && module.memory;
      if (module.memory && address >= module.memory && address < module.memory + module.size)
        return in_module(module, address, bytes);
    }
    if (attempt == 1) break;
    if (Place place = in_buffers(address, bytes); place.space == Space::global && place.inside) return place;
    // A library's thread-local memory comes into being at its first use.
    if (all) break;
    locate_modules();
  }
  if (contains(reinterpret_cast<uintptr_t>(launch_->arguments), launch_->arguments_bytes, address) ||
      is_program_memory(address))
    return {.space = Space::none};
  return in_buffers(address, bytes);
}

Place MemoryMap::in_module(const Module& module, const char* address, size_t bytes) const {
  const auto at = static_cast<size_t>(address - module.memory);
  auto after = std::upper_bound(module.variables.begin(), module.variables.end(), at,
                                [](size_t offset, const Variable& variable) { return offset < variable.begin; });
  if (after == module.variables.begin()) return {.space = Space::none};
  const Variable& variable = *(after - 1);
  const auto offset = static_cast<int64_t>(at - variable.begin);
  const auto size = static_cast<int64_t>(variable.size);
  // Behind the padding that follows an array lies what is no shared memory at all.
  if (offset >= size + 128) return {.space = Space::none};
  return {Space::shared, offset + static_cast<int64_t>(bytes) <= size, true, module.first_index + at, offset, size,
          &variable.name};
}

Place MemoryMap::in_buffers(const char* address, size_t bytes) {
  const auto place = [&](const Named& named) {
    const emulator::Buffer& buffer = named.buffer;
    const int64_t offset = address - buffer.begin;
    const auto margin = static_cast<int64_t>(emulator::kMemoryMargin);
    const auto end = offset + static_cast<int64_t>(bytes);
    return Place{Space::global,
                 offset >= 0 && end <= static_cast<int64_t>(buffer.bytes),
                 offset >= -margin && end <= static_cast<int64_t>(buffer.room) + margin,
                 0,
                 offset,
                 static_cast<int64_t>(buffer.bytes),
                 &named.name};
  };
  if (last_ < buffers_.size()) {
    const emulator::Buffer& buffer = buffers_[last_].buffer;
    if (address >= buffer.begin && address < buffer.begin + buffer.bytes) return place(buffers_[last_]);
  }
  const auto after = std::upper_bound(buffers_.begin(), buffers_.end(), address,
                                      [](const char* at, const Named& named) { return at < named.buffer.begin; });
  // The one that it is in, or the nearest.
  auto nearest = after;
  if (after == buffers_.end() ||
      (after != buffers_.begin() &&
       address - ((after - 1)->buffer.begin + (after - 1)->buffer.room) < after->buffer.begin - address))
    nearest = after == buffers_.begin() ? buffers_.end() : after - 1;
  if (nearest == buffers_.end()) return {.space = Space::unknown, .inside = false, .harmless = false};
  last_ = static_cast<size_t>(nearest - buffers_.begin());
  return place(*nearest);
}

bool MemoryMap::is_program_memory(const char* address) const {
  return std::any_of(loaded_.begin(), loaded_.end(),
                     [&](const Range& range) { return address >= range.begin && address < range.end; });
}

}  // namespace weft::trace
