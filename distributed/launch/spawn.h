// Starting one program, the way the launcher needs it: by posix_spawn, never by fork, because a fork of a process whose
// libraries have threads can hang in the child.
#pragma once
#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace weft {

// The file that `name` stands for: itself when it has a slash, else the first executable of that name on PATH. Throws
// not_found, or invalid_argument when it is there but cannot be executed (a folder, no execute permission).
std::string resolve_program(const std::string& name);

// This process's environment with `changes` set on top; every name occurs once.
std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& changes);

struct SpawnOptions {
  std::string path = {};                      // the file to execute
  std::vector<std::string> arguments = {};    // argv, arguments[0] is the name the program sees
  std::vector<std::string> environment = {};  // "NAME=value"
  int input = -1;                             // becomes descriptor 0; -1: as in this process
  int output = -1;                            // becomes descriptor 1
  int error_output = -1;                      // becomes descriptor 2
  pid_t group = 0;                            // the process group to join; 0: lead a new one
  std::vector<int> keep_signals =
      {};                      // signals whose handling (ignored or not) is inherited; all others start as default
  bool block_signals = false;  // start with every signal blocked instead of none
};

// Starts it. Returns its id, or a negative errno (-ENOENT: the file or the interpreter on its first line is missing; -ENOEXEC:
// it is no program).
pid_t spawn_process(const SpawnOptions& options);

}  // namespace weft
