#include "kernels/simt/trace/symbolizer.h"

#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <utility>

#include "kernels/simt/trace/binutils.h"

namespace weft::trace {
namespace {

using Key = std::pair<const void*, bool>;

// Runs addr2line on `offsets`; empty if there is none.
std::string run_addr2line(const std::string& path, const std::vector<uintptr_t>& offsets) {
  std::ostringstream text;
  for (const uintptr_t offset : offsets) text << "0x" << std::hex << offset << '\n';
  return run_tool({"addr2line", "-a", "-i", "-f", "-C", "-e", path}, text.str());
}

// "/build/../kernels/x.cu:31 (discriminator 2)"
Line parse_line(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return {};
  Line line{std::filesystem::path(text.substr(0, colon)).lexically_normal().string(),
            std::atoi(text.c_str() + colon + 1)};
  if (line.line == 0) return {};
  return line;
}

// One answer: the address, then two lines a frame.
void parse(const std::string& output, const std::vector<Key>& keys, std::map<Key, std::vector<Frame>>& known) {
  std::istringstream lines(output);
  std::string line;
  size_t next = 0;
  std::vector<Frame>* frames = nullptr;
  while (std::getline(lines, line)) {
    if (line.starts_with("0x")) {
      if (next == keys.size()) return;
      frames = &known[keys[next++]];
      continue;
    }
    std::string place;
    if (!frames || !std::getline(lines, place)) return;
    if (Line at = parse_line(place); at.line != 0) frames->push_back({line, std::move(at)});
  }
}

}  // namespace

std::vector<std::vector<Frame>> resolve(const std::vector<Address>& addresses) {
  static auto* const known = new std::map<Key, std::vector<Frame>>;  // used until the very end of the process
  std::map<std::string, std::pair<std::vector<Key>, std::vector<uintptr_t>>> questions;
  for (const Address& address : addresses) {
    const Key key{address.pc, address.is_return};
    if (!known->emplace(key, std::vector<Frame>{}).second) continue;
    const LoadedLibrary module = library_of(address.pc);
    if (module.path.empty()) continue;
    auto& [keys, offsets] = questions[module.path];
    keys.push_back(key);
    offsets.push_back(reinterpret_cast<uintptr_t>(address.pc) - module.base - (address.is_return ? 1 : 0));
  }
  for (const auto& [path, question] : questions) parse(run_addr2line(path, question.second), question.first, *known);
  std::vector<std::vector<Frame>> frames;
  frames.reserve(addresses.size());
  for (const Address& address : addresses) frames.push_back((*known)[{address.pc, address.is_return}]);
  return frames;
}

}  // namespace weft::trace
