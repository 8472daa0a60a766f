// Module: parameters, buffers and sub-modules with names, and what happens around forward.
//
//   struct Mlp : nn::Module<Mlp> {
//     nn::Linear fc1{this, "fc1", {.in = 64, .out = 128}};
//     nn::Linear fc2{this, "fc2", {.in = 128, .out = 10}};
//     Tensor forward(const Tensor& x) { return fc2(relu(fc1(x))); }
//   };
//   Mlp net;
//   Tensor y = net(x);                                   // hooks, then forward
//   for (auto& [name, p] : net.named_parameters()) …     // "fc1.weight", "fc1.bias", "fc2.weight", …
//
// Members register themselves with their parent in the order in which they stand, so names and their order are
// PyTorch's and the same on every rank. A module refers to its members by address: it can be neither copied nor moved.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "tensor/state_dict.h"
#include "tensor/tensor.h"

namespace weft::nn {

class ModuleBase;

using NamedTensor = std::pair<std::string, Tensor>;
// Sees the tensors among the arguments of a call, before forward.
using ForwardPreHook = std::function<void(ModuleBase& module, std::span<const Tensor* const> inputs)>;
// Sees the tensors among the results, after forward, and may replace them.
using ForwardHook = std::function<void(ModuleBase& module, std::span<Tensor* const> outputs)>;
// Sees the gradients of the results of a call, undefined where there is none, before they go into the module, and may
// replace them.
using BackwardPreHook = std::function<void(ModuleBase& module, std::span<Tensor> grad_outputs)>;
// Sees them and, when a backward pass has come through the module, the gradients of the tensors among its arguments
// (undefined where none is needed), which it may replace.
using BackwardHook =
    std::function<void(ModuleBase& module, std::span<Tensor> grad_inputs, std::span<const Tensor> grad_outputs)>;

struct LoadReport {
  std::vector<std::string> missing;     // in the module, not in the state dict
  std::vector<std::string> unexpected;  // in the state dict, not in the module
};

namespace detail {
// The backward hooks of one module and where one call of it stands; made in module.cpp.
struct BackwardHooks;
struct BackwardWatch;
}  // namespace detail

class ModuleBase {
 public:
  ModuleBase(const ModuleBase&) = delete;
  ModuleBase& operator=(const ModuleBase&) = delete;
  virtual ~ModuleBase();

  // Parameters of this module and all below, in order of registration. A tied parameter appears once, by its first name.
  std::vector<NamedTensor> named_parameters() const;
  std::vector<Tensor> parameters() const;
  std::vector<NamedTensor> named_buffers() const;
  // The members that hold the buffers, for those who replace them (a buffer must not change under a saved graph).
  std::vector<std::pair<std::string, Tensor*>> buffer_slots() const;
  // This module (named "") and all below, parents first.
  std::vector<std::pair<std::string, ModuleBase*>> named_modules();
  // The direct children.
  std::vector<std::pair<std::string, ModuleBase*>> named_children() const;

  // This module's own, not those below it, in order of registration; a tied one too.
  std::vector<NamedTensor> direct_parameters() const;
  // The class's name without namespaces: "Linear".
  std::string type_name() const;

  // All parameters and persistent buffers by name, also tied ones under each name. The tensors are detached and share
  // memory with the module.
  StateDict state_dict() const;
  // Copies values in; shapes must fit, dtypes are converted. A missing or unexpected name is an error unless strict is
  // false; then they are reported. Nothing is written when there is an error.
  LoadReport load_state_dict(const StateDict& state, bool strict = true);

  bool training() const { return training_; }
  void train(bool mode = true);
  void eval() { train(false); }
  void zero_grad();
  // Freezes (false) or unfreezes all parameters.
  void requires_grad_(bool value = true);
  // Converts all floating-point parameters and buffers, in place of the old ones.
  void to(DType dtype);
  // Moves all parameters, their gradients and buffers to `device`. They stay the same tensors: an optimizer made before
  // goes on with them, tied ones stay tied, and whoever holds a detached view keeps the old memory.
  void to(Device device);

