#include "distributed/comm/store.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "kernels/base/error.h"

namespace weft {

namespace store_detail {

void fail_timeout(std::string_view op, const std::string& key, Store::Milliseconds timeout, const std::string& where) {
  fail(ErrorCode::timeout, op,
       "key \"{}\" was not set within {:g} s in the store{}; a rank has not come this far or has gone", key,
       static_cast<double>(timeout.count()) / 1000.0, where);
}

void check_timeout(std::string_view op, Store::Milliseconds timeout) {
  WEFT_CHECK(timeout.count() >= 0, op, "expected a timeout of 0 s or more, got {:g} s",
             static_cast<double>(timeout.count()) / 1000.0);
}

std::chrono::steady_clock::time_point deadline_after(Store::Milliseconds timeout) {
  return std::chrono::steady_clock::now() + std::min<Store::Milliseconds>(timeout, std::chrono::hours(24 * 365));
}

}  // namespace store_detail

Store::Store(Milliseconds timeout) : timeout_(timeout) { store_detail::check_timeout("store", timeout); }

// ---- StoreTable ----

void StoreTable::check_key(std::string_view key) {
  WEFT_CHECK(!key.empty(), "store", "a key must not be empty");
  WEFT_CHECK(key.size() <= Store::max_key_bytes, "store", "expected a key of at most {} bytes, got {} bytes (\"{}…\")",
             Store::max_key_bytes, key.size(), key.substr(0, 40));
}

void StoreTable::check_value(std::string_view value) {
  WEFT_CHECK(value.size() <= Store::max_value_bytes, "store", "expected a value of at most {} bytes, got {} bytes",
             Store::max_value_bytes, value.size());
}

void StoreTable::set(const std::string& key, std::string_view value) {
  check_key(key);
  check_value(value);
  auto found = values_.find(key);
  std::size_t before = found == values_.end() ? 0 : key.size() + found->second.size();
  std::size_t after = bytes_ - before + key.size() + value.size();
  WEFT_CHECK(after <= Store::max_store_bytes, "store",
             "the store is full: \"{}\" would bring it to {} bytes, at most {} fit; delete keys no longer needed", key,
             after, Store::max_store_bytes);
  if (found == values_.end()) {
    values_.emplace(key, value);
  } else {
    found->second.assign(value);
  }
  bytes_ = after;
}

std::int64_t StoreTable::add(const std::string& key, std::int64_t amount) {
  check_key(key);
  std::int64_t old = 0;
  if (const std::string* text = find(key)) {
    const char* end = text->data() + text->size();
    auto [stop, error] = std::from_chars(text->data(), end, old);
    WEFT_CHECK(error == std::errc() && stop == end, "store",
               "add to key \"{}\": its value is not an integer of 64 bits", key);
  }
  std::int64_t sum = 0;
  WEFT_CHECK(!__builtin_add_overflow(old, amount, &sum), "store",
             "add to key \"{}\": {} + {} does not fit into 64 bits", key, old, amount);
  set(key, fmt::format("{}", sum));
  return sum;
}

bool StoreTable::erase(const std::string& key) {
  auto found = values_.find(key);
  if (found == values_.end()) return false;
  bytes_ -= key.size() + found->second.size();
  values_.erase(found);
  return true;
}

const std::string* StoreTable::find(const std::string& key) const {
  auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

// ---- HashStore ----

void HashStore::set(const std::string& key, std::string_view value) {
  {
    std::lock_guard lock(mutex_);
    table_.set(key, value);
  }
  changed_.notify_all();
}

std::string HashStore::get(const std::string& key, Milliseconds timeout) {
  StoreTable::check_key(key);
  store_detail::check_timeout("store.get", timeout);
  std::unique_lock lock(mutex_);
  const std::string* value = nullptr;
  auto deadline = store_detail::deadline_after(timeout);
  if (!changed_.wait_until(lock, deadline, [&] { return (value = table_.find(key)) != nullptr; }))
    store_detail::fail_timeout("store.get", key, timeout, "");
  return *value;
}

std::int64_t HashStore::add(const std::string& key, std::int64_t amount) {
  std::int64_t sum = 0;
  {
    std::lock_guard lock(mutex_);
    sum = table_.add(key, amount);
  }
  changed_.notify_all();
  return sum;
}

void HashStore::wait(const std::vector<std::string>& keys, Milliseconds timeout) {
  for (const auto& key : keys) StoreTable::check_key(key);
  store_detail::check_timeout("store.wait", timeout);
  std::unique_lock lock(mutex_);
  auto deadline = store_detail::deadline_after(timeout);
  for (const auto& key : keys) {
    if (!changed_.wait_until(lock, deadline, [&] { return table_.find(key) != nullptr; }))
      store_detail::fail_timeout("store.wait", key, timeout, "");
  }
}

bool HashStore::check(const std::vector<std::string>& keys) {
  for (const auto& key : keys) StoreTable::check_key(key);
  std::lock_guard lock(mutex_);
  return std::all_of(keys.begin(), keys.end(), [&](const std::string& key) { return table_.find(key) != nullptr; });
}

bool HashStore::delete_key(const std::string& key) {
  StoreTable::check_key(key);
  std::lock_guard lock(mutex_);
  return table_.erase(key);
}

// ---- PrefixStore ----

namespace {
Store& checked(const std::shared_ptr<Store>& store) {
  WEFT_CHECK(store != nullptr, "store", "PrefixStore needs a store to stand on, got none");
  return *store;
}
}  // namespace

PrefixStore::PrefixStore(std::string prefix, std::shared_ptr<Store> store)
    : Store(checked(store).timeout()), prefix_(std::move(prefix)), store_(std::move(store)) {
  prefix_ += '/';
}

std::string PrefixStore::prefixed(const std::string& key) const {
  WEFT_CHECK(!key.empty(), "store", "a key must not be empty");
  return prefix_ + key;
}

std::vector<std::string> PrefixStore::prefixed(const std::vector<std::string>& keys) const {
  std::vector<std::string> result;
  result.reserve(keys.size());
  for (const auto& key : keys) result.push_back(prefixed(key));
  return result;
}

void PrefixStore::set(const std::string& key, std::string_view value) { store_->set(prefixed(key), value); }
std::string PrefixStore::get(const std::string& key, Milliseconds timeout) {
  return store_->get(prefixed(key), timeout);
}
std::int64_t PrefixStore::add(const std::string& key, std::int64_t amount) {
  return store_->add(prefixed(key), amount);
}
void PrefixStore::wait(const std::vector<std::string>& keys, Milliseconds timeout) {
  store_->wait(prefixed(keys), timeout);
}
bool PrefixStore::check(const std::vector<std::string>& keys) { return store_->check(prefixed(keys)); }
bool PrefixStore::delete_key(const std::string& key) { return store_->delete_key(prefixed(key)); }

}  // namespace weft
