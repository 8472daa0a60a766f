// Writes the seeds into folders: make_corpus FOLDER gives one folder a target,
// FOLDER/safetensors_fuzz and so on.
#include <cstdio>
#include <exception>
#include <filesystem>

#include "tensor/file.h"
#include "tests/fuzz/properties.h"

namespace {

void write_all(const std::filesystem::path& folder, const std::vector<std::string>& seeds) {
  std::filesystem::create_directories(folder);
  for (size_t i = 0; i < seeds.size(); ++i) weft::write_file(folder / ("seed" + std::to_string(i)), seeds[i]);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_corpus FOLDER\n");
    return 2;
  }
  try {
    write_all(std::filesystem::path(argv[1]) / "safetensors_fuzz", weft::fuzz::safetensors_seeds());
    write_all(std::filesystem::path(argv[1]) / "json_fuzz", weft::fuzz::json_seeds());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "make_corpus: %s\n", error.what());
    return 1;
  }
}
