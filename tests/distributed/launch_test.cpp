// `weft launch`, from outside: real jobs of small programs, their output, their ends and what they leave behind.
#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "distributed/comm/socket.h"
#include "kernels/base/error.h"
#include "tests/support/child_process.h"
#include "tests/support/nightly.h"

namespace weft::test {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Seconds = ChildProcess::Seconds;

// `weft launch` with these arguments; scripts are run by "sh -c".
std::vector<std::string> weft_launch(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {weft_program(), "launch"});
  return arguments;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
std::size_t count(const std::string& text, const std::string& part) {
  std::size_t result = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++result;
  return result;
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();  // stops where reading fails: a process may go while its entry in /proc is read
  return text.str();
}

bool wait_for_file(const fs::path& path, Seconds limit = Seconds(30)) {
  auto end = Clock::now() + limit;
  while (!fs::exists(path)) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

// A number of seconds to sleep that no other process on this machine sleeps, so that those who do can be found.
std::string unique_sleep() {
  static std::atomic<int> next{0};
  return fmt::format("{}.{}{:03}", 1000, getpid(), next++);
}

// The living processes (zombies are none) whose command line is "sleep <time>".
std::vector<pid_t> sleepers(const std::string& time) {
  const std::string wanted = std::string("sleep") + '\0' + time + '\0';
  std::vector<pid_t> result;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    if (read_file(entry.path() / "cmdline") == wanted) result.push_back(std::stoi(entry.path().filename()));
  }
  return result;
}

bool wait_for_sleepers(const std::string& time, std::size_t number, Seconds limit = Seconds(30)) {
  auto end = Clock::now() + limit;
  while (sleepers(time).size() != number) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

// The guardians of jobs started by process `launcher` have its environment; ours are told by a variable.
std::size_t processes_with_variable(const std::string& variable) {
  std::size_t result = 0;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::string environment = '\0' + read_file(entry.path() / "environ");
    if (contains(environment, '\0' + variable + '\0')) ++result;
  }
  return result;
}

class Launch : public testing::Test {
 protected:
  TemporaryFolder folder;
};

// ---- what ranks are given ----

TEST_F(Launch, RanksFindTorchrunsVariables) {
  // A launch inside another job must not inherit that one's rank.
  auto result =
      ChildProcess(weft_launch({"-n", "3", "--", "sh", "-c",
                                "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE "
                                "$ROLE_RANK/$ROLE_WORLD_SIZE $ROLE_NAME $MASTER_ADDR $WEFT_STORE $OTHER; "
                                "[ $MASTER_PORT -gt 1023 ]"}),
                   {{"RANK", "7"}, {"WORLD_SIZE", "8"}, {"OTHER", "kept"}})
          .wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  auto lines = lines_of(result.out);
  std::set<std::string> expected{"0/3 0/3 0/1 0/3 default 127.0.0.1 launcher kept",
                                 "[rank 1] 1/3 1/3 0/1 1/3 default 127.0.0.1 launcher kept",
                                 "[rank 2] 2/3 2/3 0/1 2/3 default 127.0.0.1 launcher kept"};
  EXPECT_EQ(std::set<std::string>(lines.begin(), lines.end()), expected);
}

TEST_F(Launch, ArgumentsReachTheProgramUnchanged) {
  const std::vector<std::string> program{"sh", "-c", "printf '<%s>' \"$@\"", "x", "-n", "5", "--", "--help", "[1,2]",
                                         "",   "a b"};
  const std::string expected = "<-n><5><--><--help><[1,2]><><a b>";
  for (std::vector<std::string> options :
       {std::vector<std::string>{}, {"--"}, {"-n1"}, {"-n", "1", "--"}, {"--grace=2", "--"}}) {
    options.insert(options.end(), program.begin(), program.end());
    auto result = ChildProcess(weft_launch(options)).wait();
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.out, expected);
  }
}

TEST_F(Launch, InputGoesToRankZero) {
  auto result = ChildProcess(weft_launch({"-n", "2", "sh", "-c", "echo \"$RANK:$(cat)\""}), {}, -1, "hello").wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(contains(result.out, "0:hello\n") && contains(result.out, "[rank 1] 1:\n")) << result.out;
}

