#include "distributed/launch/environment.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "distributed/comm/store_server.h"
#include "distributed/comm/tcp_store.h"
#include "kernels/base/error.h"

namespace weft {
namespace {

constexpr const char* op = "launch environment";

// The whole number in variable `name`; nothing when it is unset.
std::optional<int> integer_variable(const char* name, int least, int most) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  int value = 0;
  const char* end = text + std::strlen(text);
  auto [stop, error] = std::from_chars(text, end, value);
  WEFT_CHECK(error == std::errc() && stop == end && text != end && value >= least && value <= most, op,
             "expected {} to be a whole number from {} to {}, got \"{}\"", name, least, most, text);
  return value;
}

// A store that keeps the server it talks to: rank 0's, when no launcher serves. The server goes last.
struct ServerAndStore {
  ServerAndStore(const StoreServer::Options& options, Store::Milliseconds timeout)
      : server(options), store(options.host, server.port(), timeout) {}
  StoreServer server;
  TcpStore store;
};

}  // namespace

LaunchEnvironment LaunchEnvironment::from_environment() {
  constexpr int most = std::numeric_limits<int>::max();
  LaunchEnvironment result;
  auto world_size = integer_variable("WORLD_SIZE", 1, most);
  auto rank = integer_variable("RANK", 0, most);
  WEFT_CHECK(world_size.has_value() == rank.has_value(), op, "{} is set but {} is not; a launcher sets both",
             world_size ? "WORLD_SIZE" : "RANK", world_size ? "RANK" : "WORLD_SIZE");
  if (!world_size) return result;

  result.rank = *rank;
  result.world_size = *world_size;
  WEFT_CHECK(result.rank < result.world_size, op, "expected RANK below WORLD_SIZE, got RANK={} WORLD_SIZE={}",
             result.rank, result.world_size);
  result.local_world_size = integer_variable("LOCAL_WORLD_SIZE", 1, result.world_size).value_or(result.world_size);
  auto local_rank = integer_variable("LOCAL_RANK", 0, most);
  WEFT_CHECK(local_rank || result.local_world_size == result.world_size, op,
             "LOCAL_WORLD_SIZE is set but LOCAL_RANK is not; a launcher sets both");
  result.local_rank = local_rank.value_or(result.rank);
  WEFT_CHECK(result.local_rank < result.local_world_size, op,
             "expected LOCAL_RANK below LOCAL_WORLD_SIZE, got LOCAL_RANK={} LOCAL_WORLD_SIZE={}", result.local_rank,
             result.local_world_size);

  const char* address = std::getenv("MASTER_ADDR");
  auto port = integer_variable("MASTER_PORT", 1, 65535);
  if (result.world_size > 1) {
    WEFT_CHECK(address != nullptr && *address != '\0', op, "WORLD_SIZE is {} but MASTER_ADDR is not set",
               result.world_size);
    WEFT_CHECK(port.has_value(), op, "WORLD_SIZE is {} but MASTER_PORT is not set", result.world_size);
  }
  if (address != nullptr && *address != '\0') result.master_addr = address;
  result.master_port = port.value_or(0);

  if (const char* host = std::getenv("WEFT_STORE")) {
    WEFT_CHECK(std::strcmp(host, "launcher") == 0 || std::strcmp(host, "rank0") == 0, op,
               "expected WEFT_STORE to be launcher or rank0, got \"{}\"", host);
    result.store_is_hosted_by_launcher = std::strcmp(host, "launcher") == 0;
  }
  return result;
}

std::shared_ptr<Store> connect_store(const LaunchEnvironment& environment, Store::Milliseconds timeout) {
  if (environment.world_size == 1) return std::make_shared<HashStore>(timeout);
  if (environment.rank != 0 || environment.store_is_hosted_by_launcher)
    return std::make_shared<TcpStore>(environment.master_addr, environment.master_port, timeout);
  auto both = std::make_shared<ServerAndStore>(
      StoreServer::Options{environment.master_addr, environment.master_port, "MASTER_PORT"}, timeout);
  return std::shared_ptr<Store>(both, &both->store);
}

}  // namespace weft
