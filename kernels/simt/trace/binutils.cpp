#include "kernels/simt/trace/binutils.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

extern char** environ;

namespace weft::trace {

namespace {

const link_map* link_map_of(const void* address) {
  Dl_info info{};
  link_map* map = nullptr;
  return dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) ? map : nullptr;
}

}  // namespace

uintptr_t library_base(const void* address) {
  const link_map* map = link_map_of(address);
  return map ? map->l_addr : 0;
}

LoadedLibrary library_of(const void* address) {
  const link_map* map = link_map_of(address);
  if (!map) return {};
  // The program itself has no name there.
  std::string path = map->l_name && *map->l_name ? map->l_name : "/proc/self/exe";
  std::error_code error;
  const auto real = std::filesystem::canonical(path, error);
  return {error ? path : real.string(), map->l_addr};
}

std::string run_tool(const std::vector<std::string>& command, const std::string& input) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  // The questions are in memory, so that nobody waits for anybody; the answers come through a pipe until its end.
  const int questions = memfd_create("weft-questions", MFD_CLOEXEC);
  int answers[2] = {-1, -1};
  std::string output;
  if (questions >= 0 && write(questions, input.data(), input.size()) == static_cast<ssize_t>(input.size()) &&
      lseek(questions, 0, SEEK_SET) == 0 && pipe2(answers, O_CLOEXEC) == 0) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, questions, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, answers[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    pid_t child = 0;
    const int status = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
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

}  // namespace weft::trace
