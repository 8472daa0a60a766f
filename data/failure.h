// Errors on their way from a dataset to the loop that reads it: they gain the place where they arose, keep their code,
// and nest the original exception (std::rethrow_if_nested gives it back).
#pragma once
#include <exception>
#include <string>

#include "kernels/base/error.h"

namespace weft::data {

// To be called in a catch block: throws the present exception again as  weft::Error [op] place: original text.
[[noreturn]] void rethrow_at(std::string_view op, const std::string& place);

}  // namespace weft::data
