#include "tensor/tree_file.h"

#include <cmath>
#include <limits>

#include "tensor/json.h"

namespace weft {

namespace {

constexpr std::string_view kTreeKey = "weft.tree";

std::string join(const std::string& place, std::string_view key) {
  return place.empty() ? std::string(key) : fmt::format("{}.{}", place, key);
}

// The tree with {"$tensor": name} in place of tensors, which go to `tensors`.
Tree skeleton(const Tree& tree, const std::string& place, StateDict& tensors) {
  if (tree.is_tensor()) {
    WEFT_CHECK(tree.as_tensor().defined(), "save_tree", "the tensor at {} is undefined",
               place.empty() ? "the root" : printable(place));
    // A key may be empty, or hold what the format does not take for a name.
    const std::string base = place.empty() || place.find('\0') != std::string::npos ? "tensor" : place;
    std::string name = base;
    // "a.b" may be one key or two.
    for (int again = 2; tensors.contains(name) || name == "__metadata__"; ++again)
      name = fmt::format("{}#{}", base, again);
    tensors.insert(name, tree.as_tensor());
    return Tree::map({{"$tensor", name}});
  }
  if (tree.is_double() && !std::isfinite(tree.as_double())) {
    const double value = tree.as_double();
    return Tree::map({{"$real", std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"}});
  }
  if (tree.is_list()) {
    Tree list = Tree::list();
    int64_t i = 0;
    for (const Tree& child : tree.as_list()) list.push_back(skeleton(child, join(place, std::to_string(i++)), tensors));
    return list;
  }
  if (tree.is_map()) {
    Tree map = Tree::map();
    for (const auto& [key, child] : tree.as_map())
      map[key.starts_with('$') ? "$" + key : key] = skeleton(child, join(place, key), tensors);
    return map;
  }
  return tree;
}

class Restorer {
 public:
  Restorer(const StateDict& tensors, std::string_view origin) : tensors_(tensors), origin_(origin) {}

  Tree restore(const Tree& tree) {
    if (tree.is_list()) {
      Tree list = Tree::list();
      for (const Tree& child : tree.as_list()) list.push_back(restore(child));
      return list;
    }
    if (!tree.is_map()) return tree;
    Tree map = Tree::map();
    for (const auto& [key, child] : tree.as_map()) {
      if (!key.starts_with('$')) {
        map[key] = restore(child);
      } else if (key.starts_with("$$")) {
        map[std::string_view(key).substr(1)] = restore(child);
      } else {
        if (tree.size() != 1 || !child.is_string()) broken("{} must stand alone with a string", printable(key));
        return special(key, child.as_string());
      }
    }
    return map;
  }
  size_t tensors_used() const { return used_.size(); }

 private:
  template <class... Args>
  [[noreturn]] void broken(fmt::format_string<Args...> text, Args&&... args) {
    fail(ErrorCode::corrupt_data, "load_tree", "{}: {}: {}", origin_, kTreeKey,
         fmt::format(text, std::forward<Args>(args)...));
  }
  Tree special(std::string_view key, const std::string& value) {
    if (key == "$tensor") {
      const auto found = tensors_.find(value);
      if (found == tensors_.end()) broken("the file has no tensor {}", printable(value));
      used_[value] = true;
      return found->second;
    }
    if (key == "$real") {
      if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
      if (value == "inf") return std::numeric_limits<double>::infinity();
      if (value == "-inf") return -std::numeric_limits<double>::infinity();
    }
    broken("unknown mark {}: {}", printable(key), printable(value));
  }

  const StateDict& tensors_;
  std::string_view origin_;
  OrderedMap<bool> used_;
};

struct Parts {
  StateDict tensors;
  Metadata metadata;
};

Parts take_apart(const Tree& tree) {
  Parts parts;
  const Tree rest = skeleton(tree, "", parts.tensors);
  parts.metadata[kTreeKey] = to_json(rest);
  return parts;
}

Tree put_together(const Safetensors& file, std::string_view origin) {
  const auto text = file.metadata.find(kTreeKey);
  if (text == file.metadata.end())
    fail(ErrorCode::corrupt_data, "load_tree", "{}: a safetensors file, but without a tree (no metadata entry {})",
         origin, kTreeKey);
  const Tree rest = parse_json(text->second, fmt::format("{}: {}", origin, kTreeKey), "load_tree");
  Restorer restorer(file.tensors, origin);
  Tree tree = restorer.restore(rest);
  if (restorer.tensors_used() != file.tensors.size())
    fail(ErrorCode::corrupt_data, "load_tree", "{}: {} of the file's {} tensors are not in its tree", origin,
         file.tensors.size() - restorer.tensors_used(), file.tensors.size());
  return tree;
}

}  // namespace

void save_tree(const Tree& tree, const std::filesystem::path& path) {
  const Parts parts = take_apart(tree);
  save_safetensors(parts.tensors, path, parts.metadata);
}

std::string to_tree_file(const Tree& tree) {
  const Parts parts = take_apart(tree);
  return to_safetensors(parts.tensors, parts.metadata);
}

Tree load_tree(const std::filesystem::path& path, LoadOptions options) {
  return put_together(load_safetensors(path, options), path.string());
}

Tree parse_tree_file(std::span<const std::byte> file, std::string_view origin) {
  return put_together(parse_safetensors(file, origin), origin);
}

}  // namespace weft
