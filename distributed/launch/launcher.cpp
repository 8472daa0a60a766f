#include "distributed/launch/launcher.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "distributed/comm/socket.h"
#include "distributed/comm/store_server.h"
#include "distributed/launch/rank_output.h"
#include "distributed/launch/spawn.h"
#include "kernels/base/error.h"

namespace weft {
namespace {

constexpr const char* op = "launch";
using Clock = std::chrono::steady_clock;

constexpr auto leftover_poll =
    std::chrono::milliseconds(20);                       // how often we look for what ended ranks have left behind
constexpr auto kill_patience = std::chrono::seconds(5);  // for the kernel to end what was killed
constexpr auto notice_delay = std::chrono::seconds(1);   // a stop that takes longer explains itself
constexpr auto double_signal = std::chrono::milliseconds(500);  // `timeout` and terminals may deliver one signal twice

// The guardian: waits until the launcher closes its end of the pipe, which its death does in every case, then kills the group
// both are looking after (0: its own). It starts with all signals blocked, so only SIGKILL to the group ends it earlier.
constexpr const char* guardian_script = "read -r line; kill -s KILL 0";

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

double seconds(std::chrono::milliseconds time) { return static_cast<double>(time.count()) / 1000.0; }

bool is_ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// Signals as a file descriptor while the job runs. Those the caller has ignored (nohup, a shell's background job) stay so.
class SignalScope {
 public:
  SignalScope() {
    sigset_t watched;
    sigemptyset(&watched);
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP}) {
      if (is_ignored(signal)) {
        ignored_.push_back(signal);
      } else {
        sigaddset(&watched, signal);
      }
    }
    pthread_sigmask(SIG_BLOCK, &watched, &mask_before_);
    descriptor_ = FileDescriptor(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!descriptor_) {
      pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
      fail(ErrorCode::io, op, "cannot watch signals: {}", error_text(errno));
    }
    // A closed pipe is an error of the write, not our end. Children are ours to wait for, whatever the caller ignores.
    // SIGTTOU would stop a rank that prints to a terminal with `stty tostop`; ranks inherit that it is ignored.
    set_handler(SIGPIPE, SIG_IGN, before_pipe_);
    set_handler(SIGCHLD, SIG_DFL, before_child_);
    set_handler(SIGTTOU, SIG_IGN, before_ttou_);
  }
  ~SignalScope() {
    sigaction(SIGPIPE, &before_pipe_, nullptr);
    sigaction(SIGCHLD, &before_child_, nullptr);
    sigaction(SIGTTOU, &before_ttou_, nullptr);
    while (next() != 0) {  // one that came at the very end must not strike when the mask is lifted
    }
    pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  }
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;

  int descriptor() const { return descriptor_.get(); }
  int next() const {  // 0 when none is pending
    signalfd_siginfo info;
    return read(descriptor_.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
  }
  // What a rank shall inherit.
  std::vector<int> kept() const {
    std::vector<int> result = ignored_;
    result.push_back(SIGTTOU);
    return result;
  }

 private:
  static void set_handler(int signal, void (*handler)(int), struct sigaction& before) {
    struct sigaction action {};
    action.sa_handler = handler;
    sigaction(signal, &action, &before);
  }
  FileDescriptor descriptor_;
  sigset_t mask_before_;
  std::vector<int> ignored_;
  struct sigaction before_pipe_ {};
  struct sigaction before_child_ {};
  struct sigaction before_ttou_ {};
};

// Whether a living process other than the leader belongs to process group `group`.
bool group_has_members(pid_t group) {
  std::unique_ptr<DIR, int (*)(DIR*)> processes(opendir("/proc"), closedir);
  if (!processes) return false;
  while (const dirent* entry = readdir(processes.get())) {
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9' || std::atoi(entry->d_name) == group) continue;
    FileDescriptor file(open(fmt::format("/proc/{}/stat", entry->d_name).c_str(), O_RDONLY | O_CLOEXEC));
    char text[512];
    ssize_t count = file ? read(file.get(), text, sizeof text - 1) : -1;
    if (count <= 0) continue;
    text[count] = '\0';
    const char* after_name = std::strrchr(text, ')');  // "pid (name) state parent group …", the name may hold anything
    char state = 0;
    int parent = 0;
    int its_group = 0;
    if (after_name != nullptr && std::sscanf(after_name + 1, " %c %d %d", &state, &parent, &its_group) == 3 &&
        its_group == group && state != 'Z' && state != 'X')
      return true;
  }
  return false;
}

struct Rank {
  int number = 0;
  pid_t pid = -1;
  FileDescriptor process;  // a pidfd: readable when the rank has ended; empty before it starts and after it was reaped
  siginfo_t end{};
  bool failed_by_itself = false;  // before the launcher told anybody to stop
  Tail tail;
  std::vector<std::unique_ptr<RankPipe>> pipes;

