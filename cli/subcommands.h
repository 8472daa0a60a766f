// The subcommands of the `weft` program, one file each.
//
// To add one: write cli/<name>.cpp with add_<name>, declare it here, call it in main.cpp, list the file in cli/meson.build.
// Its callback does the work. To end with another code than 0 it throws CLI::RuntimeError(code) after it has said why;
// a weft::Error it lets through is printed by main as one line, exit code 1.
#pragma once
#include <CLI/App.hpp>

namespace weft::cli {

void add_inspect(CLI::App& app);
void add_kernel_check(CLI::App& app);
void add_launch(CLI::App& app);

}  // namespace weft::cli
