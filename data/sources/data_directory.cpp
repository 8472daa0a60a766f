#include "data/sources/data_directory.h"

#include <cstdlib>

#include "kernels/base/error.h"

namespace weft::data {

std::filesystem::path data_directory() {
  const char* set = std::getenv("WEFT_DATA_DIR");
  return set && *set ? set : "build/data";
}

const std::filesystem::path& require_data(const std::filesystem::path& path, std::string_view op) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    fail(ErrorCode::not_found, op,
         "{} is missing: run ./dev data in the root of the repository, which puts it under build/data, or set "
         "WEFT_DATA_DIR to the folder that has it",
         path.string());
  return path;
}

}  // namespace weft::data
