#include "distributed/comm/backends/shm/peers.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace weft::comm {
namespace {

constexpr std::string_view kOp = "process_group";

struct Header {
  uint64_t tag;
  int32_t code;
  char reason[468];
};

// The address of an abstract socket: a zero byte, then any bytes.
struct Address {
  sockaddr_un value{};
  socklen_t length = 0;
  explicit Address(const std::string& name) {
    value.sun_family = AF_UNIX;
    std::memcpy(value.sun_path + 1, name.data(), std::min(name.size(), sizeof(value.sun_path) - 1));
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&value); }
};

std::string random_name() {
  uint64_t words[2];
  if (getrandom(words, sizeof(words), 0) != static_cast<ssize_t>(sizeof(words)))
    fail(ErrorCode::io, kOp, "cannot get random bytes: {}", error_text(errno));
  return fmt::format("weft-{:016x}{:016x}", words[0], words[1]);
}

// Tells hosts (and restarts of one) apart.
std::string host_identity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string identity;
  file >> identity;
  return identity;
}

FileDescriptor make_socket() {
  FileDescriptor result(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!result) fail(ErrorCode::io, kOp, "cannot make a Unix socket: {}", error_text(errno));
  return result;
}

void set_nonblocking(int socket) { fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK); }

bool same_user(int socket) {
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0 && credentials.uid == geteuid();
}

}  // namespace

Peers::Peers(Store& store, int rank, int size, std::chrono::milliseconds timeout)
    : rank_(rank), size_(size), sockets_(static_cast<size_t>(size)), letterboxes_(static_cast<size_t>(size)) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const std::string name = random_name();
  const FileDescriptor listener = make_socket();
  const Address address(name);
  if (bind(listener.get(), address.get(), address.length) != 0 || listen(listener.get(), size) != 0)
    fail(ErrorCode::io, kOp, "cannot listen on a Unix socket: {}", error_text(errno));
  const std::string host = host_identity();
  store.set(fmt::format("shm/{}", rank), name + " " + host);

  for (int other = 0; other < rank; ++other) {
    const std::string entry = store.get(fmt::format("shm/{}", other), timeout);
    const size_t space = entry.find(' ');
    if (space == std::string::npos || entry.substr(space + 1) != host) {
      fail(ErrorCode::unsupported, kOp,
           "rank {} runs on another host than rank {}; the shm backend joins processes of one host only", other, rank);
    }
    FileDescriptor socket = make_socket();
    const Address theirs(entry.substr(0, space));
    const int32_t self = rank;
    if (connect(socket.get(), theirs.get(), theirs.length) != 0 || !same_user(socket.get()) ||
        send(socket.get(), &self, sizeof(self), MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof(self)))
      fail(ErrorCode::peer_lost, kOp, "rank {} cannot reach rank {}: {}", rank, other, error_text(errno));
    set_nonblocking(socket.get());
    sockets_[static_cast<size_t>(other)] = std::move(socket);
  }
  for (int missing = size - rank - 1; missing > 0;) {
    if (!wait_ready(listener.get(), POLLIN, deadline)) {
      std::string late;
      for (int other = rank + 1; other < size; ++other)
        if (!sockets_[static_cast<size_t>(other)]) late += fmt::format("{}{}", late.empty() ? "" : ", ", other);
      fail(ErrorCode::timeout, kOp, "rank {} of {}: rank {} did not join within {:.1f} s", rank, size, late,
           static_cast<double>(timeout.count()) / 1000);
    }
    FileDescriptor socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    int32_t other = -1;
    // A stranger, or somebody who says nothing: not a rank of ours.
    if (!socket || !same_user(socket.get()) || !wait_ready(socket.get(), POLLIN, deadline)) continue;
    if (recv(socket.get(), &other, sizeof(other), 0) != static_cast<ssize_t>(sizeof(other))) continue;
    if (other <= rank || other >= size || sockets_[static_cast<size_t>(other)]) continue;
    sockets_[static_cast<size_t>(other)] = std::move(socket);
    --missing;
  }
}

bool Peers::lost(int rank) const {
  if (rank == rank_) return false;
  pollfd entry{.fd = sockets_[static_cast<size_t>(rank)].get(), .events = POLLRDHUP, .revents = 0};
  return poll(&entry, 1, 0) == 1 && (entry.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

void Peers::send_file(int to, uint64_t tag, int file, ErrorCode code, const std::string& reason) {
  Header header{};
  header.tag = tag;
  header.code = static_cast<int32_t>(code);
  std::memcpy(header.reason, reason.data(), std::min(reason.size(), sizeof(header.reason) - 1));
  iovec data{.iov_base = &header, .iov_len = sizeof(header)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (file >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(part), &file, sizeof(int));
  }
  const int socket = sockets_[static_cast<size_t>(to)].get();
  while (sendmsg(socket, &message, MSG_NOSIGNAL) < 0) {
    if (errno == EINTR) continue;
    if (errno == EAGAIN && wait_ready(socket, POLLOUT, std::chrono::steady_clock::now() + std::chrono::seconds(30)))
      continue;
    fail(ErrorCode::peer_lost, kOp, "rank {} cannot send to rank {}: {}", rank_, to, error_text(errno));
  }
}

bool Peers::collect(int from) {
  while (true) {
    Header header{};
    iovec data{.iov_base = &header, .iov_len = sizeof(header)};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t length = recvmsg(sockets_[static_cast<size_t>(from)].get(), &message, MSG_CMSG_CLOEXEC);
    if (length < 0 && errno == EINTR) continue;
    if (length < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    if (length == 0) return false;
    Message& letter = letterboxes_[static_cast<size_t>(from)][header.tag];
    for (cmsghdr* part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part)) {
      if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
      int file = -1;
      std::memcpy(&file, CMSG_DATA(part), sizeof(int));
      letter.file = FileDescriptor(file);
    }
    letter.code = static_cast<ErrorCode>(header.code);
    header.reason[sizeof(header.reason) - 1] = 0;
    letter.reason = header.reason;
  }
}

FileDescriptor Peers::receive_file(int from, uint64_t tag, std::chrono::milliseconds timeout) {
  using namespace std::chrono_literals;
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (true) {
    bool open = true;
    {
      const std::lock_guard lock(mutex_);
      open = collect(from);
      auto& letters = letterboxes_[static_cast<size_t>(from)];
      const auto found = letters.find(tag);
      if (found != letters.end()) {
        Message message = std::move(found->second);
        letters.erase(found);
        if (message.file) return std::move(message.file);
        fail(message.code, kOp, "rank {} says: {}", from, message.reason);
      }
    }
    if (!open) fail(ErrorCode::peer_lost, kOp, "rank {} has gone while rank {} waited for shared memory", from, rank_);
    const auto now = std::chrono::steady_clock::now();
    if (now >= deadline)
      fail(ErrorCode::timeout, kOp, "rank {} did not share its memory within {} ms", from, timeout.count());
    // In short turns: another thread of ours may take the message off the socket and put it into the letterbox.
    wait_ready(sockets_[static_cast<size_t>(from)].get(), POLLIN, std::min(deadline, now + 20ms));
  }
}

}  // namespace weft::comm
