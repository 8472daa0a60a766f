// Starts one program as many ranks on this host and looks after them until the last one has ended.
//
//   int code = launch({.ranks = 2, .command = {"./gpt", "train", "--steps", "900"}});       // `weft launch` is this
//
// Each rank finds in its environment RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT (and GROUP_RANK,
// GROUP_WORLD_SIZE, ROLE_RANK, ROLE_WORLD_SIZE, ROLE_NAME), as torchrun sets them. The launcher itself listens on MASTER_PORT
// and serves the job's store there (WEFT_STORE=launcher): a port it finds free stays its own, so two launches never collide.
//
// One job is one process group, all that ranks start included, so nothing of it is left behind and nothing else is ever
// touched. The group's leader is a small guardian that outlives even a launcher ended by kill -9: it then kills the group.
// (A program that moves itself to another group, as a daemon does, has left the job.)
//
//   a rank fails            SIGTERM to the others, SIGKILL after `grace`; its number, how it ended and its last lines are the
//                           last thing printed; the exit code is the rank's, 128 + signal when a signal ended it
//   SIGINT, SIGTERM, …      passed on to the job, SIGKILL after `grace` (SIGINT again: at once); exit code 128 + signal
//   Ctrl-Z                  stops and continues the whole job
//   the time is over        as a failure; exit code 124
//   the program is missing  one line and exit code 127, or 126 when it cannot be executed; nothing is left running
//
// Output: with one rank it goes straight through. With more, rank 0's standard output goes straight to a terminal (its
// progress bar works there); everything else comes through the launcher in whole lines, those of ranks other than 0 marked
// "[rank 1] ". With `log_dir` each rank writes to <log_dir>/rank_<k>.log instead. Standard input: rank 0's, unless it is a
// terminal (a job in the background cannot read one); the others read nothing.
#pragma once
#include <chrono>
#include <string>
#include <vector>

namespace weft {

struct LaunchOptions {
  int ranks = 1;
  std::string master_addr = "127.0.0.1";
  int master_port = 0;  // 0: a free one
  std::chrono::milliseconds grace = std::chrono::seconds(30);
  std::chrono::milliseconds timeout{0};  // for the whole job; 0: none
  std::string log_dir = {};
  std::vector<std::string> command = {};  // the program and its arguments
  int output = 1;                         // descriptors the ranks' output and the launcher's own messages go to
  int error_output = 2;
};

// Runs the job and returns the exit code for the launching process. Call it from the main thread: for its duration it takes
// over SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGTSTP (those that are not ignored). Throws weft::Error before anything is started:
// invalid_argument (an option), io (the port is taken, names it and --master-port; the log folder).
int launch(const LaunchOptions& options);

}  // namespace weft
