#include "distributed/comm/tcp_store.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include "distributed/comm/store_protocol.h"
#include "kernels/base/error.h"

namespace weft {
namespace {

namespace protocol = store_protocol;
using Clock = std::chrono::steady_clock;
using protocol::Operation;

// How long a server that runs may take beyond the timeout it was given, before it counts as stuck.
constexpr auto server_slack = std::chrono::seconds(10);
// The two ends of a back-off between attempts to connect.
constexpr auto first_pause = std::chrono::milliseconds(5);
constexpr auto last_pause = std::chrono::milliseconds(200);

enum class Transfer { done, closed, late };

Transfer send_all(int socket, std::string_view bytes, Clock::time_point deadline) {
  while (!bytes.empty()) {
    ssize_t count = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_ready(socket, POLLOUT, deadline)) return Transfer::late;
    } else if (errno != EINTR) {
      return Transfer::closed;
    }
  }
  return Transfer::done;
}

Transfer receive_all(int socket, char* bytes, std::size_t size, Clock::time_point deadline) {
  while (size > 0) {
    ssize_t count = recv(socket, bytes, size, 0);
    if (count > 0) {
      bytes += count;
      size -= static_cast<std::size_t>(count);
    } else if (count == 0) {
      return Transfer::closed;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_ready(socket, POLLIN, deadline)) return Transfer::late;
    } else if (errno != EINTR) {
      return Transfer::closed;
    }
  }
  return Transfer::done;
}

double seconds(Store::Milliseconds time) { return static_cast<double>(time.count()) / 1000.0; }

// Milliseconds as the protocol has them.
std::uint64_t wire(Store::Milliseconds timeout) { return static_cast<std::uint64_t>(timeout.count()); }

}  // namespace

TcpStore::TcpStore(std::string host, int port, Milliseconds timeout)
    : Store(timeout), host_(std::move(host)), port_(port) {
  WEFT_CHECK(port_ >= 1 && port_ <= 65535, "store", "expected the port of a store, 1 to 65535, got {}", port_);
  idle_.push_back(connect());
}

FileDescriptor TcpStore::connect() const {
  const auto deadline = store_detail::deadline_after(timeout());
  std::string reason;
  Milliseconds pause = first_pause;
  for (;;) {
    FileDescriptor socket = try_connect_tcp(host_, port_, deadline, reason);
    if (socket) {
      std::string hello(protocol::server_hello.size(), '\0');
      Transfer transfer = send_all(socket.get(), protocol::client_hello, deadline);
      if (transfer == Transfer::done) transfer = receive_all(socket.get(), hello.data(), hello.size(), deadline);
      if (transfer == Transfer::done && hello == protocol::server_hello) return socket;
      // Our own hello back means the socket met itself: loopback does that when nobody listens on the port yet.
      WEFT_CHECK(transfer != Transfer::done || hello == protocol::client_hello, "store",
                 "what listens at {}:{} is not a Weft store", host_, port_);
      reason = transfer == Transfer::late     ? "it accepts connections but does not answer"
               : transfer == Transfer::closed ? "it closed the connection"
                                              : "nobody listens there";
    }
    if (Clock::now() + pause >= deadline) break;
    std::this_thread::sleep_for(pause);
    pause = std::min<Milliseconds>(2 * pause, last_pause);
  }
  fail(ErrorCode::timeout, "store", "cannot reach the store at {}:{} within {:g} s: {}", host_, port_,
       seconds(timeout()), reason);
}

