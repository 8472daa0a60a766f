#include "tensor/json.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

namespace weft {

namespace {

using Base = nlohmann::json_sax<nlohmann::json>;

// Passes nlohmann's events on and keeps the two rules that it leaves to its users: a limit of nesting, and an error
// of our own. (Its error text may hold a token of any length.)
class Adapter final : public Base {
 public:
  Adapter(std::string_view origin, std::string_view op, JsonEvents& events)
      : origin_(origin), op_(op), events_(events) {}
  bool null() override { return events_.null(), true; }
  bool boolean(bool value) override { return events_.boolean(value), true; }
  bool number_integer(number_integer_t value) override { return events_.negative_integer(value), true; }
  bool number_unsigned(number_unsigned_t value) override { return events_.unsigned_integer(value), true; }
  bool number_float(number_float_t value, const string_t& text) override { return events_.real(value, text), true; }
  bool string(string_t& value) override { return events_.string(value), true; }
  bool binary(binary_t&) override { return false; }  // not part of JSON text
  bool start_object(size_t) override { return enter(), events_.start_object(), true; }
  bool key(string_t& value) override { return events_.key(value), true; }
  bool end_object() override { return --depth_, events_.end_object(), true; }
  bool start_array(size_t) override { return enter(), events_.start_array(), true; }
  bool end_array() override { return --depth_, events_.end_array(), true; }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    // Ids of nlohmann's documentation: 406 is a number beyond the range of a double.
    fail(ErrorCode::corrupt_data, op_, "{}: not valid JSON at byte {}{}", origin_, position,
         error.id == 406 ? ": the number is too large" : "");
  }

 private:
  void enter() {
    if (++depth_ > kMaxJsonDepth)
      fail(ErrorCode::corrupt_data, op_, "{}: JSON nested deeper than {} levels", origin_, kMaxJsonDepth);
  }
  std::string_view origin_;
  std::string_view op_;
  JsonEvents& events_;
  int depth_ = 0;
};

class TreeBuilder final : public JsonEvents {
 public:
  TreeBuilder(std::string_view origin, std::string_view op) : origin_(origin), op_(op) {}
  Tree take() { return std::move(root_); }

  void null() override { add(nullptr); }
  void boolean(bool value) override { add(value); }
  void unsigned_integer(uint64_t value) override {
    if (!std::in_range<int64_t>(value)) too_large(std::to_string(value));
    add(value);
  }
  void negative_integer(int64_t value) override { add(value); }
  void real(double value, const std::string& text) override {
    if (text.find_first_of(".eE") == std::string::npos) too_large(text);
    add(value);
  }
  void string(std::string& value) override { add(std::move(value)); }
  void start_object() override { open_.push_back({Tree(Tree::Map()), {}}); }
  void start_array() override { open_.push_back({Tree(Tree::List()), {}}); }
  void key(std::string& value) override {
    if (open_.back().value.contains(value))
      fail(ErrorCode::corrupt_data, op_, "{}: duplicate key {}", origin_, printable(value));
    open_.back().key = std::move(value);
  }
  void end_object() override { close(); }
  void end_array() override { close(); }

 private:
  struct Open {
    Tree value;
    std::string key;  // of the entry that comes next
  };
  void add(Tree value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (open_.back().value.is_list()) {
      open_.back().value.push_back(std::move(value));
    } else {
      open_.back().value[open_.back().key] = std::move(value);
    }
  }
  void close() {
    Tree done = std::move(open_.back().value);
    open_.pop_back();
    add(std::move(done));
  }
  [[noreturn]] void too_large(std::string_view text) {
    fail(ErrorCode::corrupt_data, op_, "{}: the integer {} does not fit 64 bits", origin_, printable(text));
  }

