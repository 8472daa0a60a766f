// weft inspect: what a safetensors file holds. Only its header is read.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/subcommands.h"
#include "tensor/json.h"
#include "tensor/safetensors.h"

namespace weft::cli {

namespace {

// 1234567 -> "1,234,567"
std::string grouped(int64_t value) {
  std::string digits = std::to_string(value);
  for (auto i = static_cast<std::ptrdiff_t>(digits.size()) - 3; i > 0; i -= 3)
    digits.insert(static_cast<size_t>(i), ",");
  return digits;
}

// Characters of UTF-8 text, for alignment.
size_t width(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string padded(const std::string& text, size_t columns, bool right) {
  const std::string room(columns - std::min(columns, width(text)), ' ');
  return right ? room + text : text + room;
}

struct Totals {
  int64_t elements = 0;
  int64_t bytes = 0;
};

Totals totals_of(const SafetensorsHeader& header) {
  Totals totals;
  for (const SafetensorsEntry& entry : header.entries) {
    totals.elements += entry.shape.numel();
    totals.bytes += entry.nbytes();
  }
  return totals;
}

std::string plural(size_t count, const char* noun) {
  return fmt::format("{} {}{}", grouped(static_cast<int64_t>(count)), noun, count == 1 ? "" : "s");
}

std::string as_table(const SafetensorsHeader& header) {
  constexpr size_t name_limit = 200;
  using Row = std::array<std::string, 4>;
  std::vector<Row> rows = {{"name", "dtype", "shape", "bytes"}};
  for (const SafetensorsEntry& entry : header.entries)
    rows.push_back({printable(entry.name, name_limit), std::string(safetensors_name(entry.dtype)),
                    to_string(entry.shape), grouped(entry.nbytes())});
  std::array<size_t, 4> columns{};
  for (const Row& row : rows)
    for (size_t c = 0; c < row.size(); ++c) columns[c] = std::max(columns[c], width(row[c]));

  std::string out;
  for (const Row& row : rows)
    out += fmt::format("{}  {}  {}  {}\n", padded(row[0], columns[0], false), padded(row[1], columns[1], false),
                       padded(row[2], columns[2], false), padded(row[3], columns[3], true));
  for (const auto& [name, stored] : header.aliases)
    out += fmt::format("{} = {}\n", printable(name, name_limit), printable(stored, name_limit));
  const Totals totals = totals_of(header);
  out += fmt::format("\n{}, {} elements, {} bytes after a header of {}\n", plural(header.entries.size(), "tensor"),
                     grouped(totals.elements), grouped(totals.bytes), grouped(header.data_start));
  if (!header.metadata.empty()) out += "\nmetadata\n";
  size_t key_columns = 0;
  for (const auto& entry : header.metadata) key_columns = std::max(key_columns, width(printable(entry.first)));
  for (const auto& [key, value] : header.metadata)
    out += fmt::format("  {}  {}\n", padded(printable(key), key_columns, false), printable(value, name_limit));
  return out;
}

std::string as_json(const SafetensorsFile& file) {
  const SafetensorsHeader& header = file.header();
  const auto to_map = [](const Metadata& entries) {
    Tree map = Tree::map();
    for (const auto& [key, value] : entries) map[key] = value;
    return map;
  };
  Tree tensors = Tree::list();
  for (const SafetensorsEntry& entry : header.entries) {
    Tree shape = Tree::list();
    for (int64_t size : entry.shape) shape.push_back(size);
    tensors.push_back(Tree::map({{"name", entry.name},
                                 {"dtype", safetensors_name(entry.dtype)},
                                 {"shape", shape},
                                 {"bytes", entry.nbytes()},
                                 {"data_offsets", Tree::list({entry.begin, entry.end})}}));
  }
  const Totals totals = totals_of(header);
  return to_json(Tree::map({{"tensors", tensors},
                            {"aliases", to_map(header.aliases)},
                            {"metadata", to_map(header.metadata)},
                            {"total", Tree::map({{"tensors", header.entries.size()},
                                                 {"elements", totals.elements},
                                                 {"bytes", totals.bytes},
                                                 {"header_bytes", header.data_start},
                                                 {"file_bytes", file.file_size()}})}}),
                 2) +
         "\n";
}

}  // namespace

void add_inspect(CLI::App& app) {
  struct Arguments {
    std::string path;
    bool json = false;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* inspect =
      app.add_subcommand("inspect", "print what a safetensors file holds: names, dtypes, shapes, bytes");
  inspect->add_option("FILE", arguments->path, "a .safetensors file")->required();
  inspect->add_flag("--json", arguments->json, "print JSON instead of a table");
  inspect->callback([arguments] {
    const SafetensorsFile file(arguments->path);
    fmt::print("{}", arguments->json ? as_json(file) : as_table(file.header()));
  });
}

}  // namespace weft::cli
