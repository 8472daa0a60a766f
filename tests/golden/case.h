// One case of an ops file: its operands and parameters, as torch names them.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "autograd/ops/ops.h"
#include "tests/golden/groups.h"

namespace weft::testing {

// Parameters by name. What an op reads is noted, so that one it does not know is noticed.
class Params {
 public:
  explicit Params(const Tree& params) : params_(params) {}

  bool has(const std::string& name) const {
    read_.insert(name);
    return params_.contains(name) && !params_[name].is_null();
  }
  const Tree& get(const std::string& name) const {
    read_.insert(name);
    return params_.at(name);
  }
  double real(const std::string& name) const { return golden_number(get(name)); }
  double real(const std::string& name, double otherwise) const { return has(name) ? real(name) : otherwise; }
  int64_t integer(const std::string& name) const { return get(name).as_int(); }
  int64_t integer(const std::string& name, int64_t otherwise) const { return has(name) ? integer(name) : otherwise; }
  bool flag(const std::string& name, bool otherwise = false) const {
    return has(name) ? get(name).as_bool() : otherwise;
  }
  const std::string& text(const std::string& name) const { return get(name).as_string(); }
  // A list of integers, one integer, or null (none).
  Shape list(const std::string& name) const {
    if (!has(name)) return {};
    if (get(name).is_int()) return {integer(name)};
    std::vector<int64_t> values;
    for (const Tree& value : get(name).as_list()) values.push_back(value.as_int());
    return values;
  }
  std::array<int64_t, 2> pair(const std::string& name) const {
    const Shape values = list(name);
    return {values[0], values[1]};
  }
  // Throws Skip for a parameter that is set and was not read.
  void check_all_read(const std::string& op) const {
    for (const auto& [name, value] : params_.as_map())
      if (!value.is_null() && !read_.count(name)) throw Skip{fmt::format("{} with {}", op, name)};
  }

 private:
  const Tree& params_;
  mutable std::set<std::string> read_;
};

struct OpArguments {
  Params params;
  std::vector<Tensor> in;  // after the views
};

using OpFunction = std::function<std::vector<Tensor>(const OpArguments&)>;
// The op of this name, or an empty function.
OpFunction find_op(const std::string& name);

}  // namespace weft::testing