  HookHandle register_forward_pre_hook(ForwardPreHook hook);
  HookHandle register_forward_hook(ForwardHook hook);
  // Of arguments and results, backward hooks know those that are tensors themselves or, for results, in pairs, tuples
  // and vectors; what a module changes in place must not be among its arguments.
  HookHandle register_full_backward_pre_hook(BackwardPreHook hook);
  HookHandle register_full_backward_hook(BackwardHook hook);

 protected:
  ModuleBase() = default;
  // Registers this module with `parent` under `name`.
  ModuleBase(ModuleBase* parent, std::string name);

  // `slot` is a member; it is given `value` (undefined: the parameter is absent, as a bias that is switched off).
  void register_parameter(std::string name, Tensor& slot, Tensor value);
  // Buffers take part in state_dict() when persistent, never in gradients.
  void register_buffer(std::string name, Tensor& slot, Tensor value, bool persistent = true);
  void register_module(std::string name, ModuleBase& child);

  bool has_forward_hooks() const { return (pre_hooks_ && !pre_hooks_->empty()) || (hooks_ && !hooks_->empty()); }
  void run_pre_hooks(std::span<const Tensor* const> inputs);
  void run_hooks(std::span<Tensor* const> outputs);

  bool has_backward_hooks() const { return backward_hooks_ != nullptr; }
  // Puts nodes into the graph at both ends of a call: on the arguments, which are replaced, and on the results.
  std::shared_ptr<detail::BackwardWatch> watch_inputs(std::span<Tensor* const> inputs);
  void watch_outputs(const std::shared_ptr<detail::BackwardWatch>& watch, std::span<Tensor* const> outputs);

 private:
  struct Slot {
    std::string name;
    Tensor* tensor;
    bool persistent;
  };
  template <class F>
  void visit(const std::string& prefix, F&& f) const;
  void check_name(const std::string& name) const;

  std::vector<Slot> parameters_;
  std::vector<Slot> buffers_;
  std::vector<std::pair<std::string, ModuleBase*>> children_;
  // None until the first hook.
  std::shared_ptr<std::vector<std::pair<uint64_t, ForwardPreHook>>> pre_hooks_;
  std::shared_ptr<std::vector<std::pair<uint64_t, ForwardHook>>> hooks_;
  std::shared_ptr<detail::BackwardHooks> backward_hooks_;
  ModuleBase* parent_ = nullptr;
  bool training_ = true;
};

namespace detail {
// The tensors among arguments or results; other types are passed over.
inline void collect(std::vector<const Tensor*>& list, const Tensor& t) { list.push_back(&t); }
inline void collect(std::vector<const Tensor*>& list, const std::vector<Tensor>& tensors) {
  for (const Tensor& t : tensors) list.push_back(&t);
}
template <class A, class B>
void collect(std::vector<const Tensor*>& list, const std::pair<A, B>& pair);
template <class... T>
void collect(std::vector<const Tensor*>& list, const std::tuple<T...>& tuple);
// A struct says by a member tensors() which it holds.
template <class T>
void collect(std::vector<const Tensor*>& list, const T& other) {
  if constexpr (requires { other.tensors(); })
    for (const Tensor* t : other.tensors())
      if (t->defined()) list.push_back(t);
}
template <class A, class B>
void collect(std::vector<const Tensor*>& list, const std::pair<A, B>& pair) {
  collect(list, pair.first);
  collect(list, pair.second);
}
template <class... T>
void collect(std::vector<const Tensor*>& list, const std::tuple<T...>& tuple) {
  std::apply([&](const auto&... element) { (collect(list, element), ...); }, tuple);
}
}  // namespace detail

namespace detail {
// An argument of a call as it is kept while hooks look at it: tensors as handles of their own, which may be replaced.
template <class T>
using Kept = std::conditional_t<std::is_same_v<std::decay_t<T>, Tensor>, Tensor, T&&>;
}  // namespace detail

// The base of every module class: gives it its call operator. `Derived` has a member `forward` of any signature.
template <class Derived>
class Module : public ModuleBase {
 public:
  template <class... Arguments>
  auto operator()(Arguments&&... arguments) {
    Derived& self = static_cast<Derived&>(*this);
    if (has_backward_hooks()) return watched(self, std::forward<Arguments>(arguments)...);
    return hooked(self, std::forward<Arguments>(arguments)...);
  }