  bool running() const { return static_cast<bool>(process); }
  int exit_code() const { return end.si_code == CLD_EXITED ? end.si_status : 128 + end.si_status; }
  std::string how_it_ended() const {
    if (end.si_code == CLD_EXITED) return fmt::format("exited with code {}", end.si_status);
    return fmt::format("was killed by signal {} ({}{})", end.si_status, signal_name(end.si_status),
                       end.si_code == CLD_DUMPED ? ", core dumped" : "");
  }
};

class Job {
 public:
  explicit Job(const LaunchOptions& options)
      : options_(options),
        store_({options.master_addr, options.master_port, "--master-port"}),
        output_(options.output),
        errors_(options.error_output),
        ranks_(static_cast<std::size_t>(options.ranks)) {}

  ~Job() {
    if (guardian_ <= 0) return;
    // Only an exception brings us here with ranks alive. The guardian is still ours to wait for, so its number is not
    // reused and this cannot hit another group.
    kill(-guardian_, SIGKILL);
    for (Rank& rank : ranks_) {
      if (rank.running()) waitpid(rank.pid, nullptr, 0);
    }
    waitpid(guardian_, nullptr, 0);
  }

  int run(const std::string& program) {
    start_guardian();
    try {
      start_ranks(program);
    } catch (const Error& error) {  // a half-started job ends here
      stop(SIGKILL, start_error_code_, "a rank could not be started");
      last_words_ = fmt::format("{}\n", error.what());
    }
    if (options_.timeout.count() > 0) job_deadline_ = Clock::now() + options_.timeout;
    while (!finished()) step();
    summarise();
    drain();
    return exit_code_;
  }

