// The one exception type of the library.
//
//   WEFT_CHECK(lhs.size(1) == rhs.size(0), "matmul", "inner dimensions differ: {} × {}", lhs, rhs);
//
// Its text always reads  weft::Error [op] what happened; expected …, got …, what to do.
// Library code never exits, aborts or prints; a program catches weft::Error at its edge.
#pragma once
// fmt 9 takes nvcc for a compiler without constexpr functions.
#if defined(__CUDACC__) && !defined(FMT_USE_CONSTEXPR)
#define FMT_USE_CONSTEXPR 1
#endif
#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace weft {

// What kind of failure it was, for programs that react to it (the text is for people).
enum class ErrorCode {
  invalid_argument,  // a wrong shape, dtype, option or value from the caller
  not_found,         // a missing file, key or name
  corrupt_data,      // a file or message that does not keep its format
  io,                // the operating system refused a read, write, socket …
  out_of_memory,
  unsupported,  // valid, but not available for this dtype, device or build
  mismatch,     // ranks disagree about a collective
  timeout,      // another rank did not answer in time
  peer_lost,    // another rank has gone
  internal,     // a broken promise of the library itself: please report
};

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, std::string_view op, std::string_view message)
      : std::runtime_error(fmt::format("weft::Error [{}] {}", op, message)), code_(code), op_(op) {}
  ErrorCode code() const noexcept { return code_; }
  // The operation that failed, for example "matmul".
  const std::string& op() const noexcept { return op_; }

 private:
  ErrorCode code_;
  std::string op_;
};

template <class... Args>
[[noreturn]] void fail(ErrorCode code, std::string_view op, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(code, op, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace weft

// Throws invalid_argument unless `condition` holds. The text is formatted only then.
#define WEFT_CHECK(condition, op, ...)                                      \
  do {                                                                      \
    if (!(condition)) [[unlikely]]                                          \
      ::weft::fail(::weft::ErrorCode::invalid_argument, (op), __VA_ARGS__); \
  } while (false)
