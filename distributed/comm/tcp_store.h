// A Store on the network: the client of a StoreServer.
//
//   TcpStore store(environment.master_addr, environment.master_port);
//   store.set("ready/3", "");
//
// A program seldom makes one itself: connect_store (distributed/launch/environment.h) picks the right kind.
#pragma once
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "distributed/comm/socket.h"
#include "distributed/comm/store.h"

namespace weft {

class TcpStore final : public Store {
 public:
  using Store::get;
  using Store::wait;

  // Connects, trying again until `timeout` has passed, since the server may start later than we do. Throws timeout (names
  // address and last reason), invalid_argument when something else than a store listens there.
  TcpStore(std::string host, int port, Milliseconds timeout = default_timeout);

  void set(const std::string& key, std::string_view value) override;
  std::string get(const std::string& key, Milliseconds timeout) override;
  std::int64_t add(const std::string& key, std::int64_t amount) override;
  void wait(const std::vector<std::string>& keys, Milliseconds timeout) override;
  bool check(const std::vector<std::string>& keys) override;
  bool delete_key(const std::string& key) override;

 private:
  FileDescriptor connect() const;
  // One request, one reply: the reply's payload, status byte included. `patience` is how long the server may take.
  std::string exchange(std::string_view op, const std::string& frame, Milliseconds patience);

  std::string host_;
  int port_;
  // Connections not in use. A call takes one or opens another, so that a thread blocked in get delays no other thread.
  std::mutex mutex_;
  std::vector<FileDescriptor> idle_;
};

}  // namespace weft
