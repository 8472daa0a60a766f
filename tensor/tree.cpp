#include "tensor/tree.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <ostream>

#include "tensor/device.h"
#include "tensor/json.h"

namespace weft {

namespace {

bool same_bits(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.is(b)) return true;
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape()) || a.device() != b.device()) return false;
  if (a.numel() == 0) return true;
  const Tensor x = detail::on_host(a);
  const Tensor y = detail::on_host(b);
  return std::memcmp(x.data(), y.data(), static_cast<size_t>(x.nbytes())) == 0;
}

void write(const Tree& tree, std::string& out) {
  switch (tree.kind()) {
    case Tree::Kind::null: out += "null"; return;
    case Tree::Kind::boolean: out += tree.as_bool() ? "true" : "false"; return;
    case Tree::Kind::integer: out += std::to_string(tree.as_int()); return;
    case Tree::Kind::real: out += fmt::format("{}", tree.as_double()); return;
    case Tree::Kind::string: out += '"' + printable(tree.as_string(), 1000) + '"'; return;
    case Tree::Kind::tensor: out += describe(tree.as_tensor()); return;
    case Tree::Kind::list: {
      out += '[';
      for (const Tree& child : tree.as_list()) {
        if (&child != &tree.as_list().front()) out += ", ";
        write(child, out);
      }
      out += ']';
      return;
    }
    case Tree::Kind::map: {
      out += '{';
      bool first = true;
      for (const auto& [key, child] : tree.as_map()) {
        if (!first) out += ", ";
        first = false;
        out += '"' + printable(key) + "\": ";
        write(child, out);
      }
      out += '}';
      return;
    }
  }
}

}  // namespace

std::string_view name(Tree::Kind kind) {
  constexpr std::string_view names[] = {"null", "bool", "integer", "real", "string", "tensor", "list", "map"};
  return names[static_cast<int>(kind)];
}

void Tree::wrong_kind(Kind wanted) const {
  std::string got(name(kind()));
  if (is_map()) got += " with the keys " + as_map().some_keys();
  if (is_list()) got += fmt::format(" of {}", as_list().size());
  fail(ErrorCode::invalid_argument, "tree", "expected {}, got {}", name(wanted), got);
}

Tree& Tree::operator[](std::string_view key) {
  if (is_null()) value_ = Map();
  return as_map()[key];
}

const Tree& Tree::at(std::string_view key) const {
  const Map& map = as_map();
  const auto found = map.find(key);
  if (found == map.end())
    fail(ErrorCode::not_found, "tree", "no key \"{}\"; there are: {}", printable(key), map.some_keys());
  return found->second;
}

const Tree& Tree::operator[](int64_t index) const {
  const List& list = as_list();
  const auto count = static_cast<int64_t>(list.size());
  const int64_t wrapped = index < 0 ? index + count : index;
  WEFT_CHECK(wrapped >= 0 && wrapped < count, "tree", "index {} is out of range for a list of {}", index, count);
  return list[static_cast<size_t>(wrapped)];
}

void Tree::push_back(Tree value) {
  if (is_null()) value_ = List();
  as_list().push_back(std::move(value));
}

int64_t Tree::size() const { return static_cast<int64_t>(is_list() ? as_list().size() : as_map().size()); }

bool operator==(const Tree& a, const Tree& b) {
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Tree::Kind::null: return true;
    case Tree::Kind::boolean: return a.as_bool() == b.as_bool();
    case Tree::Kind::integer: return a.as_int() == b.as_int();
    case Tree::Kind::real: return std::bit_cast<uint64_t>(a.as_double()) == std::bit_cast<uint64_t>(b.as_double());
    case Tree::Kind::string: return a.as_string() == b.as_string();
    case Tree::Kind::tensor: return same_bits(a.as_tensor(), b.as_tensor());
    case Tree::Kind::list: return a.as_list() == b.as_list();
    case Tree::Kind::map:
      return a.as_map().size() == b.as_map().size() &&
             std::equal(a.as_map().begin(), a.as_map().end(), b.as_map().begin(),
                        [](const auto& x, const auto& y) { return x.first == y.first && x.second == y.second; });
  }
  return false;
}

bool same_structure(const Tree& a, const Tree& b) {
  if (a.kind() != b.kind()) return false;
  if (a.is_list())
    return std::equal(a.as_list().begin(), a.as_list().end(), b.as_list().begin(), b.as_list().end(), same_structure);
  if (a.is_map())
    return std::equal(
        a.as_map().begin(), a.as_map().end(), b.as_map().begin(), b.as_map().end(),
        [](const auto& x, const auto& y) { return x.first == y.first && same_structure(x.second, y.second); });
  return true;
}

std::string to_string(const Tree& tree) {
  std::string out;
  write(tree, out);
  return out;
}

std::ostream& operator<<(std::ostream& out, const Tree& tree) { return out << to_string(tree); }

}  // namespace weft

fmt::appender fmt::formatter<weft::Tree>::format(const weft::Tree& tree, fmt::format_context& context) const {
  return fmt::formatter<std::string_view>::format(weft::to_string(tree), context);
}
