// A rank for the launcher's tests, small but real: it reads its environment and meets the others through the job's store.
//
//   rank_program meet          all ranks exchange their ports; prints "port P" when everybody has the same one
//   rank_program chatter N     prints N lines on each stream, every line in several writes
//   rank_program throw         rank 1 ends by a weft::Error, the others wait for it
#include <unistd.h>

#include <cstdio>
#include <string>

#include "distributed/launch/environment.h"
#include "kernels/base/error.h"

namespace {

void meet(const weft::LaunchEnvironment& environment) {
  auto store = weft::connect_store(environment, std::chrono::seconds(60));
  store->set(fmt::format("port/{}", environment.rank), std::to_string(environment.master_port));
  for (int rank = 0; rank < environment.world_size; ++rank) {
    std::string port = store->get(fmt::format("port/{}", rank));
    if (port != std::to_string(environment.master_port))
      weft::fail(weft::ErrorCode::mismatch, "meet", "rank {} has port {}, I have {}", rank, port,
                 environment.master_port);
  }
  // Nobody leaves before all have read: without a launcher rank 0 serves the store.
  store->add("done", 1);
  while (environment.rank == 0 && store->get("done") != std::to_string(environment.world_size)) usleep(1000);
  fmt::print("port {}\n", environment.master_port);
}

void chatter(int rank, int lines) {
  for (int line = 0; line < lines; ++line) {
    for (int descriptor : {STDOUT_FILENO, STDERR_FILENO}) {
      std::string text =
          fmt::format("<{} {} {} {}>\n", rank, descriptor, line, std::string(100, static_cast<char>('a' + rank)));
      std::size_t middle = text.size() / 2;
      if (write(descriptor, text.data(), middle) < 0 ||
          write(descriptor, text.data() + middle, text.size() - middle) < 0)
        return;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  try {
    auto environment = weft::LaunchEnvironment::from_environment();
    if (what == "meet") {
      meet(environment);
    } else if (what == "chatter") {
      chatter(environment.rank, std::stoi(argv[2]));
    } else if (what == "throw") {
      auto store = weft::connect_store(environment, std::chrono::seconds(60));
      if (environment.rank == 1) weft::fail(weft::ErrorCode::invalid_argument, "matmul", "inner dimensions differ");
      store->get("never set");
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
