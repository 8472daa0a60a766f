// Where downloaded data sets lie: $WEFT_DATA_DIR, else build/data (where ./dev puts them).
#pragma once
#include <filesystem>
#include <string_view>

namespace weft::data {

std::filesystem::path data_directory();

// `path`, which must exist; else a not_found error that says how to get it.
const std::filesystem::path& require_data(const std::filesystem::path& path, std::string_view op);

}  // namespace weft::data
