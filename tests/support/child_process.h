// A program run by a test: what it printed, how it ended, with a time limit on everything.
//
//   ChildProcess child({weft_program(), "launch", "-n", "2", "--", "true"});
//   auto result = child.wait();
//   EXPECT_EQ(result.exit_code, 0) << result.err;
#pragma once
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "distributed/comm/socket.h"
#include "distributed/launch/spawn.h"

namespace weft::test {

// The folder of the build: tests/ and the programs lie in it. This test is <build>/tests/<name>.
inline std::filesystem::path build_folder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path();
}
inline std::string weft_program() { return build_folder() / "weft"; }
inline std::string rank_program() { return build_folder() / "tests" / "support" / "rank_program"; }

// A folder that goes away with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = std::filesystem::temp_directory_path() / "weft-test-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp: " + error_text(errno));
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

class ChildProcess {
 public:
  struct Result {
    int exit_code = -1;  // 128 + signal when a signal ended it
    bool timed_out = false;
    std::string out;
    std::string err;
  };
  using Environment = std::vector<std::pair<std::string, std::string>>;
  using Seconds = std::chrono::duration<double>;

  // `output`: a descriptor to print to instead of being collected. `input`: what it can read.
  explicit ChildProcess(std::vector<std::string> command, const Environment& environment = {}, int output = -1,
                        const std::string& input = "") {
    FileDescriptor in[2], out[2], err[2];
    make_pipe(in);
    make_pipe(out);
    make_pipe(err);
    std::string path = resolve_program(command.front());
    pid_ = spawn_process({.path = path,
                          .arguments = std::move(command),
                          .environment = environment_with(environment),
                          .input = in[0].get(),
                          .output = output >= 0 ? output : out[1].get(),
                          .error_output = err[1].get()});
    if (pid_ < 0) throw std::runtime_error("cannot start " + path + ": " + error_text(-pid_));
    if (write(in[1].get(), input.data(), input.size()) != static_cast<ssize_t>(input.size()))
      throw std::runtime_error("the input does not fit into a pipe");
    out_ = std::move(out[0]);
    err_ = std::move(err[0]);
  }
  ~ChildProcess() {
    if (!reaped_) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  void send(int signal) const { kill(pid_, signal); }

  // Waits until standard output or standard error contain `text`.
  bool wait_for_text(const std::string& text, Seconds limit = Seconds(30)) {
    auto end = std::chrono::steady_clock::now() + limit;
    for (;;) {
      read_some(10);
      if (result_.out.find(text) != std::string::npos || result_.err.find(text) != std::string::npos) return true;
      if (std::chrono::steady_clock::now() > end) return false;
    }
  }

  // Waits for the end and returns everything; on a timeout kills the child and says so.
  Result wait(Seconds limit = Seconds(60)) {
    auto end = std::chrono::steady_clock::now() + limit;
    while (!reaped_) {
      read_some(10);
      reap(WNOHANG);
      if (!reaped_ && std::chrono::steady_clock::now() > end) {
        result_.timed_out = true;
        kill(pid_, SIGKILL);
        reap(0);
      }
    }
    while (read_some(0)) {
    }
    return result_;
  }

 private:
  static void make_pipe(FileDescriptor (&ends)[2]) {
    int numbers[2];
    if (pipe2(numbers, O_CLOEXEC) != 0) throw std::runtime_error("pipe: " + error_text(errno));
    ends[0] = FileDescriptor(numbers[0]);
    ends[1] = FileDescriptor(numbers[1]);
  }
  void reap(int flags) {
    int status = 0;
    if (waitpid(pid_, &status, flags) != pid_) return;
    reaped_ = true;
    result_.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  // Whether anything was read.
  bool read_some(int milliseconds) {
    pollfd entries[] = {{out_.get(), POLLIN, 0}, {err_.get(), POLLIN, 0}};
    poll(entries, 2, milliseconds);
    bool any = false;
    FileDescriptor* files[] = {&out_, &err_};
    std::string* texts[] = {&result_.out, &result_.err};
    for (int i = 0; i < 2; ++i) {
      if (entries[i].revents == 0) continue;
      char buffer[65536];
      ssize_t count = read(files[i]->get(), buffer, sizeof buffer);
      if (count > 0) {
        texts[i]->append(buffer, static_cast<std::size_t>(count));
        any = true;
      } else {
        files[i]->reset();
      }
    }
    if (!out_ && !err_ && milliseconds > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return any;
  }

  pid_t pid_ = -1;
  bool reaped_ = false;
  FileDescriptor out_;
  FileDescriptor err_;
  Result result_;
};

}  // namespace weft::test
