// How `weft kernel-check` shows a report (kernels/simt/trace/report.h, as JSON): a table for terminals, a page for
// browsers.
#pragma once
#include <string>

#include "tensor/tree.h"

namespace weft::cli {

// Kernels with their figures, findings below, then the lines that move most. `colour`: with a terminal's escapes.
std::string kernel_table_text(const Tree& report, bool colour);

// One self-contained page: kernels, findings, and the sources with the figures of each line beside it.
std::string kernel_page(const Tree& report, const std::string& title);

// "1.3 MB"; "12,345"; a path as seen from the working folder.
std::string bytes_text(int64_t bytes);
std::string count_text(int64_t count);
std::string path_text(const std::string& path);
// Of floating-point operations, "12.6 M"; operations a byte, "0.17". Null is "?" and "-".
std::string operations_text(const Tree& count);
std::string intensity_text(const Tree& intensity);

}  // namespace weft::cli
