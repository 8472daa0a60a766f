#include "distributed/accelerator/operations.h"

#include <algorithm>

#include "autograd/ops/ops.h"
#include "data/shard.h"
#include "tensor/tree_file.h"

namespace weft {
namespace {

Tensor gather_tensor(const ProcessGroup& group, const Tensor& x) {
  return group.all_gather(x.dim() == 0 ? x.detach().reshape({1}) : x.detach());
}

Tensor reduce_tensor(const ProcessGroup& group, const Tensor& x, TreeReduce reduction) {
  if (reduction == TreeReduce::none) return x;
  if (group.size() == 1) return x.detach().clone();
  WEFT_CHECK(reduction != TreeReduce::mean || is_floating(x.dtype()), "reduce",
             "the mean of {} is not defined; use sum", describe(x));
  const Tensor result = x.detach().clone();
  const Reduce op = reduction == TreeReduce::sum    ? Reduce::sum
                    : reduction == TreeReduce::mean ? Reduce::mean
                                                    : Reduce::max;
  group.all_reduce(result, op).wait();
  return result;
}

Tensor pad_tensor(const ProcessGroup& group, const Tensor& x, int64_t dim, double pad_index, bool pad_first) {
  // The sizes along `dim`, -1 on a rank whose tensor has no such dimension; all ranks must take part in the exchange.
  const bool has_dim = dim >= -x.dim() && dim < x.dim();
  const int d = has_dim ? static_cast<int>(dim < 0 ? dim + x.dim() : dim) : 0;
  const Tensor mine = full({1}, has_dim ? static_cast<double>(x.size(d)) : -1, DType::i64);
  const Tensor sizes = group.all_gather(mine);
  int64_t largest = -1;
  for (int64_t size : sizes.view<int64_t>()) largest = std::max(largest, size);
  if (!has_dim || x.size(d) == largest) return x;
  Shape shape = x.shape();
  shape[d] = largest;
  const Tensor result = full(shape, pad_index, {.dtype = x.dtype(), .device = x.device()});
  const int64_t start = pad_first ? largest - x.size(d) : 0;
  result.narrow(d, start, x.size(d)).copy_(x.detach());
  return result;
}

// Trees travel as the bytes of one safetensors container.
Tree from_bytes(const std::string& bytes) { return parse_tree_file(std::as_bytes(std::span(bytes)), "object"); }

// Python's len().
int64_t length_of(const Tree& tree) {
  if (!tree.is_tensor()) return tree.size();
  WEFT_CHECK(tree.as_tensor().dim() > 0, "split_between_processes", "a scalar tensor cannot be split");
  return tree.as_tensor().size(0);
}

// What is to be split: the common length of a map's entries.
int64_t whole_length(const Tree& tree) {
  if (!tree.is_map()) return length_of(tree);
  int64_t length = -1;
  for (const auto& [key, child] : tree.as_map()) {
    const bool has_length = child.is_list() || child.is_tensor() || child.is_map();
    WEFT_CHECK(has_length, "split_between_processes",
               "the entry \"{}\" is a {}; expected lists, tensors or maps of them", key, name(child.kind()));
    const int64_t own = length_of(child);
    WEFT_CHECK(length < 0 || own == length, "split_between_processes",
               "all entries of a map must have one length; \"{}\" has {}, those before it {}", key, own, length);
    length = own;
  }
  return std::max<int64_t>(length, 0);
}

// Elements [begin, end), less what is not there, and then the last element again until there are `padded`.
Tree part_of(const Tree& tree, int64_t begin, int64_t end, int64_t padded) {
  if (tree.is_map()) {
    Tree result = Tree::map();
    for (const auto& [key, child] : tree.as_map()) result[key] = part_of(child, begin, end, padded);
    return result;
  }
  if (!tree.is_list() && !tree.is_tensor()) return tree;
  const int64_t length = length_of(tree);
  begin = std::min(begin, length);
  end = std::min(end, length);
  const int64_t missing = length > 0 ? std::max<int64_t>(padded - (end - begin), 0) : 0;
  if (tree.is_tensor()) {
    const Tensor& x = tree.as_tensor();
    const Tensor part = x.narrow(0, begin, end - begin);
    if (missing == 0) return part;
    Shape shape = x.shape();
    shape[0] = missing;
    return cat({part, x.narrow(0, length - 1, 1).expand(shape)}, 0);
  }
  Tree result = Tree::list();
  for (int64_t i = begin; i < end; ++i) result.push_back(tree[i]);
  for (int64_t i = 0; i < missing; ++i) result.push_back(tree[length - 1]);
  return result;
}

}  // namespace

bool all_tensors(const Tree& tree) {
  const auto all = [](const auto& children, auto&& child_of) {
    return std::all_of(children.begin(), children.end(),
                       [&](const auto& child) { return all_tensors(child_of(child)); });
  };
  if (tree.is_list()) return all(tree.as_list(), [](const Tree& child) -> const Tree& { return child; });
  if (tree.is_map()) return all(tree.as_map(), [](const auto& entry) -> const Tree& { return entry.second; });
  return tree.is_tensor();
}

Tree gather(const ProcessGroup& group, const Tree& tree) {
  if (group.size() == 1) return tree;
  WEFT_CHECK(all_tensors(tree), "gather",
             "expected tensors in lists and maps, got {}; gather_object takes other things", tree);
  return tree.map_tensors([&](const Tensor& x) { return gather_tensor(group, x); });
}

Tree gather_object(const ProcessGroup& group, const Tree& object) {
  Tree result = Tree::list();
  for (const std::string& bytes : group.all_gather_bytes(to_tree_file(object))) {
    Tree one = from_bytes(bytes);
    if (!one.is_list()) {
      result.push_back(std::move(one));
      continue;
    }
    for (const Tree& element : one.as_list()) result.push_back(element);
  }
  return result;
}

Tree reduce(const ProcessGroup& group, const Tree& tree, TreeReduce reduction) {
  return tree.map_tensors([&](const Tensor& x) { return reduce_tensor(group, x, reduction); });
}

Tree broadcast(const ProcessGroup& group, const Tree& tree, int from) {
  return tree.map_tensors([&](const Tensor& x) {
    const Tensor result = x.detach().clone();
    group.broadcast(result, from).wait();
    return result;
  });
}

Tree broadcast_object(const ProcessGroup& group, const Tree& object, int from) {
  return from_bytes(group.broadcast_bytes(group.rank() == from ? to_tree_file(object) : std::string(), from));
}

Tree pad_across_processes(const ProcessGroup& group, const Tree& tree, int64_t dim, double pad_index, bool pad_first) {
  return tree.map_tensors([&](const Tensor& x) { return pad_tensor(group, x, dim, pad_index, pad_first); });
}

Tree split_between(const Tree& tree, int rank, int size, bool apply_padding) {
  if (size == 1 || !(tree.is_list() || tree.is_tensor() || tree.is_map())) return tree;
  const int64_t length = whole_length(tree);
  const auto [begin, end] = data::even_part(length, rank, size);
  return part_of(tree, begin, end, apply_padding ? (length + size - 1) / size : end - begin);
}

Tree pad_to_multiple(const Tree& tree, int64_t multiple, int64_t dim) {
  WEFT_CHECK(multiple > 0, "pad_input_tensors", "expected a positive number of processes, got {}", multiple);
  return tree.map_tensors([&](const Tensor& x) {
    const int d = wrap_dim(dim, x.dim(), "pad_input_tensors");
    const int64_t missing = x.dim() == 0 ? 0 : (multiple - x.size(d) % multiple) % multiple;
    if (missing == 0 || x.size(d) == 0) return x;
    Shape shape = x.shape();
    shape[d] = missing;
    return cat({x, x.narrow(d, x.size(d) - 1, 1).expand(shape)}, d);
  });
}

}  // namespace weft
