// GroupedOptimizer: groups of parameters with options of their own, and their state by name. The base of every
// optimizer; a class adds its options, its state and its step.
#pragma once
#include <type_traits>
#include <utility>
#include <vector>

#include "optim/optimizer.h"
#include "tensor/ordered_map.h"

namespace weft::optim {

// What goes into one launch: slices by dtype and device, nearly always all of one. Keeps its memory from step to step.
template <class Slice>
class LaunchLists {
 public:
  void clear() {
    for (List& list : lists_) list.slices.clear();
  }
  std::vector<Slice>& like(const Tensor& t) {
    for (List& list : lists_)
      if (list.dtype == t.dtype() && list.device == t.device()) return list.slices;
    return lists_.emplace_back(List{t.dtype(), t.device(), {}}).slices;
  }
  // f(dtype, device, slices) for every list that holds some.
  template <class F>
  void for_each(F&& f) const {
    for (const List& list : lists_)
      if (!list.slices.empty()) f(list.dtype, list.device, list.slices);
  }

 private:
  struct List {
    DType dtype;
    Device device;
    std::vector<Slice> slices;
  };
  std::vector<List> lists_;
};

// The dtypes that the kernels of optimizers and of clipping take.
inline bool has_optimizer_kernel(const Tensor& t) {
  const bool half = t.dtype() == DType::bf16 || t.dtype() == DType::f16;
  return t.dtype() == DType::f32 || t.dtype() == DType::f64 || (half && t.device().type != DeviceType::cpu);
}

// `Options` is an aggregate with a member lr and a static constexpr auto fields = std::tuple{std::pair{"lr",
// &Options::lr}, …}; `State` has visit(f), which calls f(name, Tensor&) and f(name, int64_t&) on its members.
template <class Options_, class State_>
class GroupedOptimizer : public Optimizer {
 public:
  using Options = Options_;
  using State = State_;
  struct Group {
    NamedParameters parameters;
    Options options;
  };

  double lr(size_t group = 0) const override { return options_.at(group).lr; }
  using Optimizer::group_count;
  void set_lr(double lr, size_t group = 0) override { options_.at(group).lr = lr; }
  Options& options(size_t group = 0) { return options_.at(group); }

  Tree state_dict() const override {
    Tree state = Tree::map();
    for (const auto& [name, own] : states_) {
      Tree entry = Tree::map();
      State copy = own;
      copy.visit([&](const char* key, auto& member) {
        if constexpr (std::is_same_v<std::decay_t<decltype(member)>, Tensor>) {
          if (member.defined()) entry[key] = member;
        } else {
          entry[key] = member;
        }
      });
      state[name] = std::move(entry);
    }
    Tree groups = Tree::list();
    for (size_t g = 0; g < options_.size(); ++g) {
      Tree group = Tree::map();
      for_each_option(options_[g], [&](const char* key, const auto& value) { group[key] = value; });
      group["params"] = group_names(g);
      groups.push_back(std::move(group));
    }
    return Tree::map({{"state", std::move(state)}, {"param_groups", std::move(groups)}});
  }

  void load_state_dict(const Tree& tree) override {
    const Tree::List& groups = check_groups(tree);
    std::vector<Options> options = options_;
    for (size_t g = 0; g < options.size(); ++g)
      for_each_option(options[g], [&](const char* key, auto& value) {
        const Tree& saved = groups[g].at(key);
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, bool>)
          value = saved.as_bool();
        else
          value = saved.as_double();
      });
    OrderedMap<State> states;
    for (const auto& [name, entry] : tree.at("state").as_map()) {
      const Tensor* parameter = find(name);
      WEFT_CHECK(parameter, "load_state_dict", "the state has an entry for {}, which is no parameter here", name);
      State fresh;
      fresh.visit([&, &entry = entry, &name = name](const char* key, auto& member) {
        if constexpr (std::is_same_v<std::decay_t<decltype(member)>, Tensor>) {
          if (!entry.contains(key)) return;
          const Tensor& saved = entry.at(key).as_tensor();
          WEFT_CHECK(saved.shape() == parameter->shape(), "load_state_dict", "{} of {} is {}, the parameter {}", key,
                     name, describe(saved), describe(*parameter));
          member = saved.to(parameter->dtype()).to(parameter->device()).detach().clone();
        } else {
          member = entry.at(key).as_int();
        }
      });
      states[name] = std::move(fresh);
    }
    options_ = std::move(options);
    states_ = std::move(states);
  }

 protected:
  explicit GroupedOptimizer(std::vector<Group> groups) : Optimizer(names_of(groups)) {
    for (Group& group : groups) options_.push_back(group.options);
  }

  // Calls f(parameter, gradient, state) for the parameters of a group that have a gradient. The gradient is contiguous.
  template <class F>
  void for_each_with_gradient(size_t group, F&& f) {
    for (const auto& [name, parameter] : group_parameters(group)) {
      const Tensor gradient = parameter.grad();
      if (!gradient.defined()) continue;
      WEFT_CHECK(gradient.device() == parameter.device(), "optimizer", "parameter {} is on {}, its gradient on {}",
                 name, weft::name(parameter.device()), weft::name(gradient.device()));
      WEFT_CHECK(gradient.dtype() == parameter.dtype() && has_optimizer_kernel(parameter), "optimizer",
                 "parameter {} is {} with a gradient of {} on {}; expected f32 or f64, on devices also bf16 or f16",
                 name, describe(parameter), gradient.dtype(), weft::name(parameter.device()));
      WEFT_CHECK(parameter.is_contiguous(), "optimizer", "parameter {} ({}) is not contiguous", name,
                 describe(parameter));
      f(parameter, gradient.is_contiguous() ? gradient : gradient.contiguous(), states_[name]);
      parameter.storage()->bump_version();
    }
  }

 private:
  template <class O, class F>
  static void for_each_option(O& options, F&& f) {
    std::apply([&](const auto&... field) { (f(field.first, options.*field.second), ...); }, Options::fields());
  }
  static std::vector<NamedParameters> names_of(const std::vector<Group>& groups) {
    std::vector<NamedParameters> result;
    for (const Group& group : groups) result.push_back(group.parameters);
    return result;
  }
  const Tensor* find(const std::string& name) const {
    for (size_t g = 0; g < group_count(); ++g)
      for (const auto& [own, parameter] : group_parameters(g))
        if (own == name) return &parameter;
    return nullptr;
  }

  std::vector<Options> options_;
  OrderedMap<State> states_;
};

}  // namespace weft::optim
