#include "tests/support/spawn_ranks.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>

#include "distributed/comm/socket.h"
#include "distributed/comm/store_server.h"
#include "kernels/base/error.h"

extern char** environ;

namespace weft::testing {
namespace {

constexpr char kFunction[] = "WEFT_TEST_RANK_FUNCTION";
constexpr char kArguments[] = "WEFT_TEST_RANK_ARGUMENTS";
constexpr char kSeparator = '\x1f';

std::map<std::string, RankFunction>& functions() {
  static std::map<std::string, RankFunction> all;
  return all;
}

// What a spawned process runs; hidden from an ordinary run of the program.
TEST(SpawnedRank, DISABLED_Run) {
  const char* name = std::getenv(kFunction);
  ASSERT_NE(name, nullptr) << "only for processes started by spawn_ranks";
  const auto found = functions().find(name);
  ASSERT_NE(found, functions().end()) << "no WEFT_RANK_FUNCTION(" << name << ")";
  std::vector<std::string> arguments;
  std::stringstream packed(std::getenv(kArguments));
  for (std::string argument; std::getline(packed, argument, kSeparator);) arguments.push_back(argument);
  found->second(arguments);
}

struct Process {
  pid_t pid = -1;
  FileDescriptor output;
  bool running = true;
};

std::vector<std::string> environment_of(int rank, int size, int port, const std::string& function,
                                        const SpawnOptions& options) {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry; ++entry) {
    const char* equals = std::strchr(*entry, '=');
    if (equals) variables[std::string(*entry, static_cast<size_t>(equals - *entry))] = equals + 1;
  }
  std::string packed;
  for (const std::string& argument : options.arguments) packed += argument + kSeparator;
  variables["RANK"] = variables["LOCAL_RANK"] = std::to_string(rank);
  variables["WORLD_SIZE"] = variables["LOCAL_WORLD_SIZE"] = std::to_string(size);
  variables["MASTER_ADDR"] = "127.0.0.1";
  variables["MASTER_PORT"] = std::to_string(port);
  variables["WEFT_STORE"] = "launcher";
  variables[kFunction] = function;
  variables[kArguments] = packed;
  variables.erase("GTEST_OUTPUT");
  variables.erase("GTEST_FILTER");
  for (const auto& [key, value] : options.environment) variables[key] = value;
  std::vector<std::string> result;
  for (const auto& [key, value] : variables) result.push_back(key + "=" + value);
  return result;
}

Process start(const std::vector<std::string>& environment) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail(ErrorCode::io, "spawn_ranks", "pipe: {}", error_text(errno));
  Process process;
  process.output = FileDescriptor(ends[0]);
  const FileDescriptor child_end(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, child_end.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, child_end.get(), STDERR_FILENO);
  std::vector<char*> variables;
  for (const std::string& entry : environment) variables.push_back(const_cast<char*>(entry.c_str()));
  variables.push_back(nullptr);
  std::string words[] = {"rank", "--gtest_filter=SpawnedRank.DISABLED_Run", "--gtest_also_run_disabled_tests"};
  char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  const int result = posix_spawn(&process.pid, "/proc/self/exe", &actions, nullptr, arguments, variables.data());
  posix_spawn_file_actions_destroy(&actions);
  if (result != 0) fail(ErrorCode::io, "spawn_ranks", "posix_spawn: {}", error_text(result));
  return process;
}

}  // namespace

std::vector<RankResult> spawn_ranks(int size, const std::string& function, const SpawnOptions& options) {
  const StoreServer server({.host = "127.0.0.1", .port = 0});
  const auto begin = std::chrono::steady_clock::now();
  std::vector<Process> processes;
  std::vector<RankResult> results(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    results[static_cast<size_t>(rank)].rank = rank;
    processes.push_back(start(environment_of(rank, size, server.port(), function, options)));
  }
  bool killed = false;
  for (int running = size; running > 0;) {
    std::vector<pollfd> outputs;
    for (const Process& process : processes)
      outputs.push_back({.fd = process.running ? process.output.get() : -1, .events = POLLIN, .revents = 0});
    poll(outputs.data(), outputs.size(), 100);
    const auto elapsed = std::chrono::steady_clock::now() - begin;
    for (size_t i = 0; i < processes.size(); ++i) {
      if (outputs[i].revents == 0) continue;
      char buffer[4096];
      const ssize_t length = read(outputs[i].fd, buffer, sizeof(buffer));
      if (length > 0) {
        results[i].output.append(buffer, static_cast<size_t>(length));
        continue;
      }
      int status = 0;  // end of its output: the process is ending
      waitpid(processes[i].pid, &status, 0);
      processes[i].running = false;
      --running;
      results[i].exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
      results[i].signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
      results[i].timed_out = killed;
      results[i].seconds = std::chrono::duration<double>(elapsed).count();
    }
    if (!killed && elapsed > options.timeout) {
      killed = true;
      for (const Process& process : processes)
        if (process.running) kill(process.pid, SIGKILL);
    }
  }
  return results;
}

::testing::AssertionResult all_succeeded(const std::vector<RankResult>& results) {
  ::testing::AssertionResult verdict = ::testing::AssertionSuccess();
  bool good = true;
  for (const RankResult& result : results) good = good && result.exit_code == 0;
  if (good) return verdict;
  verdict = ::testing::AssertionFailure();
  for (const RankResult& result : results) {
    if (result.exit_code == 0) continue;
    verdict << "rank " << result.rank << (result.timed_out ? " took too long" : "") << ", exit code "
            << result.exit_code << ", signal " << result.signal << ":\n"
            << result.output << "\n";
  }
  return verdict;
}

detail::RegisterRankFunction::RegisterRankFunction(const char* name, RankFunction function) {
  functions()[name] = function;
}

}  // namespace weft::testing
