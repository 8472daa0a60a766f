#include "data/failure.h"

namespace weft::data {

void rethrow_at(std::string_view op, const std::string& place) {
  ErrorCode code = ErrorCode::invalid_argument;
  std::string text = "unknown exception";
  try {
    throw;
  } catch (const Error& error) {
    code = error.code();
    text = error.what();
    constexpr std::string_view prefix = "weft::Error ";
    if (text.compare(0, prefix.size(), prefix) == 0) text.erase(0, prefix.size());
  } catch (const std::exception& error) {
    text = error.what();
  } catch (...) {  // not one of the standard library's: it travels nested
  }
  std::throw_with_nested(Error(code, op, fmt::format("{}: {}", place, text)));
}

}  // namespace weft::data
