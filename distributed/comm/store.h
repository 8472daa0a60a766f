// A small key-value store through which ranks find each other before they can send tensors.
//
//   auto store = connect_store(LaunchEnvironment::from_environment());   // distributed/launch/environment.h
//   if (rank == 0) store->set("address", "10.0.0.7:4711");
//   std::string address = store->get("address");        // blocks until some rank has set it
//   int64_t arrived = store->add("arrived", 1);         // counts; the value before the first add is 0
//
// Three kinds, one interface:
//   HashStore    ranks that are threads of one process (tests, ProcessGroup::threads)
//   TcpStore     processes, through a StoreServer (tcp_store.h, store_server.h)
//   PrefixStore  a part of another store: every process group gets its own, so that their keys never meet
//
// Rules, the same for every kind: keys are 1 to max_key_bytes bytes, values are 0 to max_value_bytes bytes of anything,
// all values of a store together at most max_store_bytes. Every call may come from any thread, also while another thread is
// blocked in get or wait. Errors: invalid_argument (a rule broken, add on a value that is no integer), timeout (names key and
// seconds), peer_lost (the server has gone).
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace weft {

class Store {
 public:
  using Milliseconds = std::chrono::milliseconds;

  static constexpr std::size_t max_key_bytes = 4096;
  static constexpr std::size_t max_value_bytes = std::size_t{16} << 20;
  static constexpr std::size_t max_store_bytes = std::size_t{256} << 20;
  static constexpr Milliseconds default_timeout = std::chrono::minutes(5);

  explicit Store(Milliseconds timeout = default_timeout);
  virtual ~Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Sets `key`, replacing what was there, and wakes those who wait for it.
  virtual void set(const std::string& key, std::string_view value) = 0;

  // The value of `key`; waits until there is one.
  virtual std::string get(const std::string& key, Milliseconds timeout) = 0;
  std::string get(const std::string& key) { return get(key, timeout_); }

  // Adds to the integer in `key` (0 when there is none) and returns the sum; get() then gives it as decimal text.
  virtual std::int64_t add(const std::string& key, std::int64_t amount) = 0;

  // Waits until every one of `keys` has been set. The error names the first one missing.
  virtual void wait(const std::vector<std::string>& keys, Milliseconds timeout) = 0;
  void wait(const std::vector<std::string>& keys) { wait(keys, timeout_); }

  // Whether all of `keys` are set now; never waits.
  virtual bool check(const std::vector<std::string>& keys) = 0;

  // Removes `key`; whether it was there.
  virtual bool delete_key(const std::string& key) = 0;

  // The time get and wait allow when the caller names none.
  Milliseconds timeout() const { return timeout_; }

 private:
  Milliseconds timeout_;
};

// The rules of a store over a plain map, shared by HashStore and StoreServer. Not thread-safe.
class StoreTable {
 public:
  // Each throws weft::Error (invalid_argument) when a rule is broken, and then changes nothing.
  void set(const std::string& key, std::string_view value);
  std::int64_t add(const std::string& key, std::int64_t amount);
  bool erase(const std::string& key);
  const std::string* find(const std::string& key) const;  // nullptr when there is none

  static void check_key(std::string_view key);
  static void check_value(std::string_view value);

 private:
  std::unordered_map<std::string, std::string> values_;
  std::size_t bytes_ = 0;
};

class HashStore final : public Store {
 public:
  using Store::get;
  using Store::Store;
  using Store::wait;
  void set(const std::string& key, std::string_view value) override;
  std::string get(const std::string& key, Milliseconds timeout) override;
  std::int64_t add(const std::string& key, std::int64_t amount) override;
  void wait(const std::vector<std::string>& keys, Milliseconds timeout) override;
  bool check(const std::vector<std::string>& keys) override;
  bool delete_key(const std::string& key) override;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  StoreTable table_;
};

// Puts "prefix/" before every key. Holds the store it stands on; timeout() is that store's.
class PrefixStore final : public Store {
 public:
  using Store::get;
  using Store::wait;
  PrefixStore(std::string prefix, std::shared_ptr<Store> store);
  void set(const std::string& key, std::string_view value) override;
  std::string get(const std::string& key, Milliseconds timeout) override;
  std::int64_t add(const std::string& key, std::int64_t amount) override;
  void wait(const std::vector<std::string>& keys, Milliseconds timeout) override;
  bool check(const std::vector<std::string>& keys) override;
  bool delete_key(const std::string& key) override;

 private:
  std::string prefixed(const std::string& key) const;
  std::vector<std::string> prefixed(const std::vector<std::string>& keys) const;

  std::string prefix_;
  std::shared_ptr<Store> store_;
};

namespace store_detail {
// The one wording of a store's timeout. `where` is empty or " at 10.0.0.7:4711".
[[noreturn]] void fail_timeout(std::string_view op, const std::string& key, Store::Milliseconds timeout,
                               const std::string& where);
// Throws invalid_argument when it is negative.
void check_timeout(std::string_view op, Store::Milliseconds timeout);
// Now plus `timeout`, at most a year: milliseconds::max() means "for ever" and must not overflow.
std::chrono::steady_clock::time_point deadline_after(Store::Milliseconds timeout);
}  // namespace store_detail

}  // namespace weft
