// GroupedOptimizer: groups of parameters with options of their own, and their state by name. The base of every
// optimizer; a class adds its options, its state and its step (fused.h: those whose step is one launch).
#pragma once
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "optim/optimizer.h"
#include "tensor/factory.h"
#include "tensor/ordered_map.h"

namespace weft::optim {

// The dtypes that the kernels of optimizers and of clipping take.
inline bool has_optimizer_kernel(const Tensor& t) {
  const DType dtype = t.dtype();
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::bf16 || dtype == DType::f16;
}

// State is f64 for f64 parameters and f32 for all others: averages that move by thousandths stand still in bf16.
inline DType state_dtype(const Tensor& parameter) { return parameter.dtype() == DType::f64 ? DType::f64 : DType::f32; }
inline Tensor new_state(const Tensor& parameter, const Shape& shape, double value = 0) {
  return full(shape, value, {.dtype = state_dtype(parameter), .device = parameter.device()});
}
// Makes a state of the parameter's shape where there is none.
inline void ensure_state(Tensor& state, const Tensor& parameter, double value = 0) {
  if (!state.defined()) state = new_state(parameter, parameter.shape(), value);
}

// `Options` is an aggregate with a member lr and a static constexpr auto fields() = std::tuple{std::pair{"lr",
// &Options::lr}, …}; its members are double, bool, int64_t, std::string or std::optional<double>. `State` has visit(f),
// which calls f(name, Tensor&), f(name, int64_t&) or f(name, double&) on its members, and, where a tensor has not the
// shape of the parameter, static Shape shape_of(std::string_view name, const Shape& parameter).
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
  std::optional<double> momentum(size_t group = 0) const override {
    std::optional<double> result;
    visit_momentum(options_.at(group), [&](const double& value) { result = value; });
    return result;
  }
  void set_momentum(double momentum, size_t group = 0) override {
    bool found = false;
    visit_momentum(options_.at(group), [&](double& value) {
      value = momentum;
      found = true;
    });
    WEFT_CHECK(found, "set_momentum", "this optimizer has no momentum and no beta1");
  }
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
      for_each_option(options_[g], [&](const char* key, const auto& value) {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::optional<double>>)
          group[key] = value ? Tree(*value) : Tree();
        else
          group[key] = value;
      });
      if (const auto initial = initial_lr(g)) group["initial_lr"] = *initial;
      group["params"] = group_names(g);
      groups.push_back(std::move(group));
    }
    return Tree::map({{"state", std::move(state)}, {"param_groups", std::move(groups)}});
  }

  void load_state_dict(const Tree& tree) override {
    const Tree::List& groups = check_groups(tree);
    std::vector<Options> options = options_;
    std::vector<std::optional<double>> initial(options.size());
    for (size_t g = 0; g < options.size(); ++g) {
      for_each_option(options[g], [&](const char* key, auto& value) { read(groups[g].at(key), value); });
      if (groups[g].contains("initial_lr")) initial[g] = groups[g].at("initial_lr").as_double();
    }
    OrderedMap<State> states;
    for (const auto& [name, entry] : tree.at("state").as_map()) {
      const Tensor* parameter = find(name);
      WEFT_CHECK(parameter, "load_state_dict", "the state has an entry for {}, which is no parameter here", name);
      State fresh;
      fresh.visit([&, &entry = entry, &name = name](const char* key, auto& member) {
        if constexpr (std::is_same_v<std::decay_t<decltype(member)>, Tensor>) {
          if (!entry.contains(key)) return;
          const Tensor& saved = entry.at(key).as_tensor();
          const Shape expected = shape_of(key, parameter->shape());
          WEFT_CHECK(saved.shape() == expected, "load_state_dict",
                     "{} of {} is {}; expected the shape {} for the parameter {}", key, name, describe(saved), expected,
                     describe(*parameter));
          member = saved.to(state_dtype(*parameter)).to(parameter->device()).detach().clone();
        } else {
          read(entry.at(key), member);
        }
      });
      states[name] = std::move(fresh);
    }
    options_ = std::move(options);
    states_ = std::move(states);
    for (size_t g = 0; g < initial.size(); ++g) set_initial_lr(initial[g], g);
  }

 protected:
  explicit GroupedOptimizer(std::vector<Group> groups) : Optimizer(names_of(groups)) {
    for (Group& group : groups) options_.push_back(group.options);
  }
  State& state(const std::string& name) { return states_[name]; }

  // Calls f(name, parameter, gradient, state) for the parameters of a group that have a gradient. The gradient is
  // contiguous.
  template <class F>
  void for_each_with_gradient(size_t group, F&& f) {
    for (const auto& [name, parameter] : group_parameters(group)) {
      const Tensor gradient = parameter.grad();
      if (!gradient.defined()) continue;
      WEFT_CHECK(gradient.device() == parameter.device(), "optimizer", "parameter {} is on {}, its gradient on {}",
                 name, weft::name(parameter.device()), weft::name(gradient.device()));
      WEFT_CHECK(gradient.dtype() == parameter.dtype() && has_optimizer_kernel(parameter), "optimizer",
                 "parameter {} is {} with a gradient of {}; expected both f64, f32, bf16 or f16", name,
                 describe(parameter), gradient.dtype());
      WEFT_CHECK(parameter.is_contiguous(), "optimizer", "parameter {} ({}) is not contiguous", name,
                 describe(parameter));
      f(name, parameter, gradient.is_contiguous() ? gradient : gradient.contiguous(), states_[name]);
      parameter.storage()->bump_version();
    }
  }

 private:
  template <class O, class F>
  static void for_each_option(O& options, F&& f) {
    std::apply([&](const auto&... field) { (f(field.first, options.*field.second), ...); }, Options::fields());
  }
  // The option that schedules of momentum drive: beta1, or momentum.
  template <class O, class F>
  static void visit_momentum(O& options, F&& f) {
    if constexpr (requires { options.beta1; })
      f(options.beta1);
    else if constexpr (requires { options.momentum; })
      f(options.momentum);
  }
  template <class T>
  static void read(const Tree& saved, T& value) {
    if constexpr (std::is_same_v<T, bool>)
      value = saved.as_bool();
    else if constexpr (std::is_same_v<T, int64_t>)
      value = saved.as_int();
    else if constexpr (std::is_same_v<T, std::string>)
      value = saved.as_string();
    else if constexpr (std::is_same_v<T, std::optional<double>>)
      value = saved.is_null() ? std::nullopt : std::optional<double>(saved.as_double());
    else
      value = saved.as_double();
  }
  static Shape shape_of([[maybe_unused]] std::string_view key, const Shape& parameter) {
    if constexpr (requires { State::shape_of(key, parameter); })
      return State::shape_of(key, parameter);
    else
      return parameter;
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
