#include "kernels/simt/trace/symbolizer.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <utility>

extern char** environ;

namespace weft::trace {
namespace {

using Key = std::pair<const void*, bool>;

struct Module {
  std::string path;
  uintptr_t base = 0;
};

Module module_of(const void* pc) {
  Dl_info info{};
  link_map* map = nullptr;
  if (!dladdr1(pc, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) || !map) return {};
  // The program itself has no name there.
  std::string path = map->l_name && *map->l_name ? map->l_name : "/proc/self/exe";
  std::error_code error;
  const auto real = std::filesystem::canonical(path, error);
  return {error ? path : real.string(), map->l_addr};
}

// Runs addr2line on `offsets`; empty if there is none.
std::string run_addr2line(const std::string& path, const std::vector<uintptr_t>& offsets) {
  std::ostringstream text;
  for (const uintptr_t offset : offsets) text << "0x" << std::hex << offset << '\n';
  const std::string input = text.str();
  // The questions are in memory, so that nobody waits for anybody; the answers come through a pipe until its end.
  const int questions = memfd_create("weft-addresses", MFD_CLOEXEC);
  int answers[2] = {-1, -1};
  std::string output;
  if (questions >= 0 && write(questions, input.data(), input.size()) == static_cast<ssize_t>(input.size()) &&
      lseek(questions, 0, SEEK_SET) == 0 && pipe2(answers, O_CLOEXEC) == 0) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, questions, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, answers[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    const char* arguments[] = {"addr2line", "-a", "-i", "-f", "-C", "-e", path.c_str(), nullptr};
    pid_t child = 0;
    const int status =
        posix_spawnp(&child, arguments[0], &actions, nullptr, const_cast<char* const*>(arguments), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(std::exchange(answers[1], -1));
    if (status == 0) {
      char buffer[1 << 14];
      for (;;) {
        const ssize_t count = read(answers[0], buffer, sizeof(buffer));
        if (count > 0)
          output.append(buffer, static_cast<size_t>(count));
        else if (count == 0 || errno != EINTR)
          break;
      }
      while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) continue;
    }
  }
  for (const int descriptor : {questions, answers[0], answers[1]})
    if (descriptor >= 0) close(descriptor);
  return output;
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
    const Module module = module_of(address.pc);
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
