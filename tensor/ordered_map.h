// OrderedMap: a map from names that keeps the order of insertion.
//
//   OrderedMap<int> sizes{{"fc1", 64}, {"fc2", 10}};
//   sizes["fc3"] = 3;
//   for (auto& [name, size] : sizes) …            // fc1, fc2, fc3
//
// Whatever is saved, printed or sent to other ranks walks through names in this order, never in that of a hash. Lookup
// is a scan while the map is small and a tree search after that. A reference to a value holds until the value is erased
// (so map["b"] = map["a"] is fine); iterators hold until the next insertion.
#pragma once
#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/base/error.h"

namespace weft {

template <class V>
class OrderedMap {
 public:
  using value_type = std::pair<const std::string, V>;

 private:
  using Entries = std::vector<std::unique_ptr<value_type>>;

  // Walks the entries, seen through their pointers.
  template <class Entry>
  class Iterator {
   public:
    using iterator_category = std::bidirectional_iterator_tag;
    using value_type = OrderedMap::value_type;
    using difference_type = std::ptrdiff_t;
    using pointer = Entry*;
    using reference = Entry&;
    Iterator() = default;
    explicit Iterator(typename Entries::const_iterator at) : at_(at) {}
    operator Iterator<const Entry>() const { return Iterator<const Entry>(at_); }
    Entry& operator*() const { return **at_; }
    Entry* operator->() const { return at_->get(); }
    Iterator& operator++() { return ++at_, *this; }
    Iterator& operator--() { return --at_, *this; }
    Iterator operator++(int) { return Iterator(at_++); }
    Iterator operator--(int) { return Iterator(at_--); }
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    typename Entries::const_iterator at_;
  };

 public:
  using iterator = Iterator<value_type>;
  using const_iterator = Iterator<const value_type>;

  OrderedMap() = default;
  // Throws when a name comes twice.
  OrderedMap(std::initializer_list<value_type> entries) {
    for (const auto& entry : entries) insert(entry.first, entry.second);
  }
  OrderedMap(const OrderedMap& other) {
    entries_.reserve(other.entries_.size());
    for (const auto& entry : other.entries_) entries_.push_back(std::make_unique<value_type>(*entry));
    if (other.index_) index_ = std::make_unique<Index>(*other.index_);
  }
  OrderedMap(OrderedMap&&) noexcept = default;
  OrderedMap& operator=(const OrderedMap& other) {
    if (this != &other) *this = OrderedMap(other);
    return *this;
  }
  OrderedMap& operator=(OrderedMap&&) noexcept = default;
  ~OrderedMap() = default;

  size_t size() const noexcept { return entries_.size(); }
  bool empty() const noexcept { return entries_.empty(); }
  iterator begin() noexcept { return iterator(entries_.begin()); }
  iterator end() noexcept { return iterator(entries_.end()); }
  const_iterator begin() const noexcept { return const_iterator(entries_.begin()); }
  const_iterator end() const noexcept { return const_iterator(entries_.end()); }

  iterator find(std::string_view key) { return iterator(place(position(key))); }
  const_iterator find(std::string_view key) const { return const_iterator(place(position(key))); }
  bool contains(std::string_view key) const { return position(key) < entries_.size(); }

  // The value of `key`; throws not_found with some of the names there are.
  V& at(std::string_view key) { return const_cast<V&>(std::as_const(*this).at(key)); }
  const V& at(std::string_view key) const {
    const size_t i = position(key);
    if (i == entries_.size()) fail(ErrorCode::not_found, "at", "no \"{}\"; there are: {}", key, some_keys());
    return entries_[i]->second;
  }
  // The value of `key`, made by V{} at the end of the map where there is none.
  V& operator[](std::string_view key) {
    const size_t i = position(key);
    return i < entries_.size() ? entries_[i]->second : append(std::string(key), V{});
  }
  // Adds at the end; throws when the name is taken.
  V& insert(std::string key, V value) {
    if (contains(key)) fail(ErrorCode::invalid_argument, "insert", "\"{}\" is there already", key);
    return append(std::move(key), std::move(value));
  }
  // Removes `key` and says whether it was there; the others keep their order.
  bool erase(std::string_view key) {
    const size_t i = position(key);
    if (i == entries_.size()) return false;
    entries_.erase(place(i));
    if (index_) rebuild_index();
    return true;
  }
  void clear() {
    entries_.clear();
    index_.reset();
  }

  // "a, b, c … (120 in all)", for error texts.
  std::string some_keys() const {
    constexpr size_t shown = 12;
    std::string text;
    for (size_t i = 0; i < std::min(shown, entries_.size()); ++i) text += (i ? ", " : "") + entries_[i]->first;
    if (entries_.size() > shown) text += fmt::format(" … ({} in all)", entries_.size());
    return entries_.empty() ? "(none)" : text;
  }

 private:
  using Index = std::map<std::string, size_t, std::less<>>;
  static constexpr size_t kScanLimit = 12;

  typename Entries::const_iterator place(size_t i) const { return entries_.begin() + static_cast<std::ptrdiff_t>(i); }
  // Where `key` stands, or size().
  size_t position(std::string_view key) const {
    if (index_) {
      const auto found = index_->find(key);
      return found == index_->end() ? entries_.size() : found->second;
    }
    size_t i = 0;
    while (i < entries_.size() && entries_[i]->first != key) ++i;
    return i;
  }
  V& append(std::string key, V value) {
    entries_.push_back(std::make_unique<value_type>(std::move(key), std::move(value)));
    if (index_) {
      index_->emplace(entries_.back()->first, entries_.size() - 1);
    } else if (entries_.size() > kScanLimit) {
      rebuild_index();
    }
    return entries_.back()->second;
  }
  void rebuild_index() {
    index_ = std::make_unique<Index>();
    for (size_t i = 0; i < entries_.size(); ++i) index_->emplace(entries_[i]->first, i);
  }

  Entries entries_;
  std::unique_ptr<Index> index_;  // only beyond kScanLimit entries
};

}  // namespace weft
