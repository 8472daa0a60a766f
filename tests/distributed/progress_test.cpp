// Progress on a terminal (a pseudo-terminal of the test's own) and elsewhere.
#include "distributed/trackers/progress.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

namespace weft {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines(1);
  for (const char c : text) {
    if (c == '\n')
      lines.emplace_back();
    else
      lines.back() += c;
  }
  if (lines.back().empty()) lines.pop_back();
  return lines;
}

// What f prints into a file.
std::string printed(const std::function<void(std::FILE*)>& f) {
  std::FILE* file = std::tmpfile();
  f(file);
  std::string text(static_cast<size_t>(std::ftell(file)), '\0');
  std::rewind(file);
  EXPECT_EQ(std::fread(text.data(), 1, text.size(), file), text.size());
  std::fclose(file);
  return text;
}

// What f prints on a terminal so wide.
std::string drawn(int columns, const std::function<void(std::FILE*)>& f) {
  int ours = -1, theirs = -1;
  winsize size{.ws_row = 24, .ws_col = static_cast<unsigned short>(columns), .ws_xpixel = 0, .ws_ypixel = 0};
  EXPECT_EQ(openpty(&ours, &theirs, nullptr, nullptr, &size), 0);
  std::string text;
  std::thread reader([&] {
    char buffer[4096];
    for (ssize_t n; (n = read(ours, buffer, sizeof(buffer))) > 0;) text.append(buffer, static_cast<size_t>(n));
  });
  std::FILE* file = fdopen(theirs, "w");
  f(file);
  std::fclose(file);
  reader.join();
  close(ours);
  return text;
}

// The last state of each line of a terminal, by carriage returns and "erase the line".
std::vector<std::string> screen(const std::string& text) {
  std::vector<std::string> lines;
  for (std::string line : lines_of(text)) {
    while (!line.empty() && line.back() == '\r') line.pop_back();
    const std::string erase = "\r\x1b[2K";
    const size_t last = line.rfind(erase);
    lines.push_back(last == std::string::npos ? line : line.substr(last + erase.size()));
  }
  return lines;
}

int columns_of(const std::string& text) {
  int columns = 0;
  for (const char c : text) columns += (c & 0xC0) != 0x80;
  return columns;
}

TEST(Progress, Durations) {
  EXPECT_EQ(format_duration(0), "0:00");
  EXPECT_EQ(format_duration(-3), "0:00");
  EXPECT_EQ(format_duration(25.2), "0:26");
  EXPECT_EQ(format_duration(60), "1:00");
  EXPECT_EQ(format_duration(3599.5), "1:00:00");
  EXPECT_EQ(format_duration(3723), "1:02:03");
}

TEST(Progress, Bars) {
  EXPECT_EQ(progress_bar(0, 4, false), "----");
  EXPECT_EQ(progress_bar(0.5, 4, false), "##--");
  EXPECT_EQ(progress_bar(0.66, 4, false), "##=-");
  EXPECT_EQ(progress_bar(1, 4, false), "####");
  EXPECT_EQ(progress_bar(7, 4, false), "####");
  EXPECT_EQ(progress_bar(0.66, 4, true), "━━╸─");
  EXPECT_EQ(progress_bar(0.5, 0, true), "");
}

TEST(Progress, ElsewhereAboutTwentyPlainLines) {
  const std::string text = printed([](std::FILE* out) {
    Progress progress({.label = "step", .total = 900, .out = out});
    for (int64_t step = 1; step <= 900; ++step) {
      progress.update(step, "loss 2.184");
      if (step == 450) progress.note("saved");
    }
    progress.finish();
    progress.finish();
  });
  const std::vector<std::string> lines = lines_of(text);
  ASSERT_EQ(lines.size(), 21u);
  EXPECT_EQ(lines[0], "step   45/900    5%  loss 2.184  0:01 left");
  EXPECT_EQ(lines[9].substr(0, 30), "step  450/900   50%  loss 2.18");
  EXPECT_EQ(lines[10], "saved");
  EXPECT_EQ(lines[20], "step  900/900  100%  loss 2.184  0:01");
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\r'), std::string::npos);
}

TEST(Progress, FewStepsAndAnUnknownNumber) {
  const auto count = [](int64_t total, int64_t steps) {
    return lines_of(printed([&](std::FILE* out) {
             Progress progress({.total = total, .out = out});
             for (int64_t step = 1; step <= steps; ++step) progress.update(step);
           }))
        .size();
  };
  EXPECT_EQ(count(3, 3), 3u);
  EXPECT_EQ(count(1, 1), 1u);
  EXPECT_EQ(count(0, 100), 7u);  // 1, 2, 4, … 64
}

TEST(Progress, AResumedRunReckonsFromWhereItBegan) {
  const std::string text = printed([](std::FILE* out) {
    Progress progress({.total = 1000, .out = out});
    progress.update(901);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    progress.update(951);  // 50 more at a millisecond each
  });
  const std::vector<std::string> lines = lines_of(text);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], "step   901/1000   90%");
  EXPECT_EQ(lines[1], "step   951/1000   95%  0:01 left");
}

TEST(Progress, DisabledPrintsNothing) {
  EXPECT_EQ(printed([](std::FILE* out) {
              Progress progress({.total = 10, .enabled = false, .out = out});
              progress.update(10, "text");
              progress.note("note");
            }),
            "");
}

TEST(Progress, OneLineOnATerminal) {
  setenv("LC_ALL", "C.UTF-8", 1);
  const std::string text = drawn(80, [](std::FILE* out) {
    Progress progress({.total = 900, .out = out});
    for (int64_t step = 1; step <= 900; ++step) {
      progress.update(step, "loss 2.184");
      if (step == 450) progress.note("a note");
    }
  });
  unsetenv("LC_ALL");
  const std::vector<std::string> lines = screen(text);
  ASSERT_EQ(lines.size(), 2u) << text;
  EXPECT_EQ(lines[0], "a note");
  EXPECT_EQ(lines[1].substr(0, 14), "step  900/900 ");
  EXPECT_NE(lines[1].find("━━━━━  100%  loss 2.184  0:01"), std::string::npos) << lines[1];
  // Redrawn ten times a second at most: here at the first step, after the note and at the end.
  EXPECT_LE(text.size(), 2000u);
}

TEST(Progress, NeverWiderThanTheTerminal) {
  for (const char* locale : {"C.UTF-8", "C"}) {
    setenv("LC_ALL", locale, 1);
    for (const int columns : {10, 30, 40, 45, 50, 60, 80, 200}) {
      const std::string text = drawn(columns, [](std::FILE* out) {
        Progress progress({.total = 900, .out = out});
        progress.update(450, "Verlust 2.184 µ");
      });
      const std::vector<std::string> lines = screen(text);
      ASSERT_EQ(lines.size(), 1u);
      EXPECT_LT(columns_of(lines[0]), columns) << lines[0];
      EXPECT_EQ(lines[0].substr(0, 5), "step ");
      if (columns != 80) continue;
      EXPECT_NE(lines[0].find(locale == std::string("C") ? "###---" : "━━━───"), std::string::npos) << lines[0];
    }
    unsetenv("LC_ALL");
  }
}

}  // namespace
}  // namespace weft
