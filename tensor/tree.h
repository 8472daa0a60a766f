// Tree: what a program passes around and saves that is more than one tensor. A batch, an optimizer's state, a
// configuration: tensors, numbers, strings and null in lists and maps, nested. Also Weft's picture of a JSON text.
//
//   Tree batch;
//   batch["input"] = x;
//   batch["sizes"] = Tree::list({3, 5});
//   Tree moved = batch.map_tensors([](const Tensor& t) { return t.to(bf16); });
//   Tensor input = moved["input"];
//   save_tree(batch, "batch.safetensors");       // tensor/tree_file.h
//
// Maps keep the order of insertion. Copying a tree copies the tensors' handles, not their data. Reading the wrong kind
// or a missing key throws invalid_argument or not_found and says what there is.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "tensor/ordered_map.h"
#include "tensor/tensor.h"

namespace weft {

class Tree {
 public:
  using List = std::vector<Tree>;
  using Map = OrderedMap<Tree>;
  enum class Kind : uint8_t { null, boolean, integer, real, string, tensor, list, map };

  Tree() = default;
  Tree(std::nullptr_t) {}
  template <class T>
  requires(std::is_integral_v<T> || std::is_floating_point_v<T>) Tree(T value) {
    if constexpr (std::is_same_v<T, bool>) {
      value_ = value;
    } else if constexpr (std::is_floating_point_v<T>) {
      value_ = static_cast<double>(value);
    } else {
      WEFT_CHECK(std::in_range<int64_t>(value), "tree", "{} does not fit a 64-bit signed integer", value);
      value_ = static_cast<int64_t>(value);
    }
  }
  Tree(const char* text) : value_(std::string(text)) {}
  Tree(std::string_view text) : value_(std::string(text)) {}
  Tree(std::string text) : value_(std::move(text)) {}
  Tree(Tensor tensor) : value_(std::move(tensor)) {}
  Tree(List list) : value_(std::move(list)) {}
  Tree(Map map) : value_(std::move(map)) {}
  Tree(const Tree&) = default;
  Tree(Tree&&) noexcept = default;
  // By value, so that a tree may become one of its own parts: tree = tree["input"].
  Tree& operator=(Tree other) noexcept {
    value_.swap(other.value_);
    return *this;
  }
  ~Tree() = default;
  static Tree list(std::initializer_list<Tree> values = {}) { return Tree(List(values)); }
  // Tree::map({{"loss", 0.5}, {"step", 3}})
  static Tree map(std::initializer_list<Map::value_type> entries = {}) { return Tree(Map(entries)); }

  Kind kind() const noexcept { return static_cast<Kind>(value_.index()); }
  bool is_null() const noexcept { return kind() == Kind::null; }
  bool is_bool() const noexcept { return kind() == Kind::boolean; }
  bool is_int() const noexcept { return kind() == Kind::integer; }
  bool is_double() const noexcept { return kind() == Kind::real; }
  bool is_number() const noexcept { return is_int() || is_double(); }
  bool is_string() const noexcept { return kind() == Kind::string; }
  bool is_tensor() const noexcept { return kind() == Kind::tensor; }
  bool is_list() const noexcept { return kind() == Kind::list; }
  bool is_map() const noexcept { return kind() == Kind::map; }

  bool as_bool() const { return get<bool>(Kind::boolean); }
  int64_t as_int() const { return get<int64_t>(Kind::integer); }
  // An integer is taken too.
  double as_double() const { return is_int() ? static_cast<double>(as_int()) : get<double>(Kind::real); }
  const std::string& as_string() const { return get<std::string>(Kind::string); }
  const Tensor& as_tensor() const { return get<Tensor>(Kind::tensor); }
  const List& as_list() const { return get<List>(Kind::list); }
  List& as_list() { return const_cast<List&>(std::as_const(*this).as_list()); }
  const Map& as_map() const { return get<Map>(Kind::map); }
  Map& as_map() { return const_cast<Map&>(std::as_const(*this).as_map()); }
  // model(batch["input"]) reads as it should.
  operator const Tensor&() const { return as_tensor(); }

  // A map's entry. On a tree that may change, null becomes a map and a missing key is added with null.
  Tree& operator[](std::string_view key);
  const Tree& operator[](std::string_view key) const { return at(key); }
  const Tree& at(std::string_view key) const;
  bool contains(std::string_view key) const { return as_map().contains(key); }
  // A list's element; a negative index counts from the end.
  Tree& operator[](int64_t index) { return const_cast<Tree&>(std::as_const(*this)[index]); }
  const Tree& operator[](int64_t index) const;
  Tree& operator[](int index) { return (*this)[static_cast<int64_t>(index)]; }
  const Tree& operator[](int index) const { return (*this)[static_cast<int64_t>(index)]; }
  // Adds to a list; null becomes one.
  void push_back(Tree value);
  // Elements of a list or entries of a map.
  int64_t size() const;

  // f(const Tensor&) for every tensor, in order.
  template <class F>
  void for_each_tensor(F&& f) const {
    if (is_tensor()) {
      f(as_tensor());
    } else if (is_list()) {
      for (const Tree& child : as_list()) child.for_each_tensor(f);
    } else if (is_map()) {
      for (const auto& entry : as_map()) entry.second.for_each_tensor(f);
    }
  }
  // The same tree with f(tensor) in place of every tensor; f may give anything a Tree can be.
  template <class F>
  Tree map_tensors(F&& f) const {
    if (is_tensor()) return Tree(f(as_tensor()));
    if (is_list()) {
      List result;
      result.reserve(as_list().size());
      for (const Tree& child : as_list()) result.push_back(child.map_tensors(f));
      return Tree(std::move(result));
    }
    if (is_map()) {
      Map result;
      for (const auto& [key, child] : as_map()) result.insert(key, child.map_tensors(f));
      return Tree(std::move(result));
    }
    return *this;
  }

  // The same structure and the same values: tensors of equal dtype, shape and bits (CPU only), numbers of the same kind
  // and bits (so NaN equals NaN and 1 is not 1.0), maps with the same keys in the same order.
  friend bool operator==(const Tree& a, const Tree& b);

 private:
  template <class T>
  const T& get(Kind wanted) const {
    if (const T* value = std::get_if<T>(&value_)) return *value;
    wrong_kind(wanted);
  }
  [[noreturn]] void wrong_kind(Kind wanted) const;

  // In the order of Kind.
  std::variant<std::nullptr_t, bool, int64_t, double, std::string, Tensor, List, Map> value_ = nullptr;
};

// "null", "bool", "integer", "real", "string", "tensor", "list", "map".
std::string_view name(Tree::Kind kind);

// The same nesting: lists of equal length, maps with the same keys in the same order, and leaves of the same kind.
// Values, dtypes and shapes may differ.
bool same_structure(const Tree& a, const Tree& b);

// One line: {"input": f32[2, 3], "sizes": [3, 5], "note": null}
std::string to_string(const Tree& tree);
std::ostream& operator<<(std::ostream& out, const Tree& tree);

}  // namespace weft

template <>
struct fmt::formatter<weft::Tree> : fmt::formatter<std::string_view> {
  fmt::appender format(const weft::Tree& tree, fmt::format_context& context) const;
};
