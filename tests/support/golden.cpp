#include "tests/support/golden.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>

#include "tensor/factory.h"
#include "tensor/file.h"
#include "tensor/json.h"

namespace weft::testing {

namespace fs = std::filesystem;

fs::path goldens_folder() {
  const char* given = std::getenv("WEFT_GOLDENS");
  return given && *given ? fs::path(given) : fs::path("../shared/goldens");
}

std::vector<std::string> golden_names(const fs::path& folder) {
  if (!fs::is_directory(folder))
    fail(ErrorCode::not_found, "goldens", "{}: no such folder (WEFT_GOLDENS names another)", folder.string());
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

GoldenFile load_golden(const fs::path& folder, const std::string& name) {
  GoldenFile file;
  file.name = name;
  file.group = name.substr(0, name.find('_'));
  const fs::path index = folder / (name + ".json");
  file.index = parse_json(read_file(index), index.string());
  const fs::path tensors = folder / (name + ".safetensors");
  if (fs::exists(tensors)) file.tensors = load_safetensors(tensors).tensors;
  return file;
}

double golden_number(const Tree& value) {
  if (!value.is_string()) return value.as_double();
  if (value.as_string() == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (value.as_string() == "inf") return std::numeric_limits<double>::infinity();
  if (value.as_string() == "-inf") return -std::numeric_limits<double>::infinity();
  fail(ErrorCode::corrupt_data, "goldens", "expected a number, got \"{}\"", printable(value.as_string()));
}

DType golden_dtype(std::string_view name) {
  // In the order of DType.
  constexpr std::array<std::string_view, kDTypeCount> long_names = {
      "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2",
      "int64",   "int32",   "int16",   "int8",     "uint8",         "bool"};
  for (size_t i = 0; i < long_names.size(); ++i) {
    const auto dtype = static_cast<DType>(i);
    if (name == long_names[i] || name == weft::name(dtype)) return dtype;
  }
  fail(ErrorCode::unsupported, "goldens", "unknown dtype {}; known are {}", printable(name),
       fmt::join(long_names, " "));
}

bool is_golden_tensor(const Tree& value) {
  return value.is_map() && value.size() == 3 && value.contains("shape") && value.contains("dtype") &&
         value.contains("data");
}

Tensor golden_tensor(const Tree& value) {
  std::vector<int64_t> sizes;
  for (const Tree& size : value.at("shape").as_list()) sizes.push_back(size.as_int());
  const Shape shape(sizes);
  const DType dtype = golden_dtype(value.at("dtype").as_string());
  const Tree::List& data = value.at("data").as_list();
  if (static_cast<int64_t>(data.size()) != shape.numel())
    fail(ErrorCode::corrupt_data, "goldens", "{} values for the shape {}", data.size(), shape);
  Tensor result = empty(shape, dtype);
  visit_all(dtype, "goldens", [&](auto type) {
    using T = typename decltype(type)::type;
    T* out = data.empty() ? nullptr : result.data<T>();
    for (const Tree& element : data) {
      if constexpr (std::is_same_v<T, bool>) {
        *out++ = element.is_bool() ? element.as_bool() : element.as_int() != 0;
      } else if constexpr (std::is_integral_v<T>) {
        const int64_t number = element.as_int();
        if (!std::in_range<T>(number)) fail(ErrorCode::corrupt_data, "goldens", "{} does not fit {}", number, dtype);
        *out++ = static_cast<T>(number);
      } else if constexpr (std::is_same_v<T, double>) {
        *out++ = golden_number(element);
      } else {
        *out++ = T(static_cast<float>(golden_number(element)));
      }
    }
  });
  return result;
}

}  // namespace weft::testing
