// The server behind TcpStore: one thread and one poll loop over all connections.
//
//   StoreServer server({.host = "127.0.0.1", .port = 0});       // 0: any free port
//   TcpStore store("127.0.0.1", server.port());
//
// `weft launch` runs one for its job; without a launcher rank 0 does. Wire format: store_protocol.h. Whatever arrives from
// strangers, junk or half a message, costs them their connection and nobody else anything.
#pragma once
#include <chrono>
#include <memory>
#include <string>

namespace weft {

class StoreServer {
 public:
  struct Options {
    std::string host = "127.0.0.1";  // "" serves on every interface
    int port = 0;
    std::string port_option = {};  // the option or variable that sets the port, for the error text
    std::chrono::milliseconds hello_timeout = std::chrono::seconds(10);  // see store_protocol.h
  };

  // Listens and starts the thread. Throws io: a port that is taken (names port and port_option), a host that is not ours.
  explicit StoreServer(const Options& options);
  // Closes port and connections, joins the thread. Clients still waiting get peer_lost.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  int port() const;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace weft
