#include "distributed/comm/store_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "distributed/comm/socket.h"
#include "distributed/comm/store.h"
#include "distributed/comm/store_protocol.h"
#include "kernels/base/error.h"

namespace weft {
namespace {

namespace protocol = store_protocol;
using Clock = std::chrono::steady_clock;
using Id = std::uint64_t;

constexpr std::size_t read_bytes = std::size_t{64} << 10;
constexpr std::size_t keep_bytes = std::size_t{1} << 20;  // larger buffers are given back once they are empty
constexpr std::size_t max_connections = 16384;
constexpr auto accept_pause = std::chrono::milliseconds(100);

// A get or wait whose keys are not all there yet. Keys are awaited one after the other: `next` is the one missing now.
struct Pending {
  protocol::Operation operation;
  std::vector<std::string> keys;
  std::size_t next = 0;
  Clock::time_point deadline;
};

struct Connection {
  FileDescriptor socket;
  bool greeted = false;
  std::string in;   // bytes not yet understood
  std::string out;  // bytes not yet sent
  std::size_t sent = 0;
  std::optional<Pending> pending;
  Clock::time_point patience_ends;  // for a stranger's hello and for the rest of half a frame

  bool writing() const { return sent < out.size(); }
  // One request at a time: while an answer is due or on its way, the next request waits in the kernel. This bounds memory.
  bool reading() const { return !pending && !writing(); }
  bool impatient() const { return !greeted || (reading() && !in.empty()); }
};

}  // namespace

// Everything below `run` happens on the server's own thread; only the constructor and the destructor are the owner's.
class StoreServer::Loop {
 public:
  explicit Loop(const Options& options) : options_(options) {
    listener_ = listen_tcp({options.host, options.port, "store", options.port_option});
    port_ = bound_port(listener_.get());
    stop_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!stop_) fail(ErrorCode::io, "store", "cannot start the server: {}", error_text(errno));
    // Signals belong to the program's threads, which may wait for them; a new thread inherits this mask.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error& error) {
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      fail(ErrorCode::io, "store", "cannot start the server's thread: {}", error.what());
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  ~Loop() {
    std::uint64_t one = 1;
    while (write(stop_.get(), &one, sizeof one) < 0 && errno == EINTR) {
    }
    thread_.join();
  }

  int port() const { return port_; }

 private:
  void run() {
    std::vector<pollfd> entries;
    std::vector<Id> ids;
    for (;;) {
      Clock::time_point now = Clock::now();
      expire(now);
      entries.assign({{stop_.get(), POLLIN, 0}, {now < accept_again_ ? -1 : listener_.get(), POLLIN, 0}});
      ids.clear();
      for (auto& [id, connection] : connections_) {
        int events = POLLRDHUP | (connection.reading() ? POLLIN : 0) | (connection.writing() ? POLLOUT : 0);
        entries.push_back({connection.socket.get(), static_cast<short>(events), 0});
        ids.push_back(id);
      }
      if (poll(entries.data(), entries.size(), poll_timeout(now)) < 0) continue;  // EINTR, or no memory for a moment
      if (entries[0].revents != 0) return;
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if (entries[i + 2].revents != 0) attend(ids[i], entries[i + 2].revents);
      }
      if (entries[1].revents != 0) accept_all();
    }
  }

  // Milliseconds until the next deadline; -1 when there is none.
  int poll_timeout(Clock::time_point now) const {
    Clock::time_point next = Clock::time_point::max();
    if (now < accept_again_) next = accept_again_;
    for (const auto& [id, connection] : connections_) {
      if (connection.pending) next = std::min(next, connection.pending->deadline);
      if (connection.impatient()) next = std::min(next, connection.patience_ends);
    }
    if (next == Clock::time_point::max()) return -1;
    auto left = std::chrono::ceil<std::chrono::milliseconds>(next - now).count();
    return static_cast<int>(std::clamp<long long>(left, 0, 1 << 30));
  }