// C76
TEST_F(Launch, TwoJobsAtOnceFindTheirOwnFreePorts) {
  for (int round = 0; round < test::rounds(3, 20); ++round) {
    ChildProcess first(weft_launch({"-n", "3", "--master-port", "0", rank_program(), "meet"}));
    ChildProcess second(weft_launch({"-n", "3", rank_program(), "meet"}));
    std::set<std::string> ports[2];
    int i = 0;
    for (ChildProcess* child : {&first, &second}) {
      auto result = child->wait();
      EXPECT_EQ(result.exit_code, 0) << result.err;
      EXPECT_EQ(count(result.out, "port "), 3u) << result.out;
      for (const auto& line : lines_of(result.out)) ports[i].insert(line.substr(line.find("port ")));
      EXPECT_EQ(ports[i].size(), 1u) << result.out;
      ++i;
    }
    EXPECT_NE(ports[0], ports[1]);
  }
}

// C77
TEST_F(Launch, TakenPortIsSaidBeforeAnythingIsStarted) {
  FileDescriptor taken = listen_tcp(ListenOptions{});
  std::string port = std::to_string(bound_port(taken.get()));
  std::string mark = folder / "started";
  auto result = ChildProcess(weft_launch({"-n", "2", "--master-port", port, "touch", mark})).wait();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(contains(result.err, port) && contains(result.err, "--master-port")) << result.err;
  EXPECT_EQ(lines_of(result.err).size(), 1u) << result.err;
  EXPECT_FALSE(fs::exists(mark));
  // Free again, it is taken at once, and the ranks see it.
  taken.reset();
  result = ChildProcess(weft_launch({"-n", "2", "--master-port", port, rank_program(), "meet"})).wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(count(result.out, "port " + port + "\n"), 2u);
}

TEST_F(Launch, WithoutALauncherRankZeroServes) {
  std::string port = std::to_string(bound_port(listen_tcp(ListenOptions{}).get()));
  std::vector<std::unique_ptr<ChildProcess>> ranks;
  for (int rank = 2; rank >= 0; --rank) {
    ranks.push_back(std::make_unique<ChildProcess>(
        std::vector<std::string>{rank_program(), "meet"},
        ChildProcess::Environment{
            {"RANK", std::to_string(rank)}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port}}));
  }
  for (auto& rank : ranks) {
    auto result = rank->wait();
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.out, "port " + port + "\n");
  }
}

// ---- output ----

TEST_F(Launch, LinesOfRanksDoNotMix) {
  constexpr int ranks = 4, lines = 500;
  auto result =
      ChildProcess(weft_launch({"-n", std::to_string(ranks), rank_program(), "chatter", std::to_string(lines)})).wait();
  EXPECT_EQ(result.exit_code, 0);
  int stream = 1;
  for (const std::string& text : {result.out, result.err}) {
    std::map<int, int> next;
    for (const auto& line : lines_of(text)) {
      int rank = -1;
      ASSERT_EQ(std::sscanf(line.c_str() + (line[0] == '[' ? line.find('<') : 0), "<%d", &rank), 1) << line;
      std::string expected = fmt::format("{}<{} {} {} {}>", rank == 0 ? "" : fmt::format("[rank {}] ", rank), rank,
                                         stream, next[rank]++, std::string(100, static_cast<char>('a' + rank)));
      ASSERT_EQ(line, expected);
    }
    for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(next[rank], lines);
    ++stream;
  }
}

TEST_F(Launch, ALastLineWithoutNewlineIsKept) {
  auto result = ChildProcess(weft_launch({"-n", "2", "sh", "-c", "printf end"})).wait();
  EXPECT_TRUE(result.out == "end\n[rank 1] end\n" || result.out == "[rank 1] end\nend\n") << result.out;
}

TEST_F(Launch, OneRankIsLeftAlone) {
  auto result = ChildProcess(weft_launch({"sh", "-c", "printf out; printf err >&2; exit 3"})).wait();
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.out, "out");
  EXPECT_EQ(lines_of(result.err).back().substr(0, 29), "errweft launch: rank 0 of 1 (") << result.err;
}