std::string TcpStore::exchange(std::string_view op, const std::string& frame, Milliseconds patience) {
  WEFT_CHECK(frame.size() - protocol::header_bytes <= protocol::max_frame_bytes, op,
             "the request is too long: {} bytes, at most {} fit; ask for fewer keys at once", frame.size(),
             protocol::max_frame_bytes);
  FileDescriptor socket;
  {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      socket = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (!socket) socket = connect();

  const auto deadline =
      store_detail::deadline_after(std::min(patience, Milliseconds::max() - server_slack) + server_slack);
  std::string reply(protocol::header_bytes, '\0');
  Transfer transfer = send_all(socket.get(), frame, deadline);
  if (transfer == Transfer::done) transfer = receive_all(socket.get(), reply.data(), reply.size(), deadline);
  if (transfer == Transfer::done) {
    std::size_t length = protocol::announced_length(reply);
    if (length == 0 || length > protocol::max_frame_bytes)
      fail(ErrorCode::corrupt_data, op, "the store at {}:{} answers with a frame of {} bytes", host_, port_, length);
    reply.resize(length);
    transfer = receive_all(socket.get(), reply.data(), length, deadline);
  }
  // On every failure the connection is closed, not kept: a late answer must not be taken for the next one's.
  if (transfer == Transfer::closed)
    fail(ErrorCode::peer_lost, op, "the store at {}:{} has gone; the launcher or rank 0, which serves it, has ended",
         host_, port_);
  if (transfer == Transfer::late)
    fail(ErrorCode::timeout, op,
         "the store at {}:{} does not answer; its process is stopped or its host cannot be reached", host_, port_);

  {
    std::lock_guard lock(mutex_);
    idle_.push_back(std::move(socket));
  }
  protocol::Reader reader(reply);
  if (static_cast<protocol::Status>(reader.u8()) == protocol::Status::refused)
    throw Error(ErrorCode::invalid_argument, op, reader.text());
  return reply;
}

namespace {
// The payload after an ok; turns the server's timeout into the error everybody knows.
protocol::Reader result(const std::string& reply, std::string_view op, Store::Milliseconds timeout,
                        const std::string& host, int port) {
  protocol::Reader reader(reply);
  if (static_cast<protocol::Status>(reader.u8()) == protocol::Status::timeout)
    store_detail::fail_timeout(op, std::string(reader.text()), timeout, fmt::format(" at {}:{}", host, port));
  return reader;
}

protocol::Writer& write_keys(protocol::Writer& writer, const std::vector<std::string>& keys) {
  writer.u32(static_cast<std::uint32_t>(keys.size()));
  for (const auto& key : keys) {
    StoreTable::check_key(key);
    writer.text(key);
  }
  return writer;
}
}  // namespace

void TcpStore::set(const std::string& key, std::string_view value) {
  StoreTable::check_key(key);
  StoreTable::check_value(value);
  exchange("store.set", protocol::Writer(Operation::set).text(key).text(value).take(), Milliseconds(0));
}

std::string TcpStore::get(const std::string& key, Milliseconds timeout) {
  StoreTable::check_key(key);
  store_detail::check_timeout("store.get", timeout);
  std::string reply =
      exchange("store.get", protocol::Writer(Operation::get).u64(wire(timeout)).text(key).take(), timeout);
  return std::string(result(reply, "store.get", timeout, host_, port_).text());
}

std::int64_t TcpStore::add(const std::string& key, std::int64_t amount) {
  StoreTable::check_key(key);
  std::string frame = protocol::Writer(Operation::add).text(key).u64(static_cast<std::uint64_t>(amount)).take();
  std::string reply = exchange("store.add", frame, Milliseconds(0));
  return static_cast<std::int64_t>(result(reply, "store.add", Milliseconds(0), host_, port_).u64());
}

void TcpStore::wait(const std::vector<std::string>& keys, Milliseconds timeout) {
  store_detail::check_timeout("store.wait", timeout);
  protocol::Writer writer(Operation::wait);
  std::string reply = exchange("store.wait", write_keys(writer.u64(wire(timeout)), keys).take(), timeout);
  result(reply, "store.wait", timeout, host_, port_);
}

bool TcpStore::check(const std::vector<std::string>& keys) {
  protocol::Writer writer(Operation::check);
  std::string reply = exchange("store.check", write_keys(writer, keys).take(), Milliseconds(0));
  return result(reply, "store.check", Milliseconds(0), host_, port_).u8() != 0;
}

bool TcpStore::delete_key(const std::string& key) {
  StoreTable::check_key(key);
  std::string reply = exchange("store.delete", protocol::Writer(Operation::erase).text(key).take(), Milliseconds(0));
  return result(reply, "store.delete", Milliseconds(0), host_, port_).u8() != 0;
}

}  // namespace weft
