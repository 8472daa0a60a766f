// Trees in files: one safetensors container holds the tensors, its metadata entry "weft.tree" the rest as JSON.
//
//   save_tree(optimizer.state(), "optimizer.safetensors");
//   Tree state = load_tree("optimizer.safetensors");
//
// In the JSON a tensor is {"$tensor": "its name in the file"}; a number that JSON lacks is {"$real": "nan"}, "inf" or
// "-inf"; a key of the tree's own that begins with '$' gets a second one. A tensor's name is its place, "param_groups.0.lr".
#pragma once
#include <filesystem>
#include <span>
#include <string>

#include "tensor/safetensors.h"
#include "tensor/tree.h"

namespace weft {

// Writes the file in one step, see AtomicFile. Tensors that are the same in several places are stored once and are the
// same again when loaded.
void save_tree(const Tree& tree, const std::filesystem::path& path);
std::string to_tree_file(const Tree& tree);

// Reads it back. Throws corrupt_data for a safetensors file without a tree, or one whose JSON and tensors do not fit.
Tree load_tree(const std::filesystem::path& path, LoadOptions options = {});
Tree parse_tree_file(std::span<const std::byte> file, std::string_view origin = "tree");

}  // namespace weft