  std::string_view origin_;
  std::string_view op_;
  Tree root_;
  std::vector<Open> open_;
};

std::string real_text(double value) {
  WEFT_CHECK(std::isfinite(value), "to_json", "JSON has no number for {}", value);
  std::string text = fmt::format("{}", value);  // the shortest that reads back to the same bits
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

void write_json(const Tree& tree, int indent, int depth, std::string& out) {
  const auto new_line = [&](int level) {
    if (indent < 0) return;
    out += '\n';
    out.append(static_cast<size_t>(indent) * static_cast<size_t>(level), ' ');
  };
  switch (tree.kind()) {
    case Tree::Kind::null: out += "null"; return;
    case Tree::Kind::boolean: out += tree.as_bool() ? "true" : "false"; return;
    case Tree::Kind::integer: out += std::to_string(tree.as_int()); return;
    case Tree::Kind::real: out += real_text(tree.as_double()); return;
    case Tree::Kind::string: out += json_quote(tree.as_string()); return;
    case Tree::Kind::tensor:
      fail(ErrorCode::invalid_argument, "to_json", "JSON cannot hold {}; save_tree can", describe(tree.as_tensor()));
    case Tree::Kind::list: {
      // Lists of plain values stay on one line: they are shapes, sizes, ids.
      bool nested = false;
      for (const Tree& child : tree.as_list()) nested = nested || child.is_list() || child.is_map();
      out += '[';
      bool first = true;
      for (const Tree& child : tree.as_list()) {
        if (!first) out += indent >= 0 && !nested ? ", " : ",";
        first = false;
        if (nested) new_line(depth + 1);
        write_json(child, indent, depth + 1, out);
      }
      if (nested) new_line(depth);
      out += ']';
      return;
    }
    case Tree::Kind::map: {
      out += '{';
      bool first = true;
      for (const auto& [key, child] : tree.as_map()) {
        if (!first) out += ',';
        first = false;
        new_line(depth + 1);
        out += json_quote(key);
        out += indent < 0 ? ":" : ": ";
        write_json(child, indent, depth + 1, out);
      }
      if (!first) new_line(depth);
      out += '}';
      return;
    }
  }
}

}  // namespace

void read_json(std::string_view text, std::string_view origin, std::string_view op, JsonEvents& events) {
  // nlohmann takes a zero byte for the end of the text and would pass over what follows it; it also skips a byte order
  // mark, which JSON texts must not have.
  const size_t zero = text.find('\0');
  if (zero != std::string_view::npos)
    fail(ErrorCode::corrupt_data, op, "{}: not valid JSON at byte {}: a zero byte", origin, zero + 1);
  if (text.starts_with("\xef\xbb\xbf"))
    fail(ErrorCode::corrupt_data, op, "{}: not valid JSON at byte 1: a byte order mark", origin);
  Adapter adapter(origin, op, events);
  nlohmann::json::sax_parse(text.begin(), text.end(), &adapter);
}

Tree parse_json(std::string_view text, std::string_view origin, std::string_view op) {
  TreeBuilder builder(origin, op);
  read_json(text, origin, op, builder);
  return builder.take();
}

std::string to_json(const Tree& tree, int indent) {
  std::string out;
  write_json(tree, indent, 0, out);
  return out;
}

std::string json_quote(std::string_view text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    fail(ErrorCode::invalid_argument, "json", "\"{}\" is not UTF-8", printable(text));
  }
}

std::string printable(std::string_view name, size_t limit) {
  const bool cut = name.size() > limit;
  if (cut) {
    name = name.substr(0, limit);
    // Not in the middle of a character.
    while (!name.empty() && (static_cast<unsigned char>(name.back()) & 0xc0) == 0x80) name.remove_suffix(1);
    if (!name.empty() && static_cast<unsigned char>(name.back()) >= 0xc0) name.remove_suffix(1);
  }
  std::string text = nlohmann::json(name).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  text = text.substr(1, text.size() - 2);
  // Control characters beyond ASCII's, which a terminal may obey: U+007F to U+009F.
  std::string safe;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (byte == '\\') {
      // Quotes need no escape here; any other stays.
      if (next != '"') safe += text[i];
      safe += text[++i];
    } else if (byte == 0x7f) {
      safe += "\\u007f";
    } else if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {
      safe += fmt::format("\\u{:04x}", next);
      ++i;
    } else {
      safe += text[i];
    }
  }
  return cut ? safe + "…" : safe;
}

}  // namespace weft