  void accept_all() {
    for (;;) {
      FileDescriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket) {
        if (errno == EINTR || errno == ECONNABORTED) continue;
        // Out of descriptors or memory: the caller stays in the queue. Polling at once again would only burn the CPU.
        if (errno != EAGAIN && errno != EWOULDBLOCK) accept_again_ = Clock::now() + accept_pause;
        return;
      }
      if (connections_.size() >= max_connections) continue;  // closes it
      int yes = 1;
      setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
      Connection& connection = connections_[next_id_++];
      connection.socket = std::move(socket);
      connection.patience_ends = Clock::now() + options_.hello_timeout;
    }
  }

  // Answers those whose time is over, and drops those who kept us waiting in the middle of something.
  void expire(Clock::time_point now) {
    std::vector<Id> late;
    for (const auto& [id, connection] : connections_) {
      if ((connection.pending && connection.pending->deadline <= now) ||
          (connection.impatient() && connection.patience_ends <= now))
        late.push_back(id);
    }
    for (Id id : late) {
      auto found = connections_.find(id);
      if (found == connections_.end()) continue;
      if (!found->second.pending) {
        drop(id);
        continue;
      }
      std::string missing = found->second.pending->keys[found->second.pending->next];
      forget_pending(id, found->second);
      answer(id, protocol::Writer(protocol::Status::timeout).text(missing).take());
    }
  }

  void attend(Id id, short events) {
    auto found = connections_.find(id);
    if (found == connections_.end()) return;  // dropped while others were attended to
    Connection& connection = found->second;
    if ((events & (POLLERR | POLLNVAL)) != 0) return drop(id);
    if ((events & POLLOUT) != 0 && !flush(connection)) return drop(id);
    if ((events & POLLIN) != 0 && connection.reading()) {
      if (!receive(connection)) return drop(id);
    } else if ((events & (POLLHUP | POLLRDHUP)) != 0) {
      return drop(id);
    }
    serve(id);
  }

  // Reads what has come; false when the connection is at its end.
  bool receive(Connection& connection) {
    ssize_t count = recv(connection.socket.get(), scratch_.data(), scratch_.size(), 0);
    int error = errno;
    try {
      connection.in.append(scratch_.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    } catch (const std::bad_alloc&) {
      return false;
    }
    if (count > 0 && connection.greeted) connection.patience_ends = Clock::now() + options_.hello_timeout;
    return count > 0 || (count < 0 && (error == EAGAIN || error == EINTR));
  }

  // Sends what can be sent; false when the connection is broken.
  static bool flush(Connection& connection) {
    while (connection.writing()) {
      ssize_t count = send(connection.socket.get(), connection.out.data() + connection.sent,
                           connection.out.size() - connection.sent, MSG_NOSIGNAL);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
      connection.sent += static_cast<std::size_t>(count);
    }
    connection.sent = 0;
    connection.out.clear();
    if (connection.out.capacity() > keep_bytes) connection.out.shrink_to_fit();
    return true;
  }

  // Sends a frame, or what the socket takes of it now. May drop the connection.
  void answer(Id id, std::string frame) {
    auto found = connections_.find(id);
    if (found == connections_.end()) return;
    found->second.out += frame;
    if (!flush(found->second)) drop(id);
  }

  // Carries out the complete frames that have arrived, one after the other.
  void serve(Id id) {
    for (;;) {
      auto found = connections_.find(id);
      if (found == connections_.end()) return;
      Connection& connection = found->second;
      if (!connection.reading()) return;
      if (!connection.greeted) {
        std::size_t have = std::min(connection.in.size(), protocol::client_hello.size());
        if (std::string_view(connection.in).substr(0, have) != protocol::client_hello.substr(0, have)) return drop(id);
        if (have < protocol::client_hello.size()) return;
        connection.in.erase(0, have);
        connection.greeted = true;
        answer(id, std::string(protocol::server_hello));
        continue;
      }
      if (connection.in.size() < protocol::header_bytes) return;
      std::size_t length = protocol::announced_length(connection.in);
      if (length == 0 || length > protocol::max_frame_bytes) return drop(id);
      if (connection.in.size() - protocol::header_bytes < length) return;
      std::string frame = connection.in.substr(protocol::header_bytes, length);
      connection.in.erase(0, protocol::header_bytes + length);
      if (connection.in.capacity() > keep_bytes) connection.in.shrink_to_fit();
      try {
        if (!execute(id, frame)) return drop(id);
      } catch (const Error& error) {  // a rule of the store: the client's mistake, not the connection's
        std::string_view text = error.what();
        text.remove_prefix(std::min(text.size(), fmt::formatted_size("weft::Error [{}] ", error.op())));
        answer(id, protocol::Writer(protocol::Status::refused).text(text).take());
      } catch (const std::bad_alloc&) {
        return drop(id);
      }
    }
  }

  // Carries out one request; false when it does not follow the format.
  bool execute(Id id, std::string_view frame) {
    using protocol::Operation;
    protocol::Writer ok(protocol::Status::ok);
    protocol::Reader reader(frame);
    auto operation = static_cast<Operation>(reader.u8());
    switch (operation) {
      case Operation::set: {
        std::string key(reader.text());
        std::string_view value = reader.text();
        if (!reader.complete()) return false;
        table_.set(key, value);
        answer(id, ok.take());
        wake(key);
        return true;
      }
      case Operation::add: {
        std::string key(reader.text());
        auto amount = static_cast<std::int64_t>(reader.u64());
        if (!reader.complete()) return false;
        std::int64_t sum = table_.add(key, amount);
        answer(id, ok.u64(static_cast<std::uint64_t>(sum)).take());
        wake(key);
        return true;
      }
      case Operation::erase: {
        std::string key(reader.text());
        if (!reader.complete()) return false;
        answer(id, ok.u8(table_.erase(key) ? 1 : 0).take());
        return true;
      }
      case Operation::check: {
        std::vector<std::string> keys = read_keys(reader);
        if (!reader.complete()) return false;
        bool all = std::all_of(keys.begin(), keys.end(), [&](const auto& key) { return table_.find(key) != nullptr; });
        answer(id, ok.u8(all ? 1 : 0).take());
        return true;
      }
      case Operation::get:
      case Operation::wait: {
        std::uint64_t timeout = reader.u64();
        std::vector<std::string> keys;
        if (operation == Operation::wait) {
          keys = read_keys(reader);
        } else {
          keys.emplace_back(reader.text());
        }
        if (!reader.complete()) return false;
        constexpr std::uint64_t year_ms = std::uint64_t{365} * 24 * 3600 * 1000;
        Pending pending{operation, std::move(keys), 0,
                        Clock::now() + std::chrono::milliseconds(std::min(timeout, year_ms))};
        advance(id, std::move(pending));
        return true;
      }
    }
    return false;
  }

  static std::vector<std::string> read_keys(protocol::Reader& reader) {
    std::vector<std::string> keys;
    for (std::uint32_t count = reader.u32(); count > 0 && reader.valid(); --count) keys.emplace_back(reader.text());
    return keys;
  }

  // Answers `pending` when nothing is missing any more, else queues it under its first missing key. So a set touches only
  // those who wait for just that key, however many wait for others.
  void advance(Id id, Pending pending) {
    while (pending.next < pending.keys.size() && table_.find(pending.keys[pending.next]) != nullptr) ++pending.next;
    if (pending.next < pending.keys.size()) {
      waiting_[pending.keys[pending.next]].push_back(id);
      connections_.at(id).pending = std::move(pending);
      return;
    }
    protocol::Writer ok(protocol::Status::ok);
    if (pending.operation == protocol::Operation::get) ok.text(*table_.find(pending.keys.front()));
    answer(id, ok.take());
  }

  void wake(const std::string& key) {
    auto found = waiting_.find(key);
    if (found == waiting_.end()) return;
    std::vector<Id> ids = std::move(found->second);
    waiting_.erase(found);
    for (Id id : ids) {
      auto connection = connections_.find(id);
      if (connection == connections_.end()) continue;
      Pending pending = std::move(*connection->second.pending);
      connection->second.pending.reset();
      advance(id, std::move(pending));
    }
  }

  void forget_pending(Id id, Connection& connection) {
    if (!connection.pending) return;
    auto found = waiting_.find(connection.pending->keys[connection.pending->next]);
    if (found != waiting_.end()) {
      std::erase(found->second, id);
      if (found->second.empty()) waiting_.erase(found);
    }
    connection.pending.reset();
  }

  void drop(Id id) {
    auto found = connections_.find(id);
    if (found == connections_.end()) return;
    forget_pending(id, found->second);
    connections_.erase(found);
  }

  Options options_;
  FileDescriptor listener_;
  FileDescriptor stop_;
  int port_ = 0;
  std::vector<char> scratch_ = std::vector<char>(read_bytes);
  StoreTable table_;
  std::unordered_map<Id, Connection> connections_;
  std::unordered_map<std::string, std::vector<Id>> waiting_;
  Id next_id_ = 0;
  Clock::time_point accept_again_ = Clock::time_point::min();
  std::thread thread_;  // last: it uses all of the above
};

StoreServer::StoreServer(const Options& options) : loop_(std::make_unique<Loop>(options)) {}
StoreServer::~StoreServer() = default;
int StoreServer::port() const { return loop_->port(); }

}  // namespace weft