TEST_F(Launch, RankZeroSeesTheTerminal) {
  int controller = -1, terminal = -1;
  ASSERT_EQ(openpty(&controller, &terminal, nullptr, nullptr, nullptr), 0);
  FileDescriptor ours(controller), theirs(terminal);
  auto result =
      ChildProcess(
          weft_launch({"-n", "2", "sh", "-c", "if [ -t 1 ]; then echo $RANK terminal; else echo $RANK none; fi"}), {},
          theirs.get())
          .wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  char buffer[1000];
  std::string text;
  while (count(text, "\n") < 2 && wait_ready(ours.get(), 1 /* POLLIN */, Clock::now() + std::chrono::seconds(10))) {
    ssize_t size = read(ours.get(), buffer, sizeof buffer);
    if (size <= 0) break;
    text.append(buffer, static_cast<std::size_t>(size));
  }
  EXPECT_TRUE(contains(text, "0 terminal") && contains(text, "[rank 1] 1 none")) << text;
}

TEST_F(Launch, LogFolderHoldsOneFileARank) {
  std::string logs = folder / "logs";
  auto run = [&](const std::string& what) {
    // Rank 1 fails, which stops rank 0; so it waits until that one has written its lines.
    std::string script = fmt::format(
        "[ $RANK = 0 ] || until grep -q 'err 0' {}/rank_0.log; do sleep 0.01; done; echo {} $RANK; echo err $RANK >&2; "
        "exit $RANK",
        logs, what);
    return ChildProcess(weft_launch({"-n", "2", "--log-dir", logs, "sh", "-c", script})).wait();
  };
  run("first and longer");
  auto result = run("second");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(read_file(logs + "/rank_0.log"), "second 0\nerr 0\n");
  EXPECT_EQ(read_file(logs + "/rank_1.log"), "second 1\nerr 1\n");
  EXPECT_TRUE(contains(result.err, "rank 1 of 2") && contains(result.err, logs + "/rank_1.log") &&
              contains(result.err, "[rank 1] second 1\n  [rank 1] err 1\n"))
      << result.err;
  result = ChildProcess(weft_launch({"--log-dir", "/proc/nowhere", "true"})).wait();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(contains(result.err, "/proc/nowhere") && contains(result.err, "--log-dir")) << result.err;
}

TEST_F(Launch, AReaderThatDoesNotReadDelaysNoCleanUp) {
  std::string time = unique_sleep();
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  FileDescriptor read_end(ends[0]), write_end(ends[1]);
  ChildProcess child(
      weft_launch({"-n", "3", "sh", "-c",
                   "case $RANK in 0) sleep " + time + ";; 1) yes | head -c 20000000;; 2) sleep 0.5; exit 5;; esac"}),
      {}, write_end.get());
  write_end.reset();
  ASSERT_TRUE(wait_for_sleepers(time, 1));
  EXPECT_TRUE(wait_for_sleepers(time, 0, Seconds(15)));
  read_end.reset();  // what is left is for nobody
  EXPECT_EQ(child.wait().exit_code, 5);
}

// ---- ends ----

TEST_F(Launch, AFailedRanksCodeAndLastLinesComeLast) {
  std::string time = unique_sleep();
  auto start = Clock::now();
  auto result =
      ChildProcess(weft_launch({"-n", "3", "sh", "-c",
                                "[ $RANK = 1 ] || exec sleep " + time +
                                    "; for i in $(seq 30); do echo line $i; done; echo its last words >&2; exit 42"}))
          .wait();
  EXPECT_EQ(result.exit_code, 42);
  EXPECT_LT(Clock::now() - start, Seconds(10));
  auto lines = lines_of(result.err);
  ASSERT_GE(lines.size(), 21u);
  EXPECT_TRUE(contains(result.err, "  [rank 1] its last words\n")) << result.err;
  EXPECT_TRUE(contains(lines[lines.size() - 21], "weft launch: rank 1 of 3") &&
              contains(lines[lines.size() - 21], "code 42"))
      << result.err;
  EXPECT_EQ(lines.back().substr(0, 11), "  [rank 1] ");
  EXPECT_EQ(sleepers(time).size(), 0u);
}

TEST_F(Launch, AnErrorOfTheLibraryIsTheLastThingSeen) {
  auto result = ChildProcess(weft_launch({"-n", "3", rank_program(), "throw"})).wait();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(lines_of(result.err).back(), "  [rank 1] weft::Error [matmul] inner dimensions differ") << result.err;
}

