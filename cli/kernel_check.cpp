// weft kernel-check: runs a program whose kernels are compiled for tracing, and tells what they did wrong or slowly.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "cli/kernel_check_report.h"
#include "cli/subcommands.h"
#include "kernels/base/error.h"
#include "tensor/json.h"

extern char** environ;

namespace weft::cli {

namespace {

namespace fs = std::filesystem;

constexpr int kUnusable = 2;  // exit code: nothing could be examined

// Where the processes of the program leave their reports; gone at the end.
class ReportFolder {
 public:
  ReportFolder() {
    std::string pattern = (fs::temp_directory_path() / "weft-kernel-check-XXXXXX").string();
    if (!mkdtemp(pattern.data()))
      fail(ErrorCode::io, "kernel-check", "no temporary folder {}: {}", pattern, std::strerror(errno));
    path_ = pattern;
  }
  ~ReportFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ReportFolder(const ReportFolder&) = delete;
  ReportFolder& operator=(const ReportFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// Runs the program to its end; a shell's code: 128 + signal.
int run(const std::vector<std::string>& command, const fs::path& reports) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable; ++variable)
    if (std::strncmp(*variable, "WEFT_KERNEL_CHECK=", 18) != 0) variables.emplace_back(*variable);
  variables.push_back("WEFT_KERNEL_CHECK=" + reports.string());
  const auto pointers = [](const std::vector<std::string>& words) {
    std::vector<char*> list;
    for (const std::string& word : words) list.push_back(const_cast<char*>(word.c_str()));
    list.push_back(nullptr);
    return list;
  };
  pid_t child = 0;
  const int status =
      posix_spawnp(&child, command[0].c_str(), nullptr, nullptr, pointers(command).data(), pointers(variables).data());
  if (status != 0) fail(ErrorCode::not_found, "kernel-check", "cannot run {}: {}", command[0], std::strerror(status));
  // Ctrl-C is for the program; what it did until then is worth a report.
  const auto before = std::signal(SIGINT, SIG_IGN);
  int ended = 0;
  while (waitpid(child, &ended, 0) < 0 && errno == EINTR) continue;
  std::signal(SIGINT, before);
  return WIFSIGNALED(ended) ? 128 + WTERMSIG(ended) : WEXITSTATUS(ended);
}

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) fail(ErrorCode::io, "kernel-check", "cannot write {}: {}", path, std::strerror(errno));
}

// The reports of all processes as one. Null: no process has written any.
Tree gather(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  if (files.empty()) return {};
  std::sort(files.begin(), files.end());
  Tree kernels = Tree::list();
  int64_t errors = 0;
  int64_t remarks = 0;
  for (const fs::path& file : files) {
    const Tree report = parse_json(read_text(file), file.string(), "kernel-check");
    errors += report["errors"].as_int();
    remarks += report["remarks"].as_int();
    for (const Tree& kernel : report["kernels"].as_list()) kernels.push_back(kernel);
  }
  return Tree::map({{"errors", errors}, {"remarks", remarks}, {"kernels", kernels}});
}

}  // namespace

void add_kernel_check(CLI::App& app) {
  struct Arguments {
    std::string html;
    std::string json;
    bool strict = false;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* check =
      app.add_subcommand("kernel-check", "run a program and examine its CUDA kernels: races, bounds, memory access");
  check->footer(
      "The program has to come from a build with traced kernels:\n"
      "  meson setup build-trace -Dtrace=true && ninja -C build-trace\n"
      "  build-trace/weft kernel-check build-trace/PROGRAM --device simt\n"
      "Exit code: 1 where a kernel is wrong, 2 where nothing could be examined, else the program's own.");
  check->add_option("--html", arguments->html, "write the sources with their figures as a page")->type_name("FILE");
  check->add_option("--json", arguments->json, "write the whole report as JSON")->type_name("FILE");
  check->add_flag("--strict", arguments->strict, "remarks on speed are findings, too: exit code 1");
  check->prefix_command();

  check->callback([check, arguments] {
    const std::vector<std::string> command = check->remaining();
    if (command.empty()) throw CLI::ValidationError("PROGRAM", "name the program to run");
    if (command.front().starts_with("-")) throw CLI::ValidationError(command.front(), "there is no such option");
    const ReportFolder folder;
    const int code = run(command, folder.path());
    std::fflush(nullptr);
    const Tree report = gather(folder.path());
    if (report.is_null()) {
      fmt::print(stderr,
                 "weft kernel-check: {} (exit code {}) left no report: its kernels are not compiled for tracing, or it "
                 "was killed. Build it by\n"
                 "  meson setup build-trace -Dtrace=true && ninja -C build-trace\n"
                 "and run the one in build-trace/\n",
                 command.front(), code);
      throw CLI::RuntimeError(kUnusable);
    }
    if (report["kernels"].as_list().empty()) {
      fmt::print(stderr, "weft kernel-check: {} (exit code {}) ran no kernel; does it use the device simt?\n",
                 command.front(), code);
      throw CLI::RuntimeError(kUnusable);
    }
    fmt::print("{}", kernel_table_text(report, isatty(STDOUT_FILENO) != 0));
    if (code != 0) fmt::print("\n{} ended with code {}\n", command.front(), code);
    if (!arguments->json.empty()) write_text(arguments->json, to_json(report, 1) + "\n");
    if (!arguments->html.empty()) {
      write_text(arguments->html, kernel_page(report, fs::path(command.front()).filename().string()));
      fmt::print("\nsources with figures: {}\n", arguments->html);
    }
    const bool found = report["errors"].as_int() > 0 || (arguments->strict && report["remarks"].as_int() > 0);
    if (found || code != 0) throw CLI::RuntimeError(found ? 1 : code);
  });
}

}  // namespace weft::cli
