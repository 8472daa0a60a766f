// What became of the cases of one group, and the comparison that decides it.
//
//   Report report("ops");
//   report.run("softmax.case3", c, [&] { expect_close(softmax(x, 1), want, tolerance_of(c), "output0"); });
//   report.print();          // "ops: 1 passed, 0 failed, 0 skipped"
#pragma once
#include <functional>
#include <string>

#include "tensor/ordered_map.h"
#include "tensor/tree.h"

namespace weft::testing {

// Thrown by a check: the case needs something that Weft does not have.
struct Skip {
  std::string reason;
};

class Report {
 public:
  explicit Report(std::string group) : group_(std::move(group)) {}

  // Runs one case. A Skip is counted under its reason; anything else thrown is a failure, printed at once with the
  // case's name, op and params.
  void run(const std::string& name, const Tree& c, const std::function<void()>& check);
  void skip(const std::string& reason, int64_t cases = 1) { skipped_[reason] += cases; }
  // A file that cannot be read, or whatever else is no single case.
  void fail_all(const std::string& what, const std::string& why);

  int64_t passed() const { return passed_; }
  int64_t failed() const { return failed_; }
  int64_t skipped() const;
  // The group's line, then the reasons for skipping.
  void print() const;

 private:
  std::string group_;
  int64_t passed_ = 0, failed_ = 0;
  OrderedMap<int64_t> skipped_;
};

struct Tolerance {
  double rtol = 0;
  double atol = 0;
};
// The case's own; exact where it has none.
Tolerance tolerance_of(const Tree& c);

// Throws weft::Error with the first difference, naming `what`. Shapes and dtypes must be equal; |got - want| <=
// atol + rtol · |want|; NaN equals NaN, infinities are equal by sign, integers are compared exactly.
void expect_close(const Tensor& got, const Tensor& want, Tolerance tolerance, const std::string& what);
void expect_close(double got, double want, Tolerance tolerance, const std::string& what);
// For data of JSON: equal trees.
void expect_equal(const Tree& got, const Tree& want, std::string_view what);
// `f` must throw a weft::Error, whatever its text.
void expect_throws(const std::function<void()>& f);

}  // namespace weft::testing
