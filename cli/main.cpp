// The `weft` program: reads the command line and hands over to a subcommand.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "cli/subcommands.h"
#include "cli/version.h"
#include "kernels/base/error.h"

namespace {

// A program started with descriptors 0 to 2 closed would give their numbers to the next files it opens, and then print there.
void open_standard_streams() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0) return;
  }
}

// Takes out the "--" that separates a subcommand's options from the command line of another program, as in
// `weft launch -n 2 -- ./train --steps 100`: CLI11 would end the subcommand there. Any later "--" is that program's own.
void remove_separator(const CLI::App& app, std::vector<std::string>& words) {
  auto chosen = app.get_subcommands(
      [&](const CLI::App* subcommand) { return !words.empty() && subcommand->check_name(words.front()); });
  if (chosen.empty() || !chosen.front()->get_prefix_command()) return;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--") {
      words.erase(words.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
    const CLI::Option* option = chosen.front()->get_option_no_throw(word);
    if (option != nullptr) {
      if (option->get_items_expected_max() > 0) ++i;  // its value is the next word
      continue;
    }
    bool long_with_value = word.rfind("--", 0) == 0 && word.find('=') != std::string::npos;  // --grace=5
    bool short_with_value = word.size() > 2 && word[0] == '-' && word[1] != '-';             // -n4
    if (!long_with_value && !short_with_value) return;                                       // the program begins here
  }
}

int run(std::vector<std::string> words) {
  CLI::App app{"Weft, a deep-learning runtime", "weft"};
  app.set_version_flag("--version", "weft " WEFT_VERSION, "print the version and exit");
  app.require_subcommand(1);
  weft::cli::add_inspect(app);
  weft::cli::add_kernel_check(app);
  weft::cli::add_launch(app);
  remove_separator(app, words);
  const std::string first = words.empty() ? "" : words.front();
  try {
    std::reverse(words.begin(), words.end());  // the order CLI11 wants
    app.parse(std::move(words));
  } catch (const CLI::RuntimeError& error) {  // a subcommand's exit code; it has said why
    return error.get_exit_code();
  } catch (const CLI::Success& asked) {  // --help, --version
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    if (app.get_subcommands().empty() && !first.empty()) {
      fmt::print(stderr, "weft: \"{}\" is neither a subcommand nor an option; see weft --help\n", first);
      return 2;
    }
    std::string which = "weft";
    for (const CLI::App* subcommand : app.get_subcommands()) which += " " + subcommand->get_name();
    fmt::print(stderr, "{}: {}; see {} --help\n", which, error.what(), which);
    return 2;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  try {
    return run(std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
  } catch (const weft::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
  } catch (const std::exception& error) {
    fmt::print(stderr, "weft: {}\n", error.what());
  }
  return 1;
}
