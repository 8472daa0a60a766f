#include "data/collate.h"

#include <cstring>

#include "tensor/factory.h"

namespace weft::data {
namespace {

using Nodes = std::vector<const Tree*>;

std::string joined(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

std::string quoted(const std::string& path) { return path.empty() ? "" : fmt::format(" in \"{}\"", path); }

template <class T, class Read>
Tensor values_of(const Nodes& nodes, Read&& read) {
  Tensor result = empty({static_cast<int64_t>(nodes.size())}, {.dtype = dtype_of<T>});
  T* out = result.data<T>();
  for (const Tree* node : nodes) *out++ = read(*node);
  return result;
}

void check_same(const Nodes& nodes, const std::string& path) {
  const Tree& first = *nodes.front();
  for (size_t i = 1; i < nodes.size(); ++i) {
    const Tree& other = *nodes[i];
    WEFT_CHECK(other.kind() == first.kind(), "collate",
               "samples differ{}: sample 0 of the batch has a {}, sample {} a {}", quoted(path), name(first.kind()), i,
               name(other.kind()));
    if (first.is_list()) {
      WEFT_CHECK(other.size() == first.size(), "collate",
                 "samples differ{}: sample 0 of the batch has a list of {}, sample {} one of {}", quoted(path),
                 first.size(), i, other.size());
    } else if (first.is_map()) {
      bool same = other.size() == first.size();
      for (const auto& entry : first.as_map()) same = same && other.contains(entry.first);
      WEFT_CHECK(same, "collate", "samples differ{}: sample 0 of the batch has entries {}, sample {} has {}",
                 quoted(path), first.as_map().some_keys(), i, other.as_map().some_keys());
    }
  }
}

Tree collate(const Nodes& nodes, const std::string& path) {
  check_same(nodes, path);
  const Tree& first = *nodes.front();
  switch (first.kind()) {
    case Tree::Kind::null: return nullptr;
    case Tree::Kind::boolean: return values_of<bool>(nodes, [](const Tree& t) { return t.as_bool(); });
    case Tree::Kind::integer: return values_of<int64_t>(nodes, [](const Tree& t) { return t.as_int(); });
    case Tree::Kind::real: return values_of<double>(nodes, [](const Tree& t) { return t.as_double(); });
    case Tree::Kind::string: {
      Tree::List texts;
      for (const Tree* node : nodes) texts.push_back(*node);
      return texts;
    }
    case Tree::Kind::tensor: {
      std::vector<const Tensor*> tensors;
      for (const Tree* node : nodes) tensors.push_back(&node->as_tensor());
      return stack_samples(tensors, path);
    }
    case Tree::Kind::list: {
      Tree::List result;
      Nodes children(nodes.size());
      for (int64_t k = 0; k < first.size(); ++k) {
        for (size_t i = 0; i < nodes.size(); ++i) children[i] = &(*nodes[i])[k];
        result.push_back(collate(children, joined(path, std::to_string(k))));
      }
      return result;
    }
    case Tree::Kind::map: {
      Tree::Map result;
      Nodes children(nodes.size());
      for (const auto& entry : first.as_map()) {
        for (size_t i = 0; i < nodes.size(); ++i) children[i] = &nodes[i]->at(entry.first);
        result.insert(entry.first, collate(children, joined(path, entry.first)));
      }
      return result;
    }
  }
  fail(ErrorCode::internal, "collate", "unknown kind of tree node");
}

}  // namespace

Tensor stack_samples(std::span<const Tensor* const> tensors, std::string_view what) {
  WEFT_CHECK(!tensors.empty(), "collate", "no samples were given");
  const Tensor& first = *tensors.front();
  for (size_t i = 1; i < tensors.size(); ++i) {
    const Tensor& other = *tensors[i];
    WEFT_CHECK(other.defined() && first.defined() && other.dtype() == first.dtype() && other.shape() == first.shape(),
               "collate",
               "samples differ{}: sample 0 of the batch is {}, sample {} is {}; pad or crop them, or give a "
               "collate function",
               quoted(std::string(what)), describe(first), i, describe(other));
  }
  Shape shape = first.shape();
  shape.insert(0, static_cast<int64_t>(tensors.size()));
  Tensor result = empty(shape, {.dtype = first.dtype()});
  const auto bytes = static_cast<size_t>(first.nbytes());
  if (bytes == 0) return result;
  auto* out = static_cast<std::byte*>(result.data());
  for (const Tensor* tensor : tensors) {
    const Tensor row = tensor->contiguous();
    std::memcpy(out, row.data(), bytes);
    out += bytes;
  }
  return result;
}

Batch default_collate(const std::vector<Sample>& samples) {
  WEFT_CHECK(!samples.empty(), "collate", "no samples were given");
  Nodes nodes;
  nodes.reserve(samples.size());
  for (const Sample& sample : samples) nodes.push_back(&sample);
  return Batch(collate(nodes, ""));
}

}  // namespace weft::data
