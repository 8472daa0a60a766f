// The table of weft kernel-check.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/kernel_check_report.h"

namespace weft::cli {

namespace {

constexpr size_t kLinesShown = 12;  // of a kernel; the page has all

size_t width(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

// Rows of cells, the first column on the left, the others on the right.
class Table {
 public:
  explicit Table(std::vector<std::string> head) { rows_.push_back(std::move(head)); }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text(size_t left_columns, const std::string& indent) const {
    std::vector<size_t> columns(rows_[0].size());
    for (const auto& row : rows_)
      for (size_t c = 0; c < row.size(); ++c) columns[c] = std::max(columns[c], width(row[c]));
    std::string out;
    for (const auto& row : rows_) {
      std::string line = indent;
      for (size_t c = 0; c < row.size(); ++c) {
        const std::string room(columns[c] - width(row[c]), ' ');
        line += c < left_columns ? row[c] + room : room + row[c];
        if (c + 1 < row.size()) line += "  ";
      }
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + "\n";
    }
    return out;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

class Palette {
 public:
  explicit Palette(bool on) : on_(on) {}
  std::string bold(const std::string& text) const { return paint("1", text); }
  std::string red(const std::string& text) const { return paint("31;1", text); }
  std::string yellow(const std::string& text) const { return paint("33", text); }
  std::string green(const std::string& text) const { return paint("32", text); }
  std::string dim(const std::string& text) const { return paint("2", text); }

 private:
  std::string paint(const char* code, const std::string& text) const {
    return on_ ? fmt::format("\033[{}m{}\033[0m", code, text) : text;
  }
  bool on_;
};

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

// What a line costs: sectors of global memory, rounds of shared memory.
int64_t cost(const Tree& line) { return line["sectors"].as_int() + line["passes"].as_int(); }

std::string lines_table(const Tree& kernel) {
  std::vector<const Tree*> lines;
  for (const Tree& line : kernel["lines"].as_list()) lines.push_back(&line);
  std::stable_sort(lines.begin(), lines.end(), [](const Tree* a, const Tree* b) { return cost(*a) > cost(*b); });
  Table table({"line", "access", "requests", "sectors", "coalesced", "conflicts", "lanes"});
  for (size_t i = 0; i < std::min(lines.size(), kLinesShown); ++i) {
    const Tree& line = *lines[i];
    const bool shared = line["memory"].as_string() == "shared";
    const auto requests = static_cast<double>(std::max<int64_t>(1, line["requests"].as_int()));
    const std::string file = std::filesystem::path(line["at"]["file"].as_string()).filename().string();
    table.add(
        {fmt::format("{}:{}", file, line["at"]["line"].as_int()),
         fmt::format("{} {} {} B", line["memory"].as_string(), line["access"].as_string(), line["bytes"].as_int()),
         count_text(line["requests"].as_int()),
         shared ? "" : fmt::format("{:.1f}", static_cast<double>(line["sectors"].as_int()) / requests),
         shared ? "" : percent(line["coalescing"].as_double()),
         shared ? fmt::format("×{:.1f}", line["conflict"].as_double()) : "",
         fmt::format("{:.1f}", 32 * line["active"].as_double())});
  }
  std::string text = table.text(2, "    ");
  if (lines.size() > kLinesShown)
    text += fmt::format("    … {} more in --html and --json\n", lines.size() - kLinesShown);
  return text;
}

}  // namespace

std::string count_text(int64_t count) {
  std::string digits = std::to_string(count);
  for (auto i = static_cast<std::ptrdiff_t>(digits.size()) - 3; i > 0; i -= 3)
    digits.insert(static_cast<size_t>(i), ",");
  return digits;
}

std::string bytes_text(int64_t bytes) {
  constexpr std::array<const char*, 5> units = {"B", "kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1000 && unit + 1 < units.size(); ++unit) value /= 1000;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

std::string operations_text(const Tree& count) {
  if (count.is_null()) return "?";
  constexpr std::array<const char*, 5> units = {"", " k", " M", " G", " T"};
  auto value = static_cast<double>(count.as_int());
  size_t unit = 0;
  for (; value >= 1000 && unit + 1 < units.size(); ++unit) value /= 1000;
  return unit == 0 ? fmt::format("{}", count.as_int()) : fmt::format("{:.1f}{}", value, units[unit]);
}

std::string intensity_text(const Tree& intensity) {
  return intensity.is_null() ? "-" : fmt::format("{:.2f}", intensity.as_double());
}

std::string path_text(const std::string& path) {
  std::error_code error;
  const auto near = std::filesystem::proximate(path, error);
  return error || near.empty() || near.string().starts_with("..") ? path : near.string();
}

std::string kernel_table_text(const Tree& report, bool colour) {
  const Palette palette(colour);
  const Tree::List& kernels = report["kernels"].as_list();
  Table table({"kernel", "launches", "threads", "read", "written", "FLOP", "FLOP/B", "coalesced", "conflicts", "lanes",
               "errors", "remarks"});
  std::vector<const Tree*> order;
  for (const Tree& kernel : kernels) order.push_back(&kernel);
  const auto moved = [](const Tree& kernel) {
    return kernel["read_bytes"].as_int() + kernel["written_bytes"].as_int();
  };
  // What is wrong first, then what moves most.
  std::stable_sort(order.begin(), order.end(), [&](const Tree* a, const Tree* b) {
    const int64_t a_errors = (*a)["errors"].as_int(), b_errors = (*b)["errors"].as_int();
    return a_errors != b_errors ? a_errors > b_errors : moved(*a) > moved(*b);
  });
  for (const Tree* kernel : order) {
    const int64_t errors = (*kernel)["errors"].as_int();
    const auto remarks = static_cast<int64_t>((*kernel)["findings"].size()) - errors;
    table.add({(*kernel)["name"].as_string(), count_text((*kernel)["launches"].as_int()),
               count_text((*kernel)["threads"].as_int()), bytes_text((*kernel)["read_bytes"].as_int()),
               bytes_text((*kernel)["written_bytes"].as_int()), operations_text((*kernel)["operations"]),
               intensity_text((*kernel)["intensity"]), percent((*kernel)["coalescing"].as_double()),
               fmt::format("×{:.1f}", (*kernel)["conflict"].as_double()),
               fmt::format("{:.1f}", 32 * (*kernel)["active"].as_double()), errors ? count_text(errors) : "-",
               remarks ? count_text(remarks) : "-"});
  }
  std::string out = table.text(1, "");
  for (const Tree* kernel : order) {
    const Tree& at = (*kernel)["defined_at"];
    const std::string where =
        at["line"].as_int() ? fmt::format("{}:{}", path_text(at["file"].as_string()), at["line"].as_int()) : "";
    out += fmt::format("\n{}  {}\n", palette.bold((*kernel)["name"].as_string()), palette.dim(where));
    for (const Tree& finding : (*kernel)["findings"].as_list()) {
      const std::string text = finding["description"].as_string();
      const size_t label = finding["kind"].as_string().size();
      const std::string kind = text.substr(0, label);
      out += fmt::format("  {}{}\n", finding["error"].as_bool() ? palette.red(kind) : palette.yellow(kind),
                         text.substr(label));
    }
    out += lines_table(*kernel);
  }
  const int64_t errors = report["errors"].as_int();
  const int64_t remarks = report["remarks"].as_int();
  const std::string verdict =
      fmt::format("{} kernel{}: {}, {} remark{} on speed", kernels.size(), kernels.size() == 1 ? "" : "s",
                  errors == 0 ? "no errors" : fmt::format("{} error{}", errors, errors == 1 ? "" : "s"), remarks,
                  remarks == 1 ? "" : "s");
  return out + "\n" + (errors ? palette.red(verdict) : palette.green(verdict)) + "\n";
}

}  // namespace weft::cli
