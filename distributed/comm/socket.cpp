#include "distributed/comm/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>

#include "kernels/base/error.h"

namespace weft {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// The addresses of `host`; empty, with `reason` set, when it has none.
AddressList resolve(const std::string& host, int port, int flags, std::string& reason) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  int error = getaddrinfo(host.empty() ? nullptr : host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (error != 0) {
    list = nullptr;
    reason = fmt::format("host \"{}\": {}", host, error == EAI_SYSTEM ? error_text(errno) : gai_strerror(error));
  }
  return {list, freeaddrinfo};
}

}  // namespace

void FileDescriptor::reset() {
  if (descriptor_ >= 0) close(descriptor_);
  descriptor_ = -1;
}

std::string error_text(int error) { return std::generic_category().message(error); }

FileDescriptor listen_tcp(const ListenOptions& options) {
  WEFT_CHECK(options.port >= 0 && options.port <= 65535, options.op, "expected a port from 0 to 65535, got {}",
             options.port);
  std::string reason;
  AddressList addresses = resolve(options.host, options.port, AI_PASSIVE, reason);
  if (!addresses) fail(ErrorCode::io, options.op, "cannot listen: {}", reason);

  int error = 0;
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
    FileDescriptor socket(::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) {
      error = errno;
      continue;
    }
    // Without it a port is refused for a minute after the last job that used it, although nobody listens there.
    int yes = 1;
    setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(socket.get(), address->ai_addr, address->ai_addrlen) == 0 && listen(socket.get(), SOMAXCONN) == 0)
      return socket;
    error = errno;
    if (error == EADDRINUSE) break;  // another address of the same host would only hide it
  }
  std::string where = fmt::format("port {} of {}", options.port, options.host.empty() ? "this host" : options.host);
  std::string hint = options.port_option.empty() ? "" : fmt::format("; choose another with {}", options.port_option);
  if (error == EADDRINUSE) fail(ErrorCode::io, options.op, "{} is taken by another program{}", where, hint);
  if (error == EADDRNOTAVAIL)
    fail(ErrorCode::io, options.op, "cannot listen on {}: that is no address of this host", where);
  fail(ErrorCode::io, options.op, "cannot listen on {}: {}{}", where, error_text(error), hint);
}

int bound_port(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    fail(ErrorCode::io, "socket", "cannot read the port: {}", error_text(errno));
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

bool wait_ready(int socket, short events, std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    pollfd entry{socket, events, 0};
    int count = poll(&entry, 1, static_cast<int>(std::clamp<long long>(left, 0, 1 << 30)));
    if (count > 0) return true;
    if (count < 0 && errno != EINTR) fail(ErrorCode::io, "socket", "poll: {}", error_text(errno));
    if (count == 0 && left <= 0) return false;
  }
}

FileDescriptor try_connect_tcp(const std::string& host, int port, std::chrono::steady_clock::time_point deadline,
                               std::string& reason) {
  AddressList addresses = resolve(host, port, 0, reason);
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
    FileDescriptor socket(::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) {
      reason = error_text(errno);
      continue;
    }
    int error = connect(socket.get(), address->ai_addr, address->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS || error == EINTR) {
      if (!wait_ready(socket.get(), POLLOUT, deadline)) {
        reason = "no answer";
        return {};
      }
      socklen_t length = sizeof error;
      if (getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
    }
    if (error == 0) {
      int yes = 1;
      setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
      return socket;
    }
    reason = error_text(error);
  }
  return {};
}

}  // namespace weft
