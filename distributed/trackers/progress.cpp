#include "distributed/trackers/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

namespace weft {
namespace {

using std::chrono::steady_clock;
constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr int64_t kPlainLines = 20;

bool locale_is_utf8() {
  for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(variable);
    if (!value || !*value) continue;
    const std::string_view text = value;
    return text.find("UTF-8") != text.npos || text.find("utf8") != text.npos || text.find("UTF8") != text.npos;
  }
  return false;
}

int terminal_columns(std::FILE* out) {
  winsize size{};
  return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// Columns of UTF-8 text whose characters are one column wide.
int width_of(std::string_view text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// The longest beginning of at most so many columns.
std::string cut_to(const std::string& text, int columns) {
  size_t end = 0;
  for (int width = 0; end < text.size(); ++end)
    if ((text[end] & 0xC0) != 0x80 && ++width > columns) break;
  return text.substr(0, end);
}

}  // namespace

std::string progress_bar(double share, int width, bool utf8) {
  if (width <= 0) return {};
  // Half columns, so that a slow bar is seen to move.
  const int halves = static_cast<int>(std::clamp(share, 0.0, 1.0) * 2 * width);
  std::string bar;
  for (int i = 0; i < width; ++i) {
    if (2 * i + 2 <= halves)
      bar += utf8 ? "━" : "#";
    else if (2 * i + 1 <= halves)
      bar += utf8 ? "╸" : "=";
    else
      bar += utf8 ? "─" : "-";
  }
  return bar;
}

std::string format_duration(double seconds) {
  const auto whole = static_cast<int64_t>(std::ceil(std::max(seconds, 0.0)));
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

Progress::Progress(ProgressOptions options)
    : options_(std::move(options)),
      terminal_(isatty(fileno(options_.out)) == 1),
      utf8_(locale_is_utf8()),
      start_(steady_clock::now()),
      last_draw_(start_ - kRedraw) {}

Progress::~Progress() { finish(); }

std::string Progress::line(int columns) const {
  const auto seconds_since = [](steady_clock::time_point then) {
    return std::chrono::duration<double>(steady_clock::now() - then).count();
  };
  const bool known = options_.total > 0;
  const double share = known ? std::min(static_cast<double>(done_) / static_cast<double>(options_.total), 1.0) : 0;
  const std::string total = std::to_string(options_.total);
  const std::string head = known ? fmt::format("{}  {:>{}}/{}", options_.label, done_, total.size(), total)
                                 : fmt::format("{}  {}", options_.label, done_);
  std::string tail = known ? fmt::format("{:3}%", std::min<int64_t>(done_ * 100 / options_.total, 100)) : std::string();
  if (!text_.empty()) tail += (tail.empty() ? "" : "  ") + text_;
  if (!known || done_ >= options_.total) {
    tail += fmt::format("  {}", format_duration(seconds_since(start_)));
  } else if (done_ > first_) {
    const double each = seconds_since(first_time_) / static_cast<double>(done_ - first_);
    tail += fmt::format("  {} left", format_duration(each * static_cast<double>(options_.total - done_)));
  }
  const std::string plain = head + "  " + tail;
  if (columns <= 0) return plain;
  // The last column stays free: a terminal may wrap after it.
  const int room = columns - 1 - width_of(plain) - 1;
  if (known && room >= 5) return head + " " + progress_bar(share, std::min(room, 40), utf8_) + "  " + tail;
  return cut_to(plain, columns - 1);
}

void Progress::draw() {
  const std::string text = "\r\x1b[2K" + line(terminal_columns(options_.out));
  std::fwrite(text.data(), 1, text.size(), options_.out);
  std::fflush(options_.out);
  drawn_ = true;
  last_draw_ = steady_clock::now();
}

void Progress::update(int64_t done, const std::string& text) {
  if (first_ < 0) {
    first_ = done;
    first_time_ = steady_clock::now();
  }
  done_ = done;
  text_ = text;
  if (!options_.enabled || finished_) return;
  if (terminal_) {
    if (steady_clock::now() - last_draw_ >= kRedraw) draw();
    return;
  }
  if (options_.total > 0) {
    const int64_t due = done * kPlainLines / options_.total;
    if (due <= printed_) return;
    printed_ = due;
  } else {
    if (done < std::max<int64_t>(2 * printed_, 1)) return;
    printed_ = done;
  }
  fmt::print(options_.out, "{}\n", line(0));
  std::fflush(options_.out);
}

void Progress::note(const std::string& text) {
  if (!options_.enabled) return;
  if (drawn_) fmt::print(options_.out, "\r\x1b[2K");
  fmt::print(options_.out, "{}\n", text);
  if (drawn_ && !finished_) draw();
  std::fflush(options_.out);
}

void Progress::finish() {
  if (finished_) return;
  if (options_.enabled && terminal_ && drawn_) {
    draw();
    fmt::print(options_.out, "\n");
    std::fflush(options_.out);
  }
  finished_ = true;
}

}  // namespace weft