 private:
  void start_guardian() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) fail(ErrorCode::io, op, "cannot make a pipe: {}", error_text(errno));
    FileDescriptor listening(ends[0]);
    guardian_pipe_ = FileDescriptor(ends[1]);
    nothing_ = FileDescriptor(open("/dev/null", O_RDWR | O_CLOEXEC));
    if (!nothing_) fail(ErrorCode::io, op, "cannot open /dev/null: {}", error_text(errno));
    pid_t pid = spawn_process({.path = "/bin/sh",
                               .arguments = {"sh", "-c", guardian_script, "job-guardian"},
                               .environment = environment_with({}),
                               .input = listening.get(),
                               .output = nothing_.get(),
                               .error_output = nothing_.get(),
                               .group = 0,
                               .keep_signals = {},
                               .block_signals = true});
    if (pid < 0) fail(ErrorCode::io, op, "cannot start /bin/sh, which guards the job: {}", error_text(-pid));
    guardian_ = pid;
  }

  void start_ranks(const std::string& program) {
    const std::vector<int> kept = signals_.kept();
    const bool rank_0_reads = isatty(STDIN_FILENO) == 0;
    for (int number = 0; number < options_.ranks; ++number) {
      Rank& rank = ranks_[static_cast<std::size_t>(number)];
      rank.number = number;
      SpawnOptions spawn{.path = program, .arguments = options_.command, .environment = environment_of(number)};
      spawn.group = guardian_;
      spawn.keep_signals = kept;
      if (number != 0 || !rank_0_reads) spawn.input = nothing_.get();
      FileDescriptor log;
      if (!options_.log_dir.empty()) {
        log = FileDescriptor(open(log_path(number).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666));
        if (!log) fail(ErrorCode::io, op, "cannot write {}: {}", log_path(number), error_text(errno));
        spawn.output = spawn.error_output = log.get();
      } else if (options_.ranks == 1) {
        spawn.output = options_.output;
        spawn.error_output = options_.error_output;
      } else {
        std::string prefix = number == 0 ? "" : fmt::format("[rank {}] ", number);
        if (number == 0 && isatty(options_.output) != 0) {
          spawn.output = options_.output;
        } else {
          rank.pipes.push_back(std::make_unique<RankPipe>(prefix, &output_, &rank.tail));
          spawn.output = rank.pipes.back()->write_end();
        }
        rank.pipes.push_back(std::make_unique<RankPipe>(prefix, &errors_, &rank.tail));
        spawn.error_output = rank.pipes.back()->write_end();
      }
      pid_t pid = spawn_process(spawn);
      for (auto& pipe : rank.pipes) pipe->close_write_end();
      if (pid < 0) fail_to_start(program, -pid);
      rank.pid = pid;
      rank.process = FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
      if (!rank.process) {
        int error = errno;
        kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
        fail(ErrorCode::unsupported, op, "cannot watch a process (pidfd_open, Linux 5.3 or later): {}",
             error_text(error));
      }
    }
  }

  [[noreturn]] void fail_to_start(const std::string& program, int error) {
    if (error == ENOENT || error == ENOTDIR) {
      start_error_code_ = 127;
      fail(ErrorCode::not_found, op, "cannot start {}: it, its interpreter (the #! line) or its loader is missing",
           program);
    }
    if (error == ENOEXEC || error == EACCES) start_error_code_ = 126;
    const char* hint = error == ENOEXEC ? "; a script needs a first line such as #!/bin/sh" : "";
    fail(ErrorCode::io, op, "cannot start {}: {}{}", program, error_text(error), hint);
  }

  std::vector<std::string> environment_of(int number) const {
    std::string rank = std::to_string(number);
    std::string size = std::to_string(options_.ranks);
    return environment_with({{"RANK", rank},
                             {"WORLD_SIZE", size},
                             {"LOCAL_RANK", rank},
                             {"LOCAL_WORLD_SIZE", size},
                             {"GROUP_RANK", "0"},
                             {"GROUP_WORLD_SIZE", "1"},
                             {"ROLE_RANK", rank},
                             {"ROLE_WORLD_SIZE", size},
                             {"ROLE_NAME", "default"},
                             {"MASTER_ADDR", options_.master_addr},
                             {"MASTER_PORT", std::to_string(store_.port())},
                             {"WEFT_STORE", "launcher"}});
  }

  std::string log_path(int number) const { return fmt::format("{}/rank_{}.log", options_.log_dir, number); }

  // Sends `signal` to everything of the job.
  void signal_job(int signal) const {
    auto send = [&](int which) {
      kill(-guardian_, which);
      for (const Rank& rank : ranks_) {  // a rank that moved to a group of its own is still a rank
        if (rank.running() && getpgid(rank.pid) != guardian_) kill(rank.pid, which);
      }
    };
    send(signal);
    if (signal != SIGKILL) send(SIGCONT);  // a stopped process sees no other signal before this one
  }

  void stop(int signal, int exit_code, std::string why) {
    if (stopping_) return;
    stopping_ = true;
    why_ = std::move(why);
    stopped_at_ = Clock::now();
    exit_code_ = exit_code;
    if (signal == SIGKILL) return kill_job();
    kill_deadline_ = stopped_at_ + options_.grace;
    signal_job(signal);
  }

  void kill_job() {
    if (killed_) return;
    killed_ = true;
    killed_at_ = Clock::now();
    signal_job(SIGKILL);
  }

  bool all_ended() const {
    return std::none_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.running(); });
  }

  // Whether ranks and all they have started are gone. Ranks that succeeded but left processes behind get those stopped.
  bool finished() {
    if (!all_ended()) return false;
    if (!group_has_members(guardian_)) return true;
    stop(SIGTERM, 0, "the ranks have ended but left processes behind");
    return killed_ && Clock::now() >= killed_at_ + kill_patience;
  }

  // Waits for whatever comes next and handles it.
  void step() {
    // Only what can report something: poll refuses more entries than the process may have descriptors, open or not.
    std::vector<pollfd> entries;
    std::vector<std::function<void()>> actions;
    auto watch = [&](int descriptor, short events, std::function<void()> action) {
      entries.push_back({descriptor, events, 0});
      actions.push_back(std::move(action));
    };
    std::vector<Rank*> ended;
    watch(signals_.descriptor(), POLLIN, [this] { handle_signals(); });
    for (OutputQueue* queue : {&output_, &errors_}) {
      if (!queue->empty()) watch(queue->descriptor(), POLLOUT, [queue] { queue->write_some(); });
    }
    for (Rank& rank : ranks_) {
      if (rank.running()) watch(rank.process.get(), POLLIN, [&ended, &rank] { ended.push_back(&rank); });
      for (const auto& pipe : rank.pipes) {
        if (pipe->wants_data()) watch(pipe->read_end(), POLLIN, [&pipe] { pipe->read_some(); });
      }
    }
    if (poll(entries.data(), entries.size(), poll_timeout()) > 0) {
      for (std::size_t i = 0; i < entries.size(); ++i) {
        if (entries[i].revents != 0) actions[i]();
      }
    }
    reap(ended);

    Clock::time_point now = Clock::now();
    if (!stopping_ && job_deadline_ && now >= *job_deadline_) {
      std::string why = fmt::format("the job ran longer than {:g} s (--timeout)", seconds(options_.timeout));
      last_words_ = fmt::format("weft launch: {} and was stopped\n", why);
      stop(SIGTERM, 124, why);
    }
    if (stopping_ && !noticed_ && !killed_ && now >= stopped_at_ + notice_delay) notice();
    if (stopping_ && !killed_ && now >= kill_deadline_) kill_job();
  }

  int poll_timeout() const {
    Clock::time_point next = Clock::time_point::max();
    Clock::time_point now = Clock::now();
    if (!stopping_ && job_deadline_) next = *job_deadline_;
    if (stopping_ && !killed_) next = noticed_ ? kill_deadline_ : std::min(kill_deadline_, stopped_at_ + notice_delay);
    if (all_ended()) next = std::min(next, now + leftover_poll);
    if (next == Clock::time_point::max()) return -1;
    return static_cast<int>(
        std::clamp<long long>(std::chrono::ceil<std::chrono::milliseconds>(next - now).count(), 0, 1 << 30));
  }

  void handle_signals() {
    while (int signal = signals_.next()) {
      if (signal == SIGTSTP) {
        pause_until_continued();
        continue;
      }
      bool again = stopping_ && stop_signal_ == signal && Clock::now() >= stopped_at_ + double_signal;
      if (again && (signal == SIGINT || signal == SIGQUIT)) kill_job();
      if (stopping_) continue;
      stop_signal_ = signal;
      stop(signal, 128 + signal, signal_name(signal) + " received");
    }
  }

  void pause_until_continued() const {
    kill(-guardian_, SIGSTOP);
    kill(guardian_, SIGCONT);  // that one stays awake: we may be killed while we sleep
    raise(SIGSTOP);
    signal_job(SIGCONT);
  }

  void reap(const std::vector<Rank*>& ended) {
    Rank* first = nullptr;
    for (Rank* rank : ended) {
      if (waitid(P_PID, static_cast<id_t>(rank->pid), &rank->end, WEXITED) != 0) {
        if (errno == EINTR) continue;  // still readable: the next step tries again
        rank->end.si_code = CLD_EXITED;
        rank->end.si_status = 1;
      }
      rank->process.reset();
      rank->failed_by_itself = !stopping_ && rank->exit_code() != 0;
      // Of several that ended together the one a signal killed is the likelier cause: the others miss it and give up.
      if (rank->failed_by_itself &&
          (first == nullptr || (first->end.si_code == CLD_EXITED && rank->end.si_code != CLD_EXITED)))
        first = rank;
    }
    if (first == nullptr || stopping_) return;
    failed_ = first;
    stop(SIGTERM, first->exit_code(), describe(*first));
  }

  std::string describe(const Rank& rank) const {
    return fmt::format("rank {} of {} (pid {}) {}", rank.number, options_.ranks, rank.pid, rank.how_it_ended());
  }

  // Says why it still waits.
  void notice() {
    noticed_ = true;
    std::string running;
    for (const Rank& rank : ranks_) {
      if (rank.running()) running += fmt::format("{}{}", running.empty() ? "" : ", ", rank.number);
    }
    errors_.push(fmt::format("weft launch: {}; waiting up to {:g} s for {} to end\n", why_, seconds(options_.grace),
                             running.empty() ? "them" : "rank " + running));
  }

  // What is printed last.
  void summarise() {
    for (Rank& rank : ranks_) {
      for (auto& pipe : rank.pipes) pipe->finish();
    }
    if (failed_ != nullptr) {
      std::string others;
      for (const Rank& rank : ranks_) {
        if (rank.failed_by_itself && &rank != failed_) others += fmt::format("weft launch: {} too\n", describe(rank));
      }
      Tail tail = options_.log_dir.empty() ? failed_->tail : Tail::of_file(log_path(failed_->number));
      last_words_ += others + "weft launch: " + describe(*failed_);
      if (options_.ranks > 1) last_words_ += "; the other ranks were stopped";
      if (!options_.log_dir.empty()) last_words_ += fmt::format(" (log: {})", log_path(failed_->number));
      last_words_ += tail.lines().empty() ? "\n" : ". Its last lines:\n";
      for (const std::string& line : tail.lines())
        last_words_ += fmt::format("  [rank {}] {}\n", failed_->number, line);
    } else if (stop_signal_ != 0) {
      last_words_ += fmt::format("weft launch: stopped by {}{}\n", signal_name(stop_signal_),
                                 killed_ ? "; not all ranks ended in time, the rest was killed" : "");
    }
    errors_.push(last_words_);
  }

  // Writes what is left, unless the user has seen enough.
  void drain() {
    while (!output_.empty() || !errors_.empty()) {
      // Standard output first, so that the last words come last.
      OutputQueue& queue = output_.empty() ? errors_ : output_;
      pollfd entries[] = {{signals_.descriptor(), POLLIN, 0}, {queue.descriptor(), POLLOUT, 0}};
      poll(entries, 2, -1);
      if (entries[0].revents != 0) {
        int signal = signals_.next();
        if (signal != 0 && signal != SIGTSTP) return;
      }
      if (entries[1].revents != 0) queue.write_some();
    }
  }

  const LaunchOptions& options_;
  StoreServer store_;
  SignalScope signals_;
  OutputQueue output_;
  OutputQueue errors_;
  std::vector<Rank> ranks_;
  pid_t guardian_ = -1;
  FileDescriptor guardian_pipe_;  // its closing is what the guardian waits for
  FileDescriptor nothing_;        // /dev/null

  bool stopping_ = false;
  bool killed_ = false;
  bool noticed_ = false;
  Clock::time_point stopped_at_;
  Clock::time_point kill_deadline_;
  Clock::time_point killed_at_;
  std::optional<Clock::time_point> job_deadline_;
  int exit_code_ = 0;
  int start_error_code_ = 1;
  int stop_signal_ = 0;
  std::string why_;               // it is being stopped
  const Rank* failed_ = nullptr;  // the rank whose failure stopped the job
  std::string last_words_;
};

}  // namespace

int launch(const LaunchOptions& options) {
  WEFT_CHECK(options.ranks >= 1, op, "expected at least 1 rank (-n), got {}", options.ranks);
  WEFT_CHECK(!options.command.empty(), op,
             "no program to start; write it behind the options: weft launch -n 2 -- ./train");
  WEFT_CHECK(!options.master_addr.empty(), op, "expected an address of this host (--master-addr), got none");
  WEFT_CHECK(options.grace.count() >= 0 && options.timeout.count() >= 0, op,
             "--grace and --timeout must not be negative");
  std::string program;
  try {
    program = resolve_program(options.command.front());
  } catch (const Error& error) {
    std::string line = fmt::format("{}\n", error.what());
    while (write(options.error_output, line.data(), line.size()) < 0 && errno == EINTR) {
    }
    return error.code() == ErrorCode::not_found ? 127 : 126;
  }
  if (!options.log_dir.empty() && mkdir(options.log_dir.c_str(), 0777) != 0 && errno != EEXIST)
    fail(ErrorCode::io, op, "cannot make the folder {} (--log-dir): {}", options.log_dir, error_text(errno));
  Job job(options);
  return job.run(program);
}

}  // namespace weft