TEST_F(Launch, AKilledRankEndsTheOthersAndWhatTheyStarted) {
  std::string time = unique_sleep();
  ChildProcess child(weft_launch(
      {"-n", "3", "sh", "-c",
       "sleep " + time + " & sleep " + time + " & echo $$ > " + (folder / "pid").string() + "$RANK; wait"}));
  ASSERT_TRUE(wait_for_sleepers(time, 6));
  ASSERT_TRUE(wait_for_file(folder / "pid1"));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  auto start = Clock::now();
  kill(std::stoi(read_file(folder / "pid1")), SIGKILL);
  auto result = child.wait();
  EXPECT_LT(Clock::now() - start, Seconds(5));
  EXPECT_EQ(result.exit_code, 128 + SIGKILL);
  EXPECT_TRUE(contains(result.err, "rank 1 of 3") && contains(result.err, "SIGKILL")) << result.err;
  EXPECT_EQ(sleepers(time).size(), 0u);
}

// C80
TEST_F(Launch, SigtermToOneRankIsAFailureOfTheJob) {
  std::string time = unique_sleep();
  ChildProcess child(weft_launch(
      {"-n", "4", "--grace", "5", "sh", "-c", "echo $$ > " + (folder / "pid").string() + "$RANK; exec sleep " + time}));
  ASSERT_TRUE(wait_for_sleepers(time, 4));
  auto start = Clock::now();
  kill(std::stoi(read_file(folder / "pid1")), SIGTERM);
  auto result = child.wait();
  EXPECT_LT(Clock::now() - start, Seconds(5));
  EXPECT_EQ(result.exit_code, 128 + SIGTERM);
  EXPECT_TRUE(contains(result.err, "rank 1 of 4")) << result.err;
  EXPECT_EQ(sleepers(time).size(), 0u);
}

// C79
TEST_F(Launch, SignalsArePassedOnAndGraceIsKept) {
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    std::string time = unique_sleep();
    const char* name = signal == SIGINT ? "INT" : signal == SIGTERM ? "TERM" : "HUP";
    // Rank 0 notes the signal and ends well; rank 1 does not listen.
    std::string script = fmt::format(
        "if [ $RANK = 0 ]; then trap 'echo got {0}; exit 0' {0}; sleep {1} & wait; else trap '' {0}; echo deaf; while "
        ":; do sleep "
        "{1}; done; fi",
        name, time);
    ChildProcess child(weft_launch({"-n", "2", "--grace", "1", "sh", "-c", script}));
    ASSERT_TRUE(child.wait_for_text("deaf"));
    ASSERT_TRUE(wait_for_sleepers(time, 2));
    auto start = Clock::now();
    child.send(signal);
    auto result = child.wait();
    EXPECT_EQ(result.exit_code, 128 + signal) << result.err;
    EXPECT_GE(Clock::now() - start, Seconds(0.9));
    EXPECT_LT(Clock::now() - start, Seconds(10));
    EXPECT_TRUE(contains(result.out, fmt::format("got {}\n", name))) << result.out;
    EXPECT_TRUE(contains(result.err, fmt::format("SIG{}", name))) << result.err;
    EXPECT_EQ(sleepers(time).size(), 0u);
  }
}

TEST_F(Launch, ASecondInterruptEndsTheGrace) {
  std::string time = unique_sleep();
  ChildProcess child(weft_launch({"-n", "2", "sh", "-c", "trap '' INT; exec sleep " + time}));
  ASSERT_TRUE(wait_for_sleepers(time, 2));
  child.send(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  child.send(SIGINT);
  auto result = child.wait(Seconds(20));
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 128 + SIGINT);
  EXPECT_EQ(sleepers(time).size(), 0u);
}

TEST_F(Launch, InterruptDuringStartUpLeavesNothing) {
  for (int delay_us : {0, 500, 1000, 2000, 4000, 8000}) {
    std::string time = unique_sleep();
    std::string variable = "WEFT_TEST_MARK=" + time;
    ChildProcess child(weft_launch({"-n", "8", "sleep", time}), {{"WEFT_TEST_MARK", time}});
    usleep(static_cast<useconds_t>(delay_us));
    child.send(SIGINT);
    auto result = child.wait(Seconds(20));
    EXPECT_EQ(result.exit_code, 128 + SIGINT) << result.err;
    EXPECT_EQ(sleepers(time).size(), 0u);
    EXPECT_EQ(processes_with_variable(variable), 0u);
  }
}

