#include "kernels/simt/trace/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace weft::trace {

std::string_view name(Kind kind) {
  constexpr std::string_view names[kKinds] = {
      "shared race",     "global race",       "uninitialised shared", "out of bounds", "misaligned",
      "unfinished copy", "divergent barrier", "invalid mask",         "deadlock",      "error",
      "bank conflict",   "uncoalesced",       "divergent lanes"};
  return names[static_cast<int>(kind)];
}

bool is_error(Kind kind) { return kind < Kind::bank_conflict; }

std::string_view name(Access access) {
  constexpr std::string_view names[] = {"load", "store", "atomic"};
  return names[static_cast<int>(access)];
}

std::string to_string(const Line& line) {
  if (line.line == 0) return line.file.empty() ? "an unknown line" : line.file;
  const size_t slash = line.file.rfind('/');
  return fmt::format("{}:{}", slash == std::string::npos ? line.file : line.file.substr(slash + 1), line.line);
}

std::string describe(const Finding& finding) {
  std::string where = to_string(finding.at);
  if (finding.other.line != 0 && finding.other != finding.at) where += " and " + to_string(finding.other);
  return fmt::format("{} at {}: {}{}", name(finding.kind), where, finding.text,
                     finding.count > 1 ? fmt::format(" ({} times)", finding.count) : "");
}

double KernelReport::coalescing() const {
  uint64_t sectors = 0;
  uint64_t needed = 0;
  for (const LineFigures& line : lines) {
    sectors += line.sectors;
    needed += line.needed_sectors;
  }
  return sectors ? static_cast<double>(needed) / static_cast<double>(sectors) : 1;
}

double KernelReport::conflict() const {
  double worst = 1;
  for (const LineFigures& line : lines) worst = std::max(worst, line.conflict());
  return worst;
}

double KernelReport::active() const {
  uint64_t lanes = 0;
  uint64_t possible = 0;
  for (const LineFigures& line : lines) {
    lanes += line.lanes;
    possible += line.possible_lanes;
  }
  return possible ? static_cast<double>(lanes) / static_cast<double>(possible) : 1;
}

std::optional<double> KernelReport::intensity() const {
  const uint64_t bytes = read_bytes + written_bytes;
  if (!operations || bytes == 0) return std::nullopt;
  return static_cast<double>(*operations) / static_cast<double>(bytes);
}

size_t KernelReport::errors() const {
  return static_cast<size_t>(
      std::count_if(findings.begin(), findings.end(), [](const Finding& finding) { return is_error(finding.kind); }));
}

size_t Report::errors() const {
  size_t count = 0;
  for (const KernelReport& kernel : kernels) count += kernel.errors();
  return count;
}

size_t Report::remarks() const {
  size_t count = 0;
  for (const KernelReport& kernel : kernels) count += kernel.findings.size() - kernel.errors();
  return count;
}

// --- JSON -------------------------------------------------------------------------------------------------------

namespace {

// The library that reads and writes JSON belongs to the layers above; writing this much takes no library.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<int>(c));
    else
      out += c;
  }
  return out + '"';
}

std::string json(const Line& line) {
  return fmt::format(R"({{"file": {}, "line": {}}})", quoted(line.file), line.line);
}

std::string json(const LineFigures& line) {
  return fmt::format(
      R"({{"at": {}, "access": "{}", "memory": "{}", "bytes": {}, "requests": {}, "lanes": {}, "possible_lanes": {}, )"
      R"("scattered": {}, "useful_bytes": {}, "sectors": {}, "needed_sectors": {}, "passes": {}, "needed_passes": {}, )"
      R"("stride": {}, "coalescing": {:.4f}, "conflict": {:.4f}, "active": {:.4f}}})",
      json(line.at), name(line.access), line.shared ? "shared" : "global", line.bytes, line.requests, line.lanes,
      line.possible_lanes, line.scattered, line.useful_bytes, line.sectors, line.needed_sectors, line.passes,
      line.needed_passes, line.stride, line.coalescing(), line.conflict(), line.active());
}

std::string json(const LineArithmetic& line) {
  return fmt::format(R"({{"at": {}, "operations": {}}})", json(line.at), line.operations);
}

std::string json(const Finding& finding) {
  return fmt::format(
      R"({{"kind": "{}", "error": {}, "at": {}, "other": {}, "count": {}, "text": {}, "description": {}}})",
      name(finding.kind), is_error(finding.kind), json(finding.at), json(finding.other), finding.count,
      quoted(finding.text), quoted(describe(finding)));
}

std::string json(const KernelReport& kernel);

template <class Item>
std::string json(const std::vector<Item>& items, std::string_view indent) {
  std::string out = "[";
  for (size_t i = 0; i < items.size(); ++i)
    fmt::format_to(std::back_inserter(out), "{}\n{}{}", i ? "," : "", indent, json(items[i]));
  return out + "]";
}

std::string json(const KernelReport& kernel) {
  return fmt::format(
      R"({{"name": {}, "defined_at": {}, "launched_at": {}, "launches": {}, "blocks": {}, "threads": {}, )"
      R"("read_bytes": {}, "written_bytes": {}, "operations": {}, "intensity": {}, "coalescing": {:.4f}, )"
      R"("conflict": {:.4f}, "active": {:.4f}, "errors": {},)"
      "\n   \"findings\": {},\n   \"lines\": {},\n   \"arithmetic\": {}}}",
      quoted(kernel.name), json(kernel.defined_at), json(kernel.launched_at), kernel.launches, kernel.blocks,
      kernel.threads, kernel.read_bytes, kernel.written_bytes,
      kernel.operations ? fmt::format("{}", *kernel.operations) : "null",
      kernel.intensity() ? fmt::format("{:.6g}", *kernel.intensity()) : "null", kernel.coalescing(), kernel.conflict(),
      kernel.active(), kernel.errors(), json(kernel.findings, "    "), json(kernel.lines, "    "),
      json(kernel.arithmetic, "    "));
}

}  // namespace

std::string to_json(const Report& report) {
  return fmt::format("{{\"errors\": {}, \"remarks\": {}, \"kernels\": {}}}\n", report.errors(), report.remarks(),
                     json(report.kernels, "  "));
}

}  // namespace weft::trace
