// From what was recorded to a Report: addresses become lines, instructions of a line are added up, and figures that mean
// a slow kernel become remarks.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <tuple>

#include "kernels/simt/trace/kernel_source.h"
#include "kernels/simt/trace/recorder.h"
#include "kernels/simt/trace/symbolizer.h"

namespace weft::trace {
namespace {

// What makes a remark. Twice is what a misaligned row costs at most, which is not the kernel's fault.
constexpr double kMaxConflict = 2.05;
constexpr double kMinCoalescing = 0.49;
constexpr double kMinActive = 0.75;

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// "{argument 2}" -> "'y'"
std::string with_names(std::string text, const std::vector<std::string>& parameters) {
  for (size_t i = 0; text.find("{argument ") != std::string::npos && i < 64; ++i)
    replace_all(text, fmt::format("{{argument {}}}", i + 1),
                i < parameters.size() ? fmt::format("'{}'", parameters[i]) : fmt::format("argument {}", i + 1));
  return text;
}

void add(LineFigures& sum, const LineFigures& part) {
  if (sum.requests == 0) sum.stride = part.stride;
  if (sum.stride != part.stride) sum.stride = 0;
  sum.requests += part.requests;
  sum.lanes += part.lanes;
  sum.possible_lanes += part.possible_lanes;
  sum.scattered += part.scattered;
  sum.useful_bytes += part.useful_bytes;
  sum.sectors += part.sectors;
  sum.needed_sectors += part.needed_sectors;
  sum.passes += part.passes;
  sum.needed_passes += part.needed_passes;
}

std::string stride_text(const LineFigures& line) {
  return line.stride ? fmt::format("; neighbouring lanes are {} bytes apart", line.stride) : "";
}

void add_remarks(const LineFigures& line, std::vector<Finding>& findings) {
  const auto remark = [&](Kind kind, std::string text) {
    findings.push_back({kind, line.at, {}, std::move(text), line.requests});
  };
  if (line.shared && line.conflict() > kMaxConflict)
    remark(Kind::bank_conflict, fmt::format("{} of shared memory in {:.1f} passes instead of one{}", name(line.access),
                                            line.conflict(), stride_text(line)));
  if (!line.shared && line.coalescing() < kMinCoalescing)
    remark(Kind::uncoalesced,
           fmt::format("{} of {:.1f} sectors a request where {:.1f} would do ({:.0f} %){}", name(line.access),
                       static_cast<double>(line.sectors) / static_cast<double>(line.requests),
                       static_cast<double>(line.needed_sectors) / static_cast<double>(line.requests),
                       100 * line.coalescing(), stride_text(line)));
  if (line.active() < kMinActive && 2 * line.scattered >= line.requests)
    remark(Kind::divergent_lanes,
           fmt::format("{} by {:.1f} of 32 lanes, which are not neighbours: the others are on another path",
                       name(line.access), 32 * line.active()));
}

// The emulator knows lines as the compiler was called ("../kernels/x.cu"); debug information has whole paths.
Line complete(Line line, const std::vector<std::string>& files) {
  std::string tail = line.file;
  while (tail.starts_with("../")) tail.erase(0, 3);
  for (const std::string& file : files)
    if (file.size() > tail.size() && file.ends_with(tail) && file[file.size() - tail.size() - 1] == '/')
      line.file = file;
  return line;
}

bool before(const Line& a, const Line& b) { return std::tie(a.file, a.line) < std::tie(b.file, b.line); }

class Summary {
 public:
  explicit Summary(const std::vector<KernelRecord>& kernels) {
    std::vector<Address> addresses;
    for (const KernelRecord& kernel : kernels) {
      addresses.push_back({kernel.address, false});
      for (const Site& site : kernel.sites) addresses.push_back({site.pc, true});
      arithmetic_.push_back(arithmetic_of(kernel));
      for (const Computation& each : arithmetic_.back().computations) addresses.push_back(each.at);
    }
    const std::vector<std::vector<Frame>> frames = resolve(addresses);
    for (const auto& stack : frames)
      for (const Frame& frame : stack)
        if (std::find(files_.begin(), files_.end(), frame.at.file) == files_.end()) files_.push_back(frame.at.file);
    size_t next = 0;
    for (const KernelRecord& kernel : kernels) {
      const size_t own = next;
      const Arithmetic& arithmetic = arithmetic_[report_.kernels.size()];
      next += 1 + kernel.sites.size() + arithmetic.computations.size();
      report_.kernels.push_back(summarise(kernel, frames.data() + own));
      add_arithmetic(arithmetic, frames.data() + own + 1 + kernel.sites.size(), report_.kernels.back());
    }
  }
  Report take() { return std::move(report_); }

 private:
  struct Computation {
    Address at;
    uint64_t operations;
  };
  struct Arithmetic {
    bool known = false;
    std::vector<Computation> computations;
  };

  static Arithmetic arithmetic_of(const KernelRecord& kernel) {
    Arithmetic arithmetic;
    if (const auto counted = operations(kernel.ran)) {
      arithmetic.known = true;
      for (const Operations& each : *counted)
        arithmetic.computations.push_back({{each.instruction, false}, each.count});
    }
    for (const auto& [pc, count] : kernel.products) arithmetic.computations.push_back({{pc, true}, count});
    return arithmetic;
  }

