// The store: the same rules for every kind, and a server that strangers cannot harm.
#include "distributed/comm/store.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <random>
#include <thread>

#include "distributed/comm/socket.h"
#include "distributed/comm/store_protocol.h"
#include "distributed/comm/store_server.h"
#include "distributed/comm/tcp_store.h"
#include "kernels/base/error.h"
#include "tests/support/nightly.h"

namespace weft {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

// The code of the weft::Error that `body` throws, and its text in `text`.
ErrorCode code_of(const std::function<void()>& body, std::string* text = nullptr) {
  try {
    body();
  } catch (const Error& error) {
    if (text != nullptr) *text = error.what();
    return error.code();
  }
  ADD_FAILURE() << "expected a weft::Error";
  return ErrorCode::internal;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

struct Kind {
  const char* name;
  std::function<std::shared_ptr<Store>()> make;
};

struct ServerAndClient {
  StoreServer server{StoreServer::Options{}};
  TcpStore client{"127.0.0.1", server.port(), seconds(30)};
};

std::shared_ptr<Store> make_tcp() {
  auto both = std::make_shared<ServerAndClient>();
  return {both, &both->client};
}

class EveryStore : public testing::TestWithParam<Kind> {
 protected:
  std::shared_ptr<Store> store = GetParam().make();
};

TEST_P(EveryStore, SetGetCheckDelete) {
  EXPECT_FALSE(store->check({"a"}));
  store->set("a", "1");
  store->set("b", std::string("\0\n\xff", 3));
  store->set("empty", "");
  EXPECT_EQ(store->get("a"), "1");
  EXPECT_EQ(store->get("b"), std::string("\0\n\xff", 3));
  EXPECT_EQ(store->get("empty"), "");
  store->set("a", "two");
  EXPECT_EQ(store->get("a"), "two");
  EXPECT_TRUE(store->check({"a", "b", "empty"}));
  EXPECT_FALSE(store->check({"a", "c"}));
  EXPECT_TRUE(store->check({}));
  EXPECT_TRUE(store->delete_key("a"));
  EXPECT_FALSE(store->delete_key("a"));
  EXPECT_FALSE(store->check({"a"}));
}

TEST_P(EveryStore, AddCounts) {
  EXPECT_EQ(store->add("n", 2), 2);
  EXPECT_EQ(store->add("n", -5), -3);
  EXPECT_EQ(store->get("n"), "-3");
  EXPECT_EQ(store->add("n", 0), -3);
  EXPECT_EQ(store->add("big", INT64_MAX), INT64_MAX);
  EXPECT_EQ(code_of([&] { store->add("big", 1); }), ErrorCode::invalid_argument);
  EXPECT_EQ(store->get("big"), std::to_string(INT64_MAX));
  store->set("word", "12x");
  std::string text;
  EXPECT_EQ(code_of([&] { store->add("word", 1); }, &text), ErrorCode::invalid_argument);
  EXPECT_TRUE(contains(text, "word")) << text;
  EXPECT_EQ(store->add("n", 1), -2) << "a refused request must leave the connection usable";
}

TEST_P(EveryStore, TimeoutNamesKeyAndSeconds) {
  store->set("here", "");
  std::string text;
  auto start = Clock::now();
  EXPECT_EQ(code_of([&] { store->get("weights/7", milliseconds(250)); }, &text), ErrorCode::timeout);
  EXPECT_GE(Clock::now() - start, milliseconds(240));
  EXPECT_LT(Clock::now() - start, seconds(5));
  EXPECT_TRUE(contains(text, "weights/7\"") && contains(text, "0.25 s")) << text;
  EXPECT_EQ(code_of([&] { store->wait({"here", "gone", "also gone"}, milliseconds(100)); }, &text), ErrorCode::timeout);
  EXPECT_TRUE(contains(text, "gone\"") && contains(text, "0.1 s") && !contains(text, "also")) << text;
  EXPECT_EQ(code_of([&] { store->get("x", milliseconds(0)); }), ErrorCode::timeout);
  EXPECT_EQ(code_of([&] { store->get("x", milliseconds(-1)); }), ErrorCode::invalid_argument);
  EXPECT_EQ(store->get("here", Store::Milliseconds::max()), "");
}

TEST_P(EveryStore, BrokenRulesAreNamed) {
  EXPECT_EQ(code_of([&] { store->set("", "x"); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { store->get("", seconds(1)); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { store->check({""}); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { store->set(std::string(Store::max_key_bytes + 1, 'k'), ""); }), ErrorCode::invalid_argument);
  std::string text;
  EXPECT_EQ(code_of([&] { store->set("v", std::string(Store::max_value_bytes + 1, 'v')); }, &text),
            ErrorCode::invalid_argument);
  EXPECT_TRUE(contains(text, "16777216")) << text;
  EXPECT_FALSE(store->check({"v"}));
}

TEST_P(EveryStore, TheLargestValueFitsAndTheStoreHasAnEnd) {
  std::string large(Store::max_value_bytes, 'v');
  store->set("v0", large);
  EXPECT_EQ(store->get("v0"), large);
  std::string text;
  EXPECT_EQ(code_of(
                [&] {
                  for (int i = 1; i < 20; ++i) store->set(fmt::format("v{}", i), large);
                },
                &text),
            ErrorCode::invalid_argument);
  EXPECT_TRUE(contains(text, "full")) << text;
  store->set("v0", "small");  // replacing makes room
  store->set("w", "also small");
}

TEST_P(EveryStore, ThreadsMeet) {
  constexpr int ranks = 8;
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      std::vector<std::string> keys;
      for (int round = 0; round < 20; ++round) {
        store->set(fmt::format("{}/{}", round, rank), std::to_string(rank * round));
        keys.clear();
        for (int peer = 0; peer < ranks; ++peer) keys.push_back(fmt::format("{}/{}", round, peer));
        store->wait(keys);
        int sum = 0;
        for (const auto& key : keys) sum += std::stoi(store->get(key));
        if (sum == round * ranks * (ranks - 1) / 2) ++right;
        store->add("rounds", 1);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, ranks * 20);
  EXPECT_EQ(store->add("rounds", 0), ranks * 20);
}

TEST_P(EveryStore, ABlockedThreadHoldsNobodyUp) {
  std::thread blocked([&] { EXPECT_EQ(store->get("late", seconds(30)), "now"); });
  for (int i = 0; i < 100; ++i) store->add("others", 1);
  store->set("late", "now");
  blocked.join();
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, EveryStore,
    testing::Values(Kind{"Hash", [] { return std::make_shared<HashStore>(seconds(30)); }}, Kind{"Tcp", make_tcp},
                    Kind{"PrefixOnHash",
                         [] {
                           return std::make_shared<PrefixStore>("group", std::make_shared<HashStore>(seconds(30)));
                         }},
                    Kind{"PrefixOnTcp", [] { return std::make_shared<PrefixStore>("group", make_tcp()); }}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(PrefixStore, GroupsDoNotMeet) {
  auto base = std::make_shared<HashStore>();
  PrefixStore a("a", base), b("b", base);
  a.set("key", "1");
  EXPECT_FALSE(b.check({"key"}));
  EXPECT_EQ(base->get("a/key"), "1");
  EXPECT_EQ(code_of([] { PrefixStore("a", nullptr); }), ErrorCode::invalid_argument);
}

// ---- the server and strangers ----

// A connection of somebody who does not keep the format.
class Stranger {
 public:
  explicit Stranger(int port) {
    std::string reason;
    socket_ = try_connect_tcp("127.0.0.1", port, Clock::now() + seconds(10), reason);
    if (!socket_) throw std::runtime_error(reason);
  }
  void say(std::string_view bytes) {
    while (!bytes.empty()) {
      ssize_t count = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return;
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
  }
  // Whether the server closes the connection before the time is over; skips what it says.
  bool is_closed(Clock::duration limit = seconds(10)) {
    auto end = Clock::now() + limit;
    char buffer[4096];
    while (wait_ready(socket_.get(), 1 /* POLLIN */, end)) {
      if (recv(socket_.get(), buffer, sizeof buffer, 0) <= 0) return true;
    }
    return false;
  }

 private:
  FileDescriptor socket_;
};

std::string hello() { return std::string(store_protocol::client_hello); }

TEST(StoreServer, JunkCostsOnlyTheStrangerItsConnection) {
  StoreServer server(StoreServer::Options{});
  TcpStore store("127.0.0.1", server.port(), seconds(30));
  store.set("key", "value");
  for (const std::string& junk :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(1000, '\0'), std::string("WEFTSTC2"),
        hello() + std::string(4, '\xff'), hello() + std::string(4, '\0'), hello() + std::string("\1\0\0\0\x63", 5),
        hello() + std::string("\1\0\0\0\1", 5), hello() + std::string("\6\0\0\0\1\xff\xff\xff\xff.", 10),
        hello() + std::string("\x0d\0\0\0\4\0\0\0\0\0\0\0\0\xff\xff\xff\xff", 17)}) {
    Stranger stranger(server.port());
    stranger.say(junk);
    EXPECT_TRUE(stranger.is_closed()) << testing::PrintToString(junk);
  }
  EXPECT_EQ(store.get("key"), "value");
}

TEST(StoreServer, RandomBytesAreSurvived) {
  StoreServer server(StoreServer::Options{});
  TcpStore store("127.0.0.1", server.port(), seconds(30));
  std::mt19937 random(1);
  for (int round = 0; round < test::rounds(200, 5000); ++round) {
    Stranger stranger(server.port());
    std::string bytes = hello();
    // Plausible frames: a fitting length and operation before random fields, so that the fields' checks are reached.
    for (int frame = 0; frame < 5; ++frame) {
      std::string fields;
      for (std::size_t i = random() % 40; i > 0; --i)
        fields += static_cast<char>(random() % 3 == 0 ? random() % 256 : random() % 3);
      store_protocol::Writer writer(static_cast<std::uint8_t>(random() % 8));
      for (char field : fields) writer.u8(static_cast<std::uint8_t>(field));
      bytes += writer.take();
    }
    stranger.say(bytes.substr(0, random() % (bytes.size() + 1)));
  }
  store.set("key", "value");
  EXPECT_EQ(store.get("key"), "value");
}

TEST(StoreServer, SilentAndHalfMessagesEndAtTheTimeout) {
  StoreServer server({.hello_timeout = milliseconds(200)});
  TcpStore store("127.0.0.1", server.port(), seconds(30));
  Stranger silent(server.port()), half_hello(server.port()), half_header(server.port()), half_frame(server.port());
  half_hello.say("WEFT");
  half_header.say(hello() + "\1");
  half_frame.say(hello() + std::string("\x40\0\0\0\1abc", 8));
  EXPECT_TRUE(silent.is_closed());
  EXPECT_TRUE(half_hello.is_closed());
  EXPECT_TRUE(half_header.is_closed());
  EXPECT_TRUE(half_frame.is_closed());
  store.set("key", "value");  // a client that merely has nothing to say is kept
  EXPECT_EQ(code_of([&] { store.get("other", milliseconds(600)); }), ErrorCode::timeout);  // and so is one that waits
  EXPECT_EQ(store.get("key"), "value");
}

TEST(StoreServer, AMessageMayArriveByteByByte) {
  StoreServer server(StoreServer::Options{});
  TcpStore store("127.0.0.1", server.port(), seconds(30));
  Stranger slow(server.port());
  std::string bytes =
      hello() + store_protocol::Writer(store_protocol::Operation::set).text("slow").text("but right").take();
  for (char byte : bytes) slow.say(std::string_view(&byte, 1));
  EXPECT_EQ(store.get("slow"), "but right");
}

TEST(StoreServer, ManyWaitersWakeAndLeaversAreForgotten) {
  StoreServer server(StoreServer::Options{});
  std::vector<std::thread> threads;
  std::atomic<int> woken{0};
  for (int i = 0; i < 50; ++i) {
    threads.emplace_back([&, i] {
      TcpStore store("127.0.0.1", server.port(), seconds(30));
      if (i % 2 == 0) {
        Stranger leaver(server.port());
        leaver.say(hello() + store_protocol::Writer(store_protocol::Operation::get).u64(60000).text("go").take());
      }
      store.add("ready", 1);
      store.get("go");
      ++woken;
    });
  }
  TcpStore store("127.0.0.1", server.port(), seconds(30));
  while (store.add("ready", 0) < 50) std::this_thread::sleep_for(milliseconds(2));
  store.set("go", "");
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(woken, 50);
}

TEST(StoreServer, ItsEndIsPeerLostForThoseWhoWait) {
  auto server = std::make_unique<StoreServer>(StoreServer::Options{});
  TcpStore store("127.0.0.1", server->port(), seconds(30));
  std::thread ender([&] {
    std::this_thread::sleep_for(milliseconds(100));
    server.reset();
  });
  std::string text;
  EXPECT_EQ(code_of([&] { store.get("never"); }, &text), ErrorCode::peer_lost);
  ender.join();
  EXPECT_TRUE(contains(text, "has gone")) << text;
}

TEST(StoreServer, TakenPortIsNamedWithItsOption) {
  StoreServer first(StoreServer::Options{});
  std::string text;
  EXPECT_EQ(code_of([&] { StoreServer second({.port = first.port(), .port_option = "--master-port"}); }, &text),
            ErrorCode::io);
  EXPECT_TRUE(contains(text, std::to_string(first.port())) && contains(text, "--master-port")) << text;
  EXPECT_EQ(code_of([] { StoreServer far({.host = "192.0.2.1"}); }), ErrorCode::io);
  EXPECT_EQ(code_of([] { StoreServer wrong({.port = 70000}); }), ErrorCode::invalid_argument);
}

std::ptrdiff_t entries(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
}

TEST(StoreServer, LeavesNoThreadDescriptorOrPortBehind) {
  { StoreServer warm_up(StoreServer::Options{}); }
  auto threads = entries("/proc/self/task");
  auto descriptors = entries("/proc/self/fd");
  int port = 0;
  for (int round = 0; round < 5; ++round) {
    StoreServer server({.port = port});  // the same port again, at once
    port = server.port();
    TcpStore store("127.0.0.1", port, seconds(30));
    store.set("key", "value");
    Stranger half(port);
    half.say("WEF");
  }
  // A thread's entry in /proc may outlive its join for a moment.
  for (int i = 0; i < 1000 && entries("/proc/self/task") > threads; ++i) std::this_thread::sleep_for(milliseconds(2));
  EXPECT_EQ(entries("/proc/self/task"), threads);
  EXPECT_EQ(entries("/proc/self/fd"), descriptors);
}

// ---- connecting ----

int free_port() { return bound_port(listen_tcp(ListenOptions{}).get()); }

TEST(TcpStore, WaitsForAServerThatStartsLater) {
  int port = free_port();
  std::unique_ptr<StoreServer> server;
  std::thread later([&] {
    std::this_thread::sleep_for(milliseconds(200));
    server = std::make_unique<StoreServer>(StoreServer::Options{.port = port});
  });
  TcpStore store("127.0.0.1", port, seconds(30));
  later.join();
  store.set("key", "value");
  EXPECT_EQ(store.get("key"), "value");
}

TEST(TcpStore, NobodyThereIsATimeout) {
  int port = free_port();
  std::string text;
  EXPECT_EQ(code_of([&] { TcpStore("127.0.0.1", port, milliseconds(300)); }, &text), ErrorCode::timeout);
  EXPECT_TRUE(contains(text, fmt::format("127.0.0.1:{}", port)) && contains(text, "0.3 s")) << text;
  EXPECT_EQ(code_of([] { TcpStore("127.0.0.1", 0, milliseconds(300)); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([] { TcpStore("no-such-host.invalid", 1, milliseconds(300)); }), ErrorCode::timeout);
}

TEST(TcpStore, AnotherProgramIsNotTakenForAStore) {
  FileDescriptor listener = listen_tcp(ListenOptions{});
  int port = bound_port(listener.get());
  std::string text;
  // Accepted by the kernel, answered by nobody.
  EXPECT_EQ(code_of([&] { TcpStore("127.0.0.1", port, milliseconds(300)); }, &text), ErrorCode::timeout);
  EXPECT_TRUE(contains(text, "does not answer")) << text;
  std::thread other([&] {
    for (int accepted = 0; accepted < 2; ++accepted) {  // the first is the attempt above
      wait_ready(listener.get(), 1 /* POLLIN */, Clock::now() + seconds(10));
      FileDescriptor peer(accept(listener.get(), nullptr, nullptr));
      send(peer.get(), "220 mail.example ESMTP\r\n", 24, MSG_NOSIGNAL);
      char buffer[64];
      while (recv(peer.get(), buffer, sizeof buffer, 0) > 0) {
      }
    }
  });
  EXPECT_EQ(code_of([&] { TcpStore("127.0.0.1", port, seconds(30)); }, &text), ErrorCode::invalid_argument);
  other.join();
  EXPECT_TRUE(contains(text, "not a Weft store")) << text;
}

}  // namespace
}  // namespace weft
