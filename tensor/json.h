// JSON, read strictly: the one place of Weft that parses it.
//
//   Tree config = parse_json(read_file("config.json"), "config.json");
//   int64_t layers = config["n_layer"].as_int();
//   write_file("copy.json", to_json(config, 2));
//
// What is refused, with corrupt_data: anything RFC 8259 refuses, text that is not UTF-8, a key that comes twice in one
// object, nesting beyond a limit, and integers that would lose digits.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "tensor/tree.h"

namespace weft {

// Reads one JSON text. `origin` (a path) opens the error text; `op` names the operation.
Tree parse_json(std::string_view text, std::string_view origin = "JSON", std::string_view op = "parse_json");

// Writes a tree without tensors; indent < 0: one line without spaces. Throws invalid_argument where the tree has
// a tensor, a string that is not UTF-8, or a number that JSON does not have (NaN, infinity). Reals keep a point or an
// exponent and all their digits, so parse_json gives the same tree back.
std::string to_json(const Tree& tree, int indent = -1);

// `text` in JSON's quotes and escapes. Throws invalid_argument when it is not UTF-8.
std::string json_quote(std::string_view text);

// A name fit for one line of an error text or a table: control characters and invalid UTF-8 escaped, and cut after
// `limit` bytes.
std::string printable(std::string_view name, size_t limit = 120);

// The events of a JSON text in order, for readers that check as they go and need no tree. A callback may throw.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual void null() = 0;
  virtual void boolean(bool value) = 0;
  virtual void unsigned_integer(uint64_t value) = 0;
  virtual void negative_integer(int64_t value) = 0;  // also "-0"
  // A number with a point or an exponent, or an integer beyond 64 bits; `text` is as written.
  virtual void real(double value, const std::string& text) = 0;
  virtual void string(std::string& value) = 0;
  virtual void start_object() = 0;
  virtual void key(std::string& value) = 0;
  virtual void end_object() = 0;
  virtual void start_array() = 0;
  virtual void end_array() = 0;
};

// The deepest nesting of arrays and objects that is read.
inline constexpr int kMaxJsonDepth = 200;

void read_json(std::string_view text, std::string_view origin, std::string_view op, JsonEvents& events);

}  // namespace weft
