// Progress: how far a long piece of work has come.
//
//   Progress progress({.label = "step", .total = 900, .enabled = accelerator.is_main_process()});
//   for (int64_t step = 1; step <= 900; ++step) {
//     …
//     progress.update(step, fmt::format("loss {:.3f}", loss));
//   }
//   progress.finish();
//
// On a terminal one line is redrawn in place, at most ten times a second:
//
//   step  450/900 ━━━━━━━━━━━━╸───────────  50%  loss 2.184  0:26 left
//
// Elsewhere (a file, a pipe) about twenty plain lines are printed in all.
#pragma once
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

namespace weft {

struct ProgressOptions {
  std::string label = "step";
  int64_t total = 0;    // 0: not known; then there is no bar, and plain lines come at 1, 2, 4, 8, …
  bool enabled = true;  // false: prints nothing, as on all ranks but one
  std::FILE* out = stdout;
};

class Progress {
 public:
  explicit Progress(ProgressOptions options);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `done` of total; `text` stands between the percentage and the time left. That is reckoned from the first update on, so a
  // run that was resumed may begin anywhere.
  void update(int64_t done, const std::string& text = {});
  // A whole line that stays, above the bar.
  void note(const std::string& line);
  // Draws the last state and ends the line.
  void finish();

 private:
  std::string line(int columns) const;
  void draw();

  ProgressOptions options_;
  bool terminal_ = false;
  bool utf8_ = false;
  int64_t done_ = 0;
  int64_t first_ = -1;   // `done` of the first update
  int64_t printed_ = 0;  // plain lines so far, or with an unknown total where the last one was
  bool drawn_ = false;   // a bar stands on the present line
  bool finished_ = false;
  std::string text_;
  std::chrono::steady_clock::time_point start_, first_time_, last_draw_;
};

// The bar alone, `width` columns for a share in [0, 1]; ASCII where utf8 is false.
std::string progress_bar(double share, int width, bool utf8);
// "0:26", "1:02:03"
std::string format_duration(double seconds);

}  // namespace weft
