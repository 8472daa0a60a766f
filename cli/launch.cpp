// weft launch: starts a program as many ranks. What it promises stands in distributed/launch/launcher.h.
#include "distributed/launch/launcher.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>

#include "cli/subcommands.h"

namespace weft::cli {

void add_launch(CLI::App& app) {
  struct Arguments {
    LaunchOptions options;
    double grace_seconds = 30;
    double timeout_seconds = 0;
  };
  constexpr double year_seconds = 365.0 * 24 * 3600;
  auto arguments = std::make_shared<Arguments>();
  LaunchOptions& options = arguments->options;

  CLI::App* launch = app.add_subcommand("launch", "start a program as several ranks on this host");
  launch->footer("The program and its arguments follow the options: weft launch -n 2 -- ./train --steps 100");
  launch->add_option("-n,--nproc-per-node", options.ranks, "how many ranks to start")
      ->check(CLI::Range(1, 4096).description(""))
      ->capture_default_str();
  launch->add_option("--master-addr", options.master_addr, "address of this host on which the ranks meet")
      ->capture_default_str();
  launch->add_option("--master-port", options.master_port, "port on which the ranks meet; 0 finds a free one")
      ->check(CLI::Range(0, 65535).description(""))
      ->capture_default_str();
  launch->add_option("--grace", arguments->grace_seconds, "seconds between asking ranks to end and killing them")
      ->check(CLI::Range(0.0, year_seconds).description(""))
      ->capture_default_str();
  launch->add_option("--timeout", arguments->timeout_seconds, "seconds the whole job may take; 0: any")
      ->check(CLI::Range(0.0, year_seconds).description(""))
      ->capture_default_str();
  launch->add_option("--log-dir", options.log_dir, "write the output of rank k to DIR/rank_k.log instead of showing it")
      ->type_name("DIR");
  // From the first word that is no option of ours, everything belongs to the program (main.cpp takes the "--" out).
  launch->prefix_command();

  launch->callback([launch, arguments] {
    arguments->options.command = launch->remaining();
    if (!arguments->options.command.empty() && arguments->options.command.front().substr(0, 1) == "-")
      throw CLI::ValidationError(arguments->options.command.front(), "there is no such option");
    auto milliseconds = [](double seconds) {
      return std::chrono::round<std::chrono::milliseconds>(std::chrono::duration<double>(seconds));
    };
    arguments->options.grace = milliseconds(arguments->grace_seconds);
    arguments->options.timeout = milliseconds(arguments->timeout_seconds);
    int code = weft::launch(arguments->options);
    if (code != 0) throw CLI::RuntimeError(code);
  });
}

}  // namespace weft::cli