 protected:
  Module() = default;
  Module(ModuleBase* parent, std::string name) : ModuleBase(parent, std::move(name)) {}

 private:
  template <class... Arguments>
  auto hooked(Derived& self, Arguments&&... arguments) {
    if (!has_forward_hooks()) return self.forward(std::forward<Arguments>(arguments)...);
    std::vector<const Tensor*> inputs;
    (detail::collect(inputs, arguments), ...);
    run_pre_hooks(inputs);
    auto result = self.forward(std::forward<Arguments>(arguments)...);
    run_hooks(tensors_in(result));
    return result;
  }

  template <class... Arguments>
  auto watched(Derived& self, Arguments&&... arguments) {
    std::tuple<detail::Kept<Arguments>...> kept{std::forward<Arguments>(arguments)...};
    std::vector<Tensor*> inputs;
    const auto add = [&](auto& argument) {
      if constexpr (std::is_same_v<std::decay_t<decltype(argument)>, Tensor>) inputs.push_back(&argument);
    };
    std::apply([&](auto&... argument) { (add(argument), ...); }, kept);
    const auto watch = watch_inputs(inputs);
    auto result = std::apply(
        [&](auto&... argument) { return hooked(self, static_cast<passed_on<Arguments>>(argument)...); }, kept);
    watch_outputs(watch, tensors_in(result));
    return result;
  }
  // A kept tensor goes on as an lvalue, any other argument as it came.
  template <class T>
  using passed_on = std::conditional_t<std::is_same_v<std::decay_t<T>, Tensor>, Tensor&, T&&>;

  template <class Result>
  static std::vector<Tensor*> tensors_in(Result& result) {
    std::vector<const Tensor*> found;
    detail::collect(found, result);
    std::vector<Tensor*> outputs;
    for (const Tensor* t : found) outputs.push_back(const_cast<Tensor*>(t));
    return outputs;
  }
};

// A list of modules of one class, named "0", "1", …: nn::ModuleList<Block> h{this, "h"}; h.emplace_back(config);
// The element class takes (ModuleBase* parent, std::string name, arguments…).
template <class Element>
class ModuleList : public ModuleBase {
 public:
  ModuleList() = default;
  ModuleList(ModuleBase* parent, std::string name) : ModuleBase(parent, std::move(name)) {}

  template <class... Arguments>
  Element& emplace_back(Arguments&&... arguments) {
    elements_.push_back(
        std::make_unique<Element>(this, std::to_string(elements_.size()), std::forward<Arguments>(arguments)...));
    return *elements_.back();
  }
  Element& operator[](size_t i) { return *elements_.at(i); }
  size_t size() const { return elements_.size(); }

  // Iterates over references to the elements.
  class Iterator {
   public:
    explicit Iterator(const std::unique_ptr<Element>* at) : at_(at) {}
    Element& operator*() const { return **at_; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return at_ != other.at_; }

   private:
    const std::unique_ptr<Element>* at_;
  };
  Iterator begin() const { return Iterator(elements_.data()); }
  Iterator end() const { return Iterator(elements_.data() + elements_.size()); }

 private:
  std::vector<std::unique_ptr<Element>> elements_;
};

}  // namespace weft::nn
