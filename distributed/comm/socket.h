// The few things the store needs from sockets: an owned file descriptor, listening, connecting with a deadline.
//
//   FileDescriptor listener = listen_tcp({.host = "127.0.0.1", .port = 0, .op = "store"});
//   int port = bound_port(listener.get());
//
// Every descriptor made here is closed on exec, so that no program started later holds a port or a connection open.
#pragma once
#include <chrono>
#include <string>
#include <utility>

namespace weft {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  FileDescriptor(FileDescriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      reset();
      descriptor_ = std::exchange(other.descriptor_, -1);
    }
    return *this;
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() { reset(); }

  int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }
  void reset();  // closes it

 private:
  int descriptor_ = -1;
};

struct ListenOptions {
  std::string host = "127.0.0.1";  // a name or an IPv4 or IPv6 address of this host; "" listens on every interface
  int port = 0;                    // 0 lets the system pick a free one
  std::string op = "listen";       // who asks, for the error text
  std::string port_option;         // the option or variable that sets the port, for the error text
};

// A non-blocking listening socket. Throws io: a port that is taken (names it and port_option), a host that is not ours.
FileDescriptor listen_tcp(const ListenOptions& options);

// The port `socket` is bound to.
int bound_port(int socket);

// One attempt to connect, non-blocking socket, no delay for small messages. Returns an empty descriptor and says why in
// `reason` when nobody answers before `deadline`; the caller decides whether to try again.
FileDescriptor try_connect_tcp(const std::string& host, int port, std::chrono::steady_clock::time_point deadline,
                               std::string& reason);

// Waits for `events` (POLLIN, POLLOUT) on `socket`; false when `deadline` passed first.
bool wait_ready(int socket, short events, std::chrono::steady_clock::time_point deadline);

// The text of errno value `error`, thread-safe.
std::string error_text(int error);

}  // namespace weft
