#include "distributed/launch/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "kernels/base/error.h"

namespace weft {
namespace {

constexpr const char* op = "launch";

enum class Found { no, not_executable, yes };

Found look_at(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return errno == EACCES ? Found::not_executable : Found::no;
  return S_ISREG(status.st_mode) && access(path.c_str(), X_OK) == 0 ? Found::yes : Found::not_executable;
}

// Pointers to the texts with a null at the end, as exec wants them.
std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (const auto& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

}  // namespace

std::string resolve_program(const std::string& name) {
  WEFT_CHECK(!name.empty(), op, "the program to start has an empty name");
  if (name.find('/') != std::string::npos) {
    Found found = look_at(name);
    if (found == Found::no) fail(ErrorCode::not_found, op, "cannot find the program {}", name);
    WEFT_CHECK(found == Found::yes, op, "{} cannot be executed: it is no file or lacks the permission (chmod +x)",
               name);
    return name;
  }
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "/usr/local/bin:/usr/bin:/bin" : path;
  std::string not_executable;
  for (bool more = true; more;) {
    std::size_t colon = rest.find(':');
    std::string folder(rest.substr(0, colon));
    more = colon != std::string_view::npos;
    if (more) rest.remove_prefix(colon + 1);
    std::string candidate = (folder.empty() ? "." : folder) + "/" + name;  // an empty entry means the current folder
    Found found = look_at(candidate);
    if (found == Found::yes) return candidate;
    if (found == Found::not_executable && not_executable.empty()) not_executable = candidate;
  }
  WEFT_CHECK(not_executable.empty(), op, "{} cannot be executed: it is no file or lacks the permission (chmod +x)",
             not_executable);
  fail(ErrorCode::not_found, op, "cannot find the program {} on PATH{}", name,
       look_at("./" + name) == Found::no ? "" : fmt::format("; for the one in this folder write ./{}", name));
}

std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& changes) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    std::string_view text = *entry;
    std::string_view name = text.substr(0, text.find('='));
    bool changed = false;
    for (const auto& change : changes) changed = changed || change.first == name;
    if (!changed) result.emplace_back(text);
  }
  for (const auto& [name, value] : changes) result.push_back(name + "=" + value);
  return result;
}

pid_t spawn_process(const SpawnOptions& options) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  const int descriptors[] = {options.input, options.output, options.error_output};
  for (int target = 0; target < 3; ++target) {
    if (descriptors[target] >= 0) posix_spawn_file_actions_adddup2(&files, descriptors[target], target);
  }
  sigset_t mask;
  sigset_t defaults;
  options.block_signals ? sigfillset(&mask) : sigemptyset(&mask);
  sigfillset(&defaults);
  for (int signal : options.keep_signals) sigdelset(&defaults, signal);
  posix_spawnattr_setsigmask(&attributes, &mask);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setpgroup(&attributes, options.group);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);

  pid_t pid = -1;
  int error = posix_spawn(&pid, options.path.c_str(), &files, &attributes, pointers(options.arguments).data(),
                          pointers(options.environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return error == 0 ? pid : -error;
}

}  // namespace weft
