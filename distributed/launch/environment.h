// Which rank this process is, as the launcher says in the environment.
//
//   auto environment = LaunchEnvironment::from_environment();      // rank 0 of 1 when there is no launcher
//   auto store = connect_store(environment);
//   fmt::print("rank {} of {}\n", environment.rank, environment.world_size);
//
// The variables are those of torchrun: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT. With them
// `weft launch` sets WEFT_STORE=launcher: then the launcher itself serves the store on MASTER_PORT, so that a free port once
// found is never given up again. Without it rank 0 serves.
#pragma once
#include <memory>
#include <string>

#include "distributed/comm/store.h"

namespace weft {

struct LaunchEnvironment {
  int rank = 0;  // of world_size
  int world_size = 1;
  int local_rank = 0;        // among the ranks on this host
  int local_world_size = 1;  // how many ranks this host has; decides how many threads each takes
  std::string master_addr = "127.0.0.1";
  int master_port = 0;  // 0: none, a world of 1 needs no store on the network
  bool store_is_hosted_by_launcher = false;

  // Reads the variables. RANK and WORLD_SIZE come together or not at all (a world of 1). LOCAL_RANK and LOCAL_WORLD_SIZE
  // default to RANK and WORLD_SIZE, which is right on one host. Throws invalid_argument that names the variable and its value.
  static LaunchEnvironment from_environment();
};

// The store of this job: a TcpStore to the launcher's or to rank 0's server (which rank 0 starts and keeps as long as its
// store lives), for a world of 1 a HashStore. `timeout` bounds the connecting and is the store's default timeout.
std::shared_ptr<Store> connect_store(const LaunchEnvironment& environment,
                                     Store::Milliseconds timeout = Store::default_timeout);

}  // namespace weft
