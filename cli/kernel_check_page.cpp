// The page of weft kernel-check: kernels, findings, and the sources with the figures of each line beside it. One file
// that loads nothing, so it can be mailed or kept with a build.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cli/kernel_check_report.h"

namespace weft::cli {

namespace {

constexpr const char* kStyle = R"(
:root { --page: #fbfaf8; --card: #fff; --ink: #22252a; --soft: #6b7280; --rule: #e5e2dc; --code: #fdfcfa;
  --good: #2f855a; --fair: #b7791f; --bad: #c53030; --good-bar: #9ad4b4; --fair-bar: #f0cf86; --bad-bar: #f0a6a0;
  --error: #fdecea; --remark: #fdf5e2; --key: #7b4fa3; --number: #1f6f8b; --string: #9c5b1b; --comment: #8a9099; }
@media (prefers-color-scheme: dark) { :root { --page: #16181c; --card: #1d2026; --ink: #e3e5e8; --soft: #9aa1ab;
  --rule: #31353d; --code: #1a1d22; --good: #68d391; --fair: #f6c566; --bad: #fc8181; --good-bar: #2f6b4c;
  --fair-bar: #7a5c1e; --bad-bar: #853733; --error: #3a2122; --remark: #37301c; --key: #c6a0ec; --number: #7cc7de;
  --string: #e0ac75; --comment: #7d8590; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width: 1480px; margin: 0 auto; padding: 36px 28px 80px; }
h1 { font-size: 26px; font-weight: 650; margin: 0 0 4px; letter-spacing: -0.01em; }
h2 { font-size: 18px; font-weight: 650; margin: 40px 0 12px; }
p.lead { margin: 0 0 22px; color: var(--soft); }
.verdict { font-weight: 650; } .verdict.bad { color: var(--bad); } .verdict.good { color: var(--good); }
.card { background: var(--card); border: 1px solid var(--rule); border-radius: 10px; overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
.kernels th { font-size: 12px; font-weight: 600; color: var(--soft); text-align: right; padding: 10px 12px; border-bottom: 1px solid var(--rule); white-space: nowrap; }
.kernels td { padding: 9px 12px; text-align: right; border-bottom: 1px solid var(--rule); font-variant-numeric: tabular-nums; white-space: nowrap; }
.kernels tr:last-child td { border-bottom: 0; }
.kernels th:first-child, .kernels td:first-child { text-align: left; }
.kernels a { color: inherit; text-decoration: none; font-weight: 600; border-bottom: 1px solid var(--rule); }
.good { color: var(--good); } .fair { color: var(--fair); } .bad { color: var(--bad); } .soft { color: var(--soft); }
.pill { display: inline-block; padding: 0 8px; border-radius: 9px; font-size: 12px; font-weight: 650; line-height: 19px; margin-right: 8px; white-space: nowrap; }
.pill.error { background: var(--error); color: var(--bad); } .pill.remark { background: var(--remark); color: var(--fair); }
.findings { list-style: none; margin: 0; padding: 6px 0; }
.findings li { padding: 7px 14px; border-bottom: 1px solid var(--rule); } .findings li:last-child { border: 0; }
.findings a { color: inherit; font-weight: 600; text-decoration: none; border-bottom: 1px solid var(--soft); }
details { margin: 14px 0; } summary { cursor: pointer; padding: 11px 14px; font-weight: 600; }
summary span { font-weight: 400; color: var(--soft); margin-left: 10px; font-size: 13px; }
.source { font: 12.5px/1.55 ui-monospace, "Cascadia Code", "DejaVu Sans Mono", Menlo, monospace; background: var(--code); border-top: 1px solid var(--rule); }
.source td { padding: 0 10px; vertical-align: top; white-space: pre; }
.source td.number { text-align: right; color: var(--soft); width: 1%; user-select: none; border-right: 1px solid var(--rule); opacity: 0.75; }
.source td.figures { width: 1%; border-left: 1px solid var(--rule); font-size: 11.5px; line-height: 19px; color: var(--soft); font-variant-numeric: tabular-nums; }
.source tr.head td { font: 600 11.5px/26px system-ui, sans-serif; color: var(--soft); border-bottom: 1px solid var(--rule); }
.source tr.hit td { background: color-mix(in srgb, var(--rule) 34%, transparent); }
.source tr.error td { background: var(--error); } .source tr.remark td { background: var(--remark); }
.source tr.note td { white-space: normal; padding: 3px 10px 6px; font-family: system-ui, "DejaVu Sans", sans-serif; font-size: 12.5px; }
.source tr:target td { outline: 1px solid var(--fair); outline-offset: -1px; }
.figure { display: grid; grid-template-columns: 11.5em 6em 5.5em 8.5em 5em; gap: 0 8px; }
.figure > * { text-align: right; } .figure > :first-child { text-align: left; color: var(--ink); }
.bar { position: relative; display: block; }
.bar i { position: absolute; right: 0; top: 2px; bottom: 2px; border-radius: 3px; z-index: 0; }
.bar b { position: relative; font-weight: 600; padding-right: 5px; }
i.good { background: var(--good-bar); } i.fair { background: var(--fair-bar); } i.bad { background: var(--bad-bar); }
.k { color: var(--key); } .n { color: var(--number); } .s { color: var(--string); } .c { color: var(--comment); font-style: italic; }
footer { margin-top: 36px; color: var(--soft); font-size: 13px; max-width: 78ch; }
)";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

std::string span(const char* style, std::string_view text) {
  return fmt::format("<span class=\"{}\">{}</span>", style, escaped(text));
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// A line of C++ with comments, strings, numbers and words of the language marked.
std::string coloured(const std::string& line) {
  static const std::set<std::string, std::less<>> words = {"alignas",
                                                           "auto",
                                                           "bool",
                                                           "break",
                                                           "case",
                                                           "char",
                                                           "class",
                                                           "const",
                                                           "constexpr",
                                                           "continue",
                                                           "default",
                                                           "do",
                                                           "double",
                                                           "else",
                                                           "extern",
                                                           "false",
                                                           "float",
                                                           "for",
                                                           "if",
                                                           "inline",
                                                           "int",
                                                           "int64_t",
                                                           "long",
                                                           "namespace",
                                                           "operator",
                                                           "return",
                                                           "short",
                                                           "signed",
                                                           "sizeof",
                                                           "static",
                                                           "static_cast",
                                                           "struct",
                                                           "switch",
                                                           "template",
                                                           "this",
                                                           "true",
                                                           "typename",
                                                           "uint32_t",
                                                           "uint8_t",
                                                           "unsigned",
                                                           "using",
                                                           "void",
                                                           "while",
                                                           "__device__",
                                                           "__global__",
                                                           "__host__",
                                                           "__shared__",
                                                           "__restrict__",
                                                           "__forceinline__",
                                                           "__launch_bounds__"};
  std::string out;
  for (size_t i = 0; i < line.size();) {
    if (line.compare(i, 2, "//") == 0) return out + span("c", std::string_view(line).substr(i));
    size_t end = i + 1;
    if (line[i] == '"') {
      while (end < line.size() && line[end] != '"') end += line[end] == '\\' ? 2 : 1;
      end = std::min(line.size(), end + 1);
      out += span("s", std::string_view(line).substr(i, end - i));
    } else if (is_word(line[i])) {
      while (end < line.size() &&
             (is_word(line[end]) || (line[end] == '.' && std::isdigit(static_cast<unsigned char>(line[i])))))
        ++end;
      const std::string_view word = std::string_view(line).substr(i, end - i);
      if (std::isdigit(static_cast<unsigned char>(word[0])))
        out += span("n", word);
      else
        out += words.count(word) ? span("k", word) : escaped(word);
    } else {
      out += escaped(line.substr(i, 1));
    }
    i = end;
  }
  return out;
}

const char* grade(double share) { return share >= 0.9 ? "good" : share >= 0.49 ? "fair" : "bad"; }
const char* grade_conflict(double factor) { return factor <= 1.1 ? "good" : factor <= 2.05 ? "fair" : "bad"; }

// A figure in front of a bar of its share.
std::string bar(const char* style, double share, const std::string& text) {
  return fmt::format("<span class=\"bar\"><i class=\"{}\" style=\"width:{:.0f}%\"></i><b>{}</b></span>", style,
                     100 * std::clamp(share, 0.0, 1.0), text);
}

std::string figure(const Tree& line) {
  const bool shared = line["memory"].as_string() == "shared";
  const auto requests = static_cast<double>(std::max<int64_t>(1, line["requests"].as_int()));
  const double conflict = line["conflict"].as_double();
  const double coalescing = line["coalescing"].as_double();
  return fmt::format(
      "<div class=\"figure\"><span>{} {} {} B</span><span>{}</span><span>{}</span>{}<span>{:.1f}</span></div>",
      line["memory"].as_string(), line["access"].as_string(), line["bytes"].as_int(),
      count_text(line["requests"].as_int()),
      shared ? std::string() : fmt::format("{:.1f}", static_cast<double>(line["sectors"].as_int()) / requests),
      shared ? bar(grade_conflict(conflict), 1 / conflict, fmt::format("×{:.1f}", conflict))
             : bar(grade(coalescing), coalescing, fmt::format("{:.0f} %", 100 * coalescing)),
      32 * line["active"].as_double());
}

std::string pill(const Tree& finding) {
  return fmt::format("<span class=\"pill {}\">{}</span>", finding["error"].as_bool() ? "error" : "remark",
                     escaped(finding["kind"].as_string()));
}

std::string times(const Tree& finding) {
  const int64_t count = finding["count"].as_int();
  return count > 1 ? fmt::format(" <span class=\"soft\">({} times)</span>", count_text(count)) : "";
}

// Everything that is known about the lines of one file.
struct SourceNotes {
  std::map<int64_t, std::vector<const Tree*>> figures;
  std::map<int64_t, std::vector<const Tree*>> findings;
  std::map<int64_t, int64_t> arithmetic;
  std::set<const Tree*> kernels;
};

class Page {
 public:
  Page(const Tree& report, const std::string& title) : report_(report), title_(title) {
    for (const Tree& kernel : report["kernels"].as_list()) {
      for (const Tree& line : kernel["lines"].as_list()) {
        SourceNotes& notes = note(line["at"]);
        notes.figures[line["at"]["line"].as_int()].push_back(&line);
        notes.kernels.insert(&kernel);
      }
      for (const Tree& line : kernel["arithmetic"].as_list())
        note(line["at"]).arithmetic[line["at"]["line"].as_int()] += line["operations"].as_int();
      for (const Tree& finding : kernel["findings"].as_list()) {
        for (const char* place : {"at", "other"}) {
          const Tree& at = finding[place];
          if (at["line"].as_int() == 0) continue;
          auto& list = note(at).findings[at["line"].as_int()];
          if (std::find(list.begin(), list.end(), &finding) == list.end()) list.push_back(&finding);
        }
      }
    }
  }

  std::string text() const {
    const int64_t errors = report_["errors"].as_int();
    const int64_t remarks = report_["remarks"].as_int();
    std::string out = fmt::format(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
        "content=\"width=device-width\"><title>Kernels of {0}</title><style>{1}</style></head>\n<body><main>\n"
        "<h1>Kernels of {0}</h1>\n<p class=\"lead\"><span class=\"verdict {2}\">{3}</span>, {4} on speed, in {5} "
        "kernels, "
        "run in the emulator.</p>\n",
        escaped(title_), kStyle, errors ? "bad" : "good",
        errors ? fmt::format("{} error{}", errors, errors == 1 ? "" : "s") : "No errors",
        fmt::format("{} remark{}", remarks, remarks == 1 ? "" : "s"), report_["kernels"].size());
    out += kernels() + findings();
    out += "<h2>Sources</h2>\n";
    for (const auto& [file, notes] : sources_) out += source(file, notes);
    return out +
           "<footer>A request is what the lanes of a warp do in one instruction. Global memory: sectors of 32 bytes "
           "touched a request, and how many the bytes would fill. Shared memory: rounds over the 32 banks. Lanes: of "
           "32, "
           "on average. More in docs/kernels.md.</footer>\n</main></body></html>\n";
  }

 private:
  SourceNotes& note(const Tree& at) { return sources_[at["file"].as_string()]; }

  static std::string anchor(const Tree& at) {
    std::string name = std::filesystem::path(at["file"].as_string()).filename().string();
    return fmt::format("{}-{}", name, at["line"].as_int());
  }
  static std::string link(const Tree& at) {
    const std::string name = std::filesystem::path(at["file"].as_string()).filename().string();
    return fmt::format("<a href=\"#{}\">{}:{}</a>", escaped(anchor(at)), escaped(name), at["line"].as_int());
  }

  std::string kernels() const {
    std::string out =
        "<div class=\"card\"><table class=\"kernels\"><tr><th>kernel</th><th>launches</th><th>threads</th><th>read</th>"
        "<th>written</th><th>FLOP</th><th>FLOP / byte</th><th>coalesced</th><th>bank conflicts</th><th>lanes</th>"
        "<th>errors</th></tr>\n";
    for (const Tree& kernel : report_["kernels"].as_list()) {
      const double coalescing = kernel["coalescing"].as_double();
      const double conflict = kernel["conflict"].as_double();
      const int64_t errors = kernel["errors"].as_int();
      out += fmt::format(
          "<tr><td><a href=\"#{}\">{}</a></td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td "
          "class=\"{}\">{:.0f} "
          "%</td>"
          "<td class=\"{}\">×{:.1f}</td><td>{:.1f}</td><td class=\"{}\">{}</td></tr>\n",
          escaped(anchor(kernel["defined_at"])), escaped(kernel["name"].as_string()),
          count_text(kernel["launches"].as_int()), count_text(kernel["threads"].as_int()),
          bytes_text(kernel["read_bytes"].as_int()), bytes_text(kernel["written_bytes"].as_int()),
          operations_text(kernel["operations"]), intensity_text(kernel["intensity"]), grade(coalescing),
          100 * coalescing, grade_conflict(conflict), conflict, 32 * kernel["active"].as_double(),
          errors ? "bad" : "soft", errors ? count_text(errors) : "–");
    }
    return out + "</table></div>\n";
  }

  std::string findings() const {
    std::string items;
    for (const bool error : {true, false})
      for (const Tree& kernel : report_["kernels"].as_list())
        for (const Tree& finding : kernel["findings"].as_list()) {
          if (finding["error"].as_bool() != error) continue;
          std::string places;
          if (finding["at"]["line"].as_int()) places = link(finding["at"]);
          const bool two = finding["other"]["line"].as_int() && !(finding["other"] == finding["at"]);
          if (two) places += " and " + link(finding["other"]);
          items +=
              fmt::format("<li>{}{} {}{} <span class=\"soft\">{}</span></li>\n", pill(finding), places,
                          escaped(finding["text"].as_string()), times(finding), escaped(kernel["name"].as_string()));
        }
    if (items.empty()) return "";
    return "<h2>Findings</h2>\n<div class=\"card\"><ul class=\"findings\">\n" + items + "</ul></div>\n";
  }

  static std::string source(const std::string& path, const SourceNotes& notes) {
    std::ifstream file(path);
    if (!file) return fmt::format("<p class=\"soft\">{} cannot be read</p>\n", escaped(path));
    size_t lines = 0;
    std::string rows;
    std::string text;
    for (int64_t number = 1; std::getline(file, text); ++number) rows += row(path, number, text, notes, lines);
    return fmt::format(
        "<details open class=\"card\"><summary>{}<span>{} line{} with figures</span></summary>\n"
        "<table class=\"source\"><tr class=\"head\"><td></td><td></td><td class=\"figures\"><div class=\"figure\">"
        "<span>access</span><span>requests</span><span>sectors</span><span>coalesced / ×</span><span>lanes</span></div>"
        "</td></tr>\n{}</table></details>\n",
        escaped(path_text(path)), lines, lines == 1 ? "" : "s", rows);
  }

  static std::string row(const std::string& path, int64_t number, const std::string& text, const SourceNotes& notes,
                         size_t& lines) {
    const auto figures = notes.figures.find(number);
    const auto found = notes.findings.find(number);
    std::string cells;
    if (figures != notes.figures.end()) {
      ++lines;
      for (const Tree* line : merged(figures->second)) cells += figure(*line);
    }
    if (const auto computed = notes.arithmetic.find(number); computed != notes.arithmetic.end()) {
      if (cells.empty()) ++lines;
      cells += fmt::format("<div class=\"figure\"><span>arithmetic</span><span>{} FLOP</span></div>",
                           operations_text(computed->second));
    }
    std::string style = cells.empty() ? "" : "hit";
    std::string messages;
    if (found != notes.findings.end()) {
      bool error = false;
      for (const Tree* finding : found->second) {
        error = error || (*finding)["error"].as_bool();
        messages +=
            fmt::format("<div>{}{}{}</div>", pill(*finding), escaped((*finding)["text"].as_string()), times(*finding));
      }
      style = error ? "error" : "remark";
    }
    const std::string name = std::filesystem::path(path).filename().string();
    std::string out = fmt::format(
        "<tr class=\"{}\" id=\"{}-{}\"><td class=\"number\">{}</td><td>{}</td><td class=\"figures\">{}</td></tr>\n",
        style, escaped(name), number, number, coloured(text), cells);
    if (!messages.empty())
      out += fmt::format("<tr class=\"note {}\"><td class=\"number\"></td><td colspan=\"2\">{}</td></tr>\n", style,
                         messages);
    return out;
  }

  // Of a line that several kernels run, at most four figures: those with most requests.
  static std::vector<const Tree*> merged(std::vector<const Tree*> figures) {
    std::stable_sort(figures.begin(), figures.end(), [](const Tree* a, const Tree* b) {
      return (*a)["requests"].as_int() > (*b)["requests"].as_int();
    });
    if (figures.size() > 4) figures.resize(4);
    return figures;
  }

  const Tree& report_;
  std::string title_;
  std::map<std::string, SourceNotes> sources_;
};

}  // namespace

std::string kernel_page(const Tree& report, const std::string& title) { return Page(report, title).text(); }

}  // namespace weft::cli