  // `frames`: of each computation.
  static void add_arithmetic(const Arithmetic& arithmetic, const std::vector<Frame>* frames, KernelReport& report) {
    uint64_t all = 0;
    std::map<std::pair<std::string, int>, uint64_t> lines;
    for (size_t i = 0; i < arithmetic.computations.size(); ++i) {
      // What converts a small format is a conversion, be it done by a multiplication here.
      if (!frames[i].empty() && frames[i].front().at.file.ends_with("/kernels/base/half.h")) continue;
      const uint64_t count = arithmetic.computations[i].operations;
      all += count;
      if (const Frame* frame = kernel_frame(frames[i])) lines[{frame->at.file, frame->at.line}] += count;
    }
    if (arithmetic.known) report.operations = all;
    for (const auto& [at, count] : lines) report.arithmetic.push_back({{at.first, at.second}, count});
  }

  // `frames`: of the kernel, then of each of its sites.
  KernelReport summarise(const KernelRecord& kernel, const std::vector<Frame>* frames) const {
    KernelReport report;
    report.name =
        frames[0].empty() ? fmt::format("the kernel at {}", kernel.address) : kernel_name(frames[0].back().function);
    if (!frames[0].empty()) report.defined_at = frames[0].back().at;
    report.launched_at =
        complete({kernel.launched_at.file ? kernel.launched_at.file : "", kernel.launched_at.line}, files_);
    report.launches = kernel.launches;
    report.blocks = kernel.blocks;
    report.threads = kernel.threads;

    const auto line_of = [&](uint32_t site) -> Line {
      if (site == 0) return {};
      const Frame* frame = kernel_frame(frames[site]);
      return frame ? frame->at : Line{fmt::format("{}", kernel.sites[site - 1].pc), 0};
    };
    std::map<std::tuple<std::string, int, bool, int, int>, LineFigures> lines;
    for (uint32_t i = 0; i < kernel.sites.size(); ++i) {
      const LineFigures& figures = kernel.sites[i].figures;
      if (figures.requests == 0) continue;
      const Line at = line_of(i + 1);
      LineFigures& line = lines[{at.file, at.line, figures.shared, static_cast<int>(figures.access), figures.bytes}];
      add(line, figures);
      line.at = at;
      line.access = figures.access;
      line.shared = figures.shared;
      line.bytes = figures.bytes;
      if (figures.shared) continue;
      if (figures.access != Access::store) report.read_bytes += 32 * figures.sectors;
      if (figures.access != Access::load) report.written_bytes += 32 * figures.sectors;
    }
    const std::vector<std::string> parameters = parameter_names(report.defined_at, report.name);
    for (const auto& [key, raw] : kernel.findings) {
      const auto& [kind, site, other, place] = key;
      Finding finding{kind, line_of(site), line_of(other), with_names(raw.text, parameters), raw.count};
      if (site == 0) {
        finding.at = complete(raw.at, files_);
        finding.other = complete(raw.other, files_);
      }
      add_once(report.findings, std::move(finding));
    }
    for (auto& [key, line] : lines) {
      add_remarks(line, report.findings);
      report.lines.push_back(std::move(line));
    }
    std::stable_sort(report.findings.begin(), report.findings.end(), [](const Finding& a, const Finding& b) {
      if (is_error(a.kind) != is_error(b.kind)) return is_error(a.kind);
      return before(a.at, b.at);
    });
    return report;
  }

  // Instructions of one line that tell the same are one finding.
  static void add_once(std::vector<Finding>& findings, Finding finding) {
    for (Finding& known : findings) {
      if (known.kind != finding.kind) continue;
      const bool same = known.at == finding.at && known.other == finding.other;
      const bool crossed = known.at == finding.other && known.other == finding.at;
      if (!same && !crossed) continue;
      known.count += finding.count;
      return;
    }
    findings.push_back(std::move(finding));
  }

  std::vector<Arithmetic> arithmetic_;  // by kernel
  std::vector<std::string> files_;
  Report report_;
};

}  // namespace

Report Recorder::report() {
  const std::lock_guard lock(launching_);
  return Summary(kernels_).take();
}

void start() { Recorder::instance().start(); }

Report finish() {
  Recorder::instance().stop();
  return Recorder::instance().report();
}

namespace {

// A program that `weft kernel-check` runs is examined from its first launch to its end. WEFT_KERNEL_CHECK names the
// folder for the reports, one a process.
struct FromEnvironment {
  FromEnvironment() {
    const char* folder = std::getenv("WEFT_KERNEL_CHECK");
    if (!folder || !*folder) return;
    path = fmt::format("{}/{}.json", folder, getpid());
    Recorder::instance().write_errors_to(path);
    start();
  }
  ~FromEnvironment() {
    if (path.empty()) return;
    Recorder::instance().stop();
    Recorder::instance().write(path);
  }
  std::string path;
};
FromEnvironment from_environment;

}  // namespace

}  // namespace weft::trace
