#include "optim/optimizer.h"

#include <unordered_set>

namespace weft::optim {

NamedParameters with_positions(const std::vector<Tensor>& parameters, size_t first) {
  NamedParameters named;
  for (const Tensor& parameter : parameters) named.emplace_back(std::to_string(first + named.size()), parameter);
  return named;
}

Optimizer::Optimizer(std::vector<NamedParameters> groups) : groups_(std::move(groups)), initial_lr_(groups_.size()) {
  std::unordered_set<const TensorImpl*> seen;
  std::unordered_set<std::string> names;
  for (const NamedParameters& group : groups_) {
    for (const auto& [name, parameter] : group) {
      WEFT_CHECK(parameter.is_leaf() && is_floating(parameter.dtype()), "optimizer",
                 "parameter {} ({}) is not a leaf of floating point", name, describe(parameter));
      WEFT_CHECK(seen.insert(&parameter.impl()).second, "optimizer", "parameter {} stands twice", name);
      WEFT_CHECK(names.insert(name).second, "optimizer", "two parameters are named {}", name);
    }
  }
  WEFT_CHECK(!seen.empty(), "optimizer", "there are no parameters to optimize");
}

void Optimizer::zero_grad() {
  for (const NamedParameters& group : groups_)
    for (const auto& [name, parameter] : group) parameter.set_grad({});
}

std::vector<Tensor> Optimizer::parameters() const {
  std::vector<Tensor> all;
  for (const NamedParameters& group : groups_)
    for (const auto& [name, parameter] : group) all.push_back(parameter);
  return all;
}

Tree Optimizer::group_names(size_t group) const {
  Tree names = Tree::list();
  for (const auto& [name, parameter] : groups_.at(group)) names.push_back(name);
  return names;
}

const Tree::List& Optimizer::check_groups(const Tree& state) const {
  const Tree::List& groups = state.at("param_groups").as_list();
  WEFT_CHECK(groups.size() == groups_.size(), "load_state_dict", "expected {} parameter groups, got {}", groups_.size(),
             groups.size());
  for (size_t g = 0; g < groups.size(); ++g)
    WEFT_CHECK(groups[g].at("params") == group_names(g), "load_state_dict",
               "group {} has the parameters {}, the state those of {}", g, group_names(g), groups[g].at("params"));
  return groups;
}

}  // namespace weft::optim