TEST_F(Launch, IgnoredSignalsStayIgnored) {  // nohup
  ChildProcess child({"sh", "-c", "trap '' HUP; exec \"$@\"", "x", weft_program(), "launch", "-n", "2", "sh", "-c",
                      "echo ready; sleep 0.5; echo done"});
  ASSERT_TRUE(child.wait_for_text("ready"));
  child.send(SIGHUP);
  auto result = child.wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(count(result.out, "done"), 2u);
}

TEST_F(Launch, StopAndContinueReachTheRanks) {
  std::string time = unique_sleep();
  ChildProcess child(weft_launch({"-n", "2", "sleep", time}));
  ASSERT_TRUE(wait_for_sleepers(time, 2));
  auto state = [](pid_t pid) {
    std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
    return stat.empty() ? '-' : stat[stat.rfind(')') + 2];
  };
  auto wait_for_state = [&](pid_t pid, char wanted) {
    auto end = Clock::now() + Seconds(10);
    while (state(pid) != wanted && Clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return state(pid) == wanted;
  };
  auto ranks = sleepers(time);
  child.send(SIGTSTP);
  for (pid_t rank : ranks) EXPECT_TRUE(wait_for_state(rank, 'T'));
  EXPECT_TRUE(wait_for_state(child.pid(), 'T'));
  child.send(SIGCONT);
  for (pid_t rank : ranks) EXPECT_TRUE(wait_for_state(rank, 'S'));
  // Stopped and then killed, it still leaves nothing: the guardian does not sleep.
  child.send(SIGTSTP);
  for (pid_t rank : ranks) EXPECT_TRUE(wait_for_state(rank, 'T'));
  child.send(SIGKILL);
  EXPECT_TRUE(wait_for_sleepers(time, 0, Seconds(10)));
}

// C83
TEST_F(Launch, OtherChildrenOfTheCallerLive) {
  std::string beside = unique_sleep(), time = unique_sleep();
  // One beside the launcher, and one that becomes the launcher's own child because a shell turned into the launcher.
  ChildProcess child({"sh", "-c", "sleep " + beside + " & exec \"$@\"", "x", weft_program(), "launch", "-n", "2",
                      "--grace", "1", "sh", "-c", "sleep " + time + " & [ $RANK = 0 ] && exit 9; wait"});
  auto result = child.wait();
  EXPECT_EQ(result.exit_code, 9) << result.err;
  EXPECT_EQ(sleepers(time).size(), 0u);
  auto left = sleepers(beside);
  EXPECT_EQ(left.size(), 1u);
  for (pid_t pid : left) kill(pid, SIGKILL);
}

TEST_F(Launch, AKilledLauncherLeavesNothing) {
  for (int round = 0; round < test::rounds(5, 40); ++round) {
    std::string time = unique_sleep();
    ChildProcess child(weft_launch({"-n", "3", "sh", "-c", "trap '' TERM INT HUP; sleep " + time + " & sleep " + time}),
                       {{"WEFT_TEST_MARK", time}});
    // Early too, while ranks are still being started.
    if (round % 2 == 0) {
      ASSERT_TRUE(wait_for_sleepers(time, 6));
    } else {
      usleep(static_cast<useconds_t>(1500 * round));
    }
    child.send(SIGKILL);
    child.wait();
    auto end = Clock::now() + Seconds(10);
    while (processes_with_variable("WEFT_TEST_MARK=" + time) > 0 && Clock::now() < end) usleep(2000);
    EXPECT_EQ(processes_with_variable("WEFT_TEST_MARK=" + time), 0u);
  }
}

TEST_F(Launch, WhatSuccessfulRanksLeaveBehindEndsToo) {
  std::string time = unique_sleep();
  auto start = Clock::now();
  auto result = ChildProcess(weft_launch({"-n", "2", "sh", "-c", "sleep " + time + " & exit 0"})).wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_LT(Clock::now() - start, Seconds(10));
  EXPECT_EQ(sleepers(time).size(), 0u);
}

TEST_F(Launch, TheTimeLimitEndsTheJob) {
  std::string time = unique_sleep();
  auto result = ChildProcess(weft_launch({"-n", "2", "--timeout", "0.5", "--grace", "0.5", "sh", "-c",
                                          "trap '' TERM; while :; do sleep " + time + "; done"}))
                    .wait();
  EXPECT_EQ(result.exit_code, 124);
  EXPECT_TRUE(contains(result.err, "0.5 s") && contains(result.err, "--timeout")) << result.err;
  EXPECT_EQ(sleepers(time).size(), 0u);
}

// ---- what cannot be started ----

TEST_F(Launch, ProgramsThatCannotBeStartedAreNamed) {
  auto write_program = [&](const std::string& name, const std::string& text, int mode) {
    std::ofstream(folder / name) << text;
    chmod((folder / name).c_str(), static_cast<mode_t>(mode));
    return (folder / name).string();
  };
  struct Case {
    std::string program;
    int exit_code;
  };
  for (const Case& bad :
       {Case{"./no-such-program", 127}, Case{"no-such-program", 127}, Case{folder.path(), 126},
        Case{write_program("plain", "text", 0644), 126}, Case{write_program("text", "text", 0755), 126},
        Case{write_program("script", "#!/no/such/interpreter\n", 0755), 127}}) {
    auto result = ChildProcess(weft_launch({"-n", "3", bad.program})).wait();
    EXPECT_EQ(result.exit_code, bad.exit_code) << result.err;
    EXPECT_EQ(lines_of(result.err).size(), 1u) << result.err;
    EXPECT_TRUE(contains(result.err, "weft::Error [launch]") && contains(result.err, bad.program)) << result.err;
  }
}

TEST_F(Launch, AHalfStartedJobIsCleanedUp) {
  std::string time = unique_sleep();
  fs::create_directories(folder / "rank_3.log");  // where the fourth rank's log should go
  ChildProcess child(weft_launch({"-n", "5", "--log-dir", folder.path(), "sleep", time}), {{"WEFT_TEST_MARK", time}});
  auto result = child.wait();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(fs::exists(folder / "rank_2.log"));
  EXPECT_EQ(lines_of(result.err).size(), 1u) << result.err;
  EXPECT_TRUE(contains(result.err, "rank_3.log")) << result.err;
  EXPECT_EQ(processes_with_variable("WEFT_TEST_MARK=" + time), 0u);
}

#if !defined( \
    __SANITIZE_ADDRESS__)  // UBSan opens a pipe of its own to look at an exception, and misjudges it without one
