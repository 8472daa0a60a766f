// Reads a folder of golden values: `<group>_<topic>.json`, an index, and beside some of them a safetensors file with the
// tensors it names. The folder's README has the format.
//
//   for (const std::string& name : golden_names(goldens_folder())) {
//     GoldenFile file = load_golden(goldens_folder(), name);
//     for (const Tree& c : file.index["cases"].as_list()) … file.tensor(c["inputs"][0].as_string()) …
//   }
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "tensor/safetensors.h"
#include "tensor/tree.h"

namespace weft::testing {

// The environment's WEFT_GOLDENS, else ../shared/goldens seen from the source root, where tests run. It may be missing;
// a test then skips.
std::filesystem::path goldens_folder();
// "accel_gather", "ops_binary", …: the index files there, sorted. Throws not_found where there is no such folder.
std::vector<std::string> golden_names(const std::filesystem::path& folder);

struct GoldenFile {
  std::string name;   // "ops_binary"
  std::string group;  // "ops"
  Tree index;
  StateDict tensors;  // empty for JSON alone
  const Tensor& tensor(std::string_view tensor_name) const { return tensors.at(tensor_name); }
};
GoldenFile load_golden(const std::filesystem::path& folder, const std::string& name);

// A number, or one of the strings "nan", "inf", "-inf".
double golden_number(const Tree& value);
// "float32" or Weft's own "f32"; throws for an unknown one.
DType golden_dtype(std::string_view name);
// Whether it is a map with shape, dtype and data, and nothing else.
bool is_golden_tensor(const Tree& value);
// The tensor such a map stands for: flat data in row-major order.
Tensor golden_tensor(const Tree& value);

}  // namespace weft::testing
