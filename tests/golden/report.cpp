#include "tests/golden/report.h"

#include <cmath>
#include <cstdio>

#include "tensor/json.h"

namespace weft::testing {
namespace {

void print_line(const std::string& text) {
  std::fputs((text + "\n").c_str(), stdout);
  std::fflush(stdout);
}

// Position i, counted in row-major order, as indices.
Shape position(const Shape& shape, int64_t i) {
  Shape result = shape;
  for (int d = shape.size() - 1; d >= 0; --d) {
    result[d] = i % shape[d];
    i /= shape[d];
  }
  return result;
}

bool is_close(double got, double want, Tolerance tolerance) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want) || std::isinf(got)) return got == want;
  return std::abs(got - want) <= tolerance.atol + tolerance.rtol * std::abs(want);
}

std::string description(const Tree& c) {
  std::string text;
  for (const char* key : {"op", "params", "note"})
    if (c.is_map() && c.contains(key)) text += fmt::format("{} {}", text.empty() ? "" : ",", to_json(c[key]));
  return text.empty() && c.is_map() ? " " + to_json(c).substr(0, 400) : text;
}

}  // namespace

void Report::run(const std::string& name, const Tree& c, const std::function<void()>& check) {
  try {
    check();
    ++passed_;
  } catch (const Skip& reason) {
    skip(reason.reason);
  } catch (const std::exception& error) {
    ++failed_;
    print_line(fmt::format("FAILED {}:{}\n  {}", name, description(c), error.what()));
  }
}

void Report::fail_all(const std::string& what, const std::string& why) {
  ++failed_;
  print_line(fmt::format("FAILED {}: {}", what, why));
}

int64_t Report::skipped() const {
  int64_t total = 0;
  for (const auto& entry : skipped_) total += entry.second;
  return total;
}

void Report::print() const {
  print_line(fmt::format("{}: {} passed, {} failed, {} skipped", group_, passed_, failed_, skipped()));
  for (const auto& [reason, count] : skipped_) print_line(fmt::format("  skipped {}: {}", count, reason));
}

Tolerance tolerance_of(const Tree& c) {
  if (!c.contains("rtol")) return {};
  return {c["rtol"].as_double(), c.contains("atol") ? c["atol"].as_double() : 0};
}

void expect_close(double got, double want, Tolerance tolerance, const std::string& what) {
  if (!is_close(got, want, tolerance))
    fail(ErrorCode::internal, "golden", "{}: got {:.9g}, expected {:.9g}", what, got, want);
}

void expect_close(const Tensor& got, const Tensor& want, Tolerance tolerance, const std::string& what) {
  if (!got.defined()) fail(ErrorCode::internal, "golden", "{}: got none, expected {}", what, describe(want));
  if (got.dtype() != want.dtype() || got.shape() != want.shape())
    fail(ErrorCode::internal, "golden", "{}: got {}, expected {}", what, describe(got), describe(want));
  const auto differ = [&](int64_t i, auto a, auto b) {
    fail(ErrorCode::internal, "golden", "{}: at {} got {:.17g}, expected {:.17g} (rtol {}, atol {})", what,
         position(want.shape(), i), a, b, tolerance.rtol, tolerance.atol);
  };
  if (!is_floating(want.dtype())) {
    const Tensor a = got.detach().to(cpu_device).to(i64).contiguous(), b = want.to(i64).contiguous();
    for (int64_t i = 0; i < b.numel(); ++i)
      if (a.data<int64_t>()[i] != b.data<int64_t>()[i])
        differ(i, static_cast<double>(a.data<int64_t>()[i]), static_cast<double>(b.data<int64_t>()[i]));
    return;
  }
  const std::vector<double> a = got.detach().to_vector(), b = want.to_vector();
  for (size_t i = 0; i < b.size(); ++i)
    if (!is_close(a[i], b[i], tolerance)) differ(static_cast<int64_t>(i), a[i], b[i]);
}

void expect_equal(const Tree& got, const Tree& want, std::string_view what) {
  if (!(got == want))
    fail(ErrorCode::internal, "golden", "{}: got {}, expected {}", what, to_string(got), to_string(want));
}

void expect_throws(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error&) {
    return;
  }
  fail(ErrorCode::internal, "golden", "expected an error, got none");
}

}  // namespace weft::testing