TEST_F(Launch, AJobThatRunsOutOfDescriptorsIsCleanedUp) {
  std::string time = unique_sleep();
  // Enough descriptors for some ranks, not for all.
  ChildProcess child(
      {"sh", "-c", "ulimit -n 24; exec \"$@\"", "x", weft_program(), "launch", "-n", "32", "sleep", time},
      {{"WEFT_TEST_MARK", time}});
  auto result = child.wait();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(lines_of(result.err).size(), 1u) << result.err;
  EXPECT_TRUE(contains(result.err, "Too many open files")) << result.err;
  EXPECT_EQ(processes_with_variable("WEFT_TEST_MARK=" + time), 0u);
}
#endif

TEST_F(Launch, BadOptionsAreOneClearLine) {
  struct Case {
    std::vector<std::string> arguments;
    const char* expected;
  };
  for (const Case& bad :
       {Case{{"launch", "-n", "0", "true"}, "-n"}, Case{{"launch", "-n", "two", "true"}, "two"},
        Case{{"launch", "-n"}, "-n"}, Case{{"launch", "--master-port", "70000", "true"}, "70000"},
        Case{{"launch", "--grace", "-1", "true"}, "--grace"}, Case{{"launch", "--bad", "true"}, "--bad"},
        Case{{"launch"}, "program"}, Case{{"launch", "--master-addr", "192.0.2.1", "true"}, "192.0.2.1"},
        Case{{"no-such-command"}, "no-such-command"}, Case{{"--no-such-option"}, "--no-such-option"},
        Case{{}, "--help"}}) {
    std::vector<std::string> command = bad.arguments;
    command.insert(command.begin(), weft_program());
    auto result = ChildProcess(command).wait();
    EXPECT_TRUE(result.exit_code == 1 || result.exit_code == 2) << result.exit_code;
    EXPECT_EQ(lines_of(result.err).size(), 1u) << result.err;
    EXPECT_TRUE(contains(result.err, bad.expected)) << result.err;
  }
  auto result = ChildProcess({weft_program(), "--version"}).wait();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out.substr(0, 5), "weft ");
}

}  // namespace
}  // namespace weft::test
