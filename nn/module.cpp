#include "nn/module.h"

#include <fmt/format.h>

#include <cxxabi.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <typeinfo>
#include <unordered_set>

#include "autograd/node.h"
#include "tensor/factory.h"

namespace weft::nn {
namespace {

std::string joined(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

// The handle may outlive the module.
template <class List, class HookFunction>
HookHandle add_to(std::shared_ptr<List>& list, HookFunction hook) {
  static std::atomic<uint64_t> next_id{1};
  const uint64_t id = next_id.fetch_add(1, std::memory_order_relaxed);
  if (!list) list = std::make_shared<List>();
  list->emplace_back(id, std::move(hook));
  return HookHandle([weak = std::weak_ptr<List>(list), id] {
    if (const auto hooks = weak.lock()) std::erase_if(*hooks, [id](const auto& entry) { return entry.first == id; });
  });
}

// Gives the tensor a copy of its elements on `device` instead of its own; a tied one is moved when first met.
void move_in_place(const Tensor& tensor, Device device) {
  if (tensor.device() == device) return;
  const Tensor moved = tensor.detach().contiguous().to(device);
  TensorImpl& impl = tensor.impl();
  impl.storage = moved.storage();
  impl.offset = moved.offset();
  impl.strides = moved.strides();
  impl.contiguous = true;
  if (!impl.autograd) return;
  impl.autograd->accumulator.reset();  // it knows the old device
  if (Tensor& grad = impl.autograd->grad; grad.defined()) grad = grad.detach().to(device);
}

}  // namespace

ModuleBase::ModuleBase(ModuleBase* parent, std::string name) {
  if (parent) parent->register_module(std::move(name), *this);
}

ModuleBase::~ModuleBase() {
  if (parent_) std::erase_if(parent_->children_, [this](const auto& child) { return child.second == this; });
  for (auto& [name, child] : children_) child->parent_ = nullptr;
}

void ModuleBase::check_name(const std::string& name) const {
  const auto same = [&](const auto& slot) { return slot.name == name; };
  const bool taken = std::any_of(parameters_.begin(), parameters_.end(), same) ||
                     std::any_of(buffers_.begin(), buffers_.end(), same) ||
                     std::any_of(children_.begin(), children_.end(), [&](const auto& c) { return c.first == name; });
  WEFT_CHECK(!name.empty() && name.find('.') == std::string::npos, "module", "'{}' is no name: empty, or with a dot",
             name);
  WEFT_CHECK(!taken, "module", "the name '{}' is registered already", name);
}

void ModuleBase::register_parameter(std::string name, Tensor& slot, Tensor value) {
  check_name(name);
  slot = std::move(value);
  if (slot.defined() && is_floating(slot.dtype()) && slot.is_leaf()) slot.requires_grad_();
  parameters_.push_back({std::move(name), &slot, true});
}

void ModuleBase::register_buffer(std::string name, Tensor& slot, Tensor value, bool persistent) {
  check_name(name);
  slot = std::move(value);
  buffers_.push_back({std::move(name), &slot, persistent});
}

void ModuleBase::register_module(std::string name, ModuleBase& child) {
  check_name(name);
  child.parent_ = this;
  children_.emplace_back(std::move(name), &child);
}

template <class F>
void ModuleBase::visit(const std::string& prefix, F&& f) const {
  f(prefix, *this);
  for (const auto& [name, child] : children_) child->visit(joined(prefix, name), f);
}

std::vector<NamedTensor> ModuleBase::named_parameters() const {
  std::vector<NamedTensor> result;
  std::unordered_set<const TensorImpl*> seen;  // asked only, never iterated
  visit("", [&](const std::string& prefix, const ModuleBase& module) {
    for (const Slot& slot : module.parameters_)
      if (slot.tensor->defined() && seen.insert(&slot.tensor->impl()).second)
        result.emplace_back(joined(prefix, slot.name), *slot.tensor);
  });
  return result;
}

std::vector<NamedTensor> ModuleBase::direct_parameters() const {
  std::vector<NamedTensor> result;
  for (const Slot& slot : parameters_)
    if (slot.tensor->defined()) result.emplace_back(slot.name, *slot.tensor);
  return result;
}

std::string ModuleBase::type_name() const {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(typeid(*this).name(), nullptr, nullptr, &status), std::free);
  if (status != 0) return typeid(*this).name();
  // Without the scopes: what stands before "::", back to the bracket, comma or space in front.
  std::string name;
  for (const char* at = text.get(); *at != '\0'; ++at) {
    if (at[0] != ':' || at[1] != ':') {
      name += *at;
      continue;
    }
    const size_t begin = name.ends_with("(anonymous namespace)") ? name.size() - 21 : name.find_last_of("<>, ") + 1;
    name.erase(begin);
    ++at;
  }
  return name;
}

std::vector<Tensor> ModuleBase::parameters() const {
  std::vector<Tensor> result;
  for (auto& [name, tensor] : named_parameters()) result.push_back(tensor);
  return result;
}

std::vector<std::pair<std::string, Tensor*>> ModuleBase::buffer_slots() const {
  std::vector<std::pair<std::string, Tensor*>> result;
  visit("", [&](const std::string& prefix, const ModuleBase& module) {
    for (const Slot& slot : module.buffers_)
      if (slot.tensor->defined()) result.emplace_back(joined(prefix, slot.name), slot.tensor);
  });
  return result;
}

std::vector<NamedTensor> ModuleBase::named_buffers() const {
  std::vector<NamedTensor> result;
  for (const auto& [name, slot] : buffer_slots()) result.emplace_back(name, *slot);
  return result;
}

std::vector<std::pair<std::string, ModuleBase*>> ModuleBase::named_modules() {
  std::vector<std::pair<std::string, ModuleBase*>> result;
  visit("", [&](const std::string& prefix, const ModuleBase& module) {
    result.emplace_back(prefix, const_cast<ModuleBase*>(&module));
  });
  return result;
}

std::vector<std::pair<std::string, ModuleBase*>> ModuleBase::named_children() const { return children_; }

StateDict ModuleBase::state_dict() const {
  StateDict state;
  visit("", [&](const std::string& prefix, const ModuleBase& module) {
    for (const auto* slots : {&module.parameters_, &module.buffers_})
      for (const Slot& slot : *slots)
        if (slot.persistent && slot.tensor->defined()) state[joined(prefix, slot.name)] = slot.tensor->detach();
  });
  return state;
}

LoadReport ModuleBase::load_state_dict(const StateDict& state, bool strict) {
  LoadReport report;
  const StateDict own = state_dict();
  std::vector<std::pair<Tensor, Tensor>> copies;
  for (const auto& [name, target] : own) {
    const auto source = state.find(name);
    if (source == state.end()) {
      report.missing.push_back(name);
      continue;
    }
    WEFT_CHECK(source->second.shape() == target.shape(), "load_state_dict", "{}: the module has {}, the state {}", name,
               describe(target), describe(source->second));
    copies.emplace_back(target, source->second);
  }
  for (const auto& [name, source] : state)
    if (!own.contains(name)) report.unexpected.push_back(name);
  WEFT_CHECK(!strict || (report.missing.empty() && report.unexpected.empty()), "load_state_dict",
             "missing: [{}]; unexpected: [{}]; pass strict = false to load the rest", fmt::join(report.missing, ", "),
             fmt::join(report.unexpected, ", "));
  NoGrad guard;
  for (const auto& [target, source] : copies) target.copy_(source);
  return report;
}

void ModuleBase::train(bool mode) {
  training_ = mode;
  for (auto& [name, child] : children_) child->train(mode);
}

void ModuleBase::zero_grad() {
  for (const Tensor& parameter : parameters()) parameter.set_grad({});
}

void ModuleBase::requires_grad_(bool value) {
  for (const Tensor& parameter : parameters()) parameter.requires_grad_(value);
}

void ModuleBase::to(DType dtype) {
  WEFT_CHECK(is_floating(dtype), "module.to", "expected a floating-point dtype, got {}", dtype);
  NoGrad guard;
  std::vector<std::pair<Tensor, Tensor>> converted;  // tied slots stay tied
  visit("", [&](const std::string&, const ModuleBase& module) {
    for (const auto* slots : {&module.parameters_, &module.buffers_}) {
      for (const Slot& slot : *slots) {
        Tensor& tensor = *slot.tensor;
        if (!tensor.defined() || !is_floating(tensor.dtype()) || tensor.dtype() == dtype) continue;
        const auto done =
            std::find_if(converted.begin(), converted.end(), [&](const auto& pair) { return pair.first.is(tensor); });
        if (done != converted.end()) {
          tensor = done->second;
          continue;
        }
        Tensor now = tensor.to(dtype).detach().clone();
        now.requires_grad_(tensor.requires_grad());
        converted.emplace_back(tensor, now);
        tensor = now;
      }
    }
  });
}

void ModuleBase::to(Device device) {
  const NoGrad guard;
  visit("", [&](const std::string&, const ModuleBase& module) {
    for (const auto* slots : {&module.parameters_, &module.buffers_})
      for (const Slot& slot : *slots)
        if (slot.tensor->defined()) move_in_place(*slot.tensor, device);
  });
}

HookHandle ModuleBase::register_forward_pre_hook(ForwardPreHook hook) { return add_to(pre_hooks_, std::move(hook)); }
HookHandle ModuleBase::register_forward_hook(ForwardHook hook) { return add_to(hooks_, std::move(hook)); }

void ModuleBase::run_pre_hooks(std::span<const Tensor* const> inputs) {
  if (!pre_hooks_) return;
  const auto hooks = *pre_hooks_;  // a hook may remove itself
  for (const auto& [id, hook] : hooks) hook(*this, inputs);
}

void ModuleBase::run_hooks(std::span<Tensor* const> outputs) {
  if (!hooks_) return;
  const auto hooks = *hooks_;
  for (const auto& [id, hook] : hooks) hook(*this, outputs);
}

namespace detail {

struct BackwardHooks {
  std::shared_ptr<std::vector<std::pair<uint64_t, BackwardPreHook>>> before;
  std::shared_ptr<std::vector<std::pair<uint64_t, BackwardHook>>> after;
};

// One call of a module. The graph may outlive the module, which then has no hooks any more.
struct BackwardWatch {
  ModuleBase* module;
  std::weak_ptr<BackwardHooks> hooks;
  size_t inputs = 0;
  bool waits_for_inputs = false;  // some argument needs a gradient
  Gradients grad_outputs;

  template <class List, class... Arguments>
  void run(std::shared_ptr<List> BackwardHooks::*list, Arguments... arguments) const {
    const auto alive = hooks.lock();
    if (!alive || !((*alive).*list)) return;
    const List copy = *((*alive).*list);  // a hook may remove itself
    for (const auto& [id, hook] : copy) hook(*module, arguments...);
  }
  void run_after(Gradients& grad_inputs) const {
    run(&BackwardHooks::after, std::span<Tensor>(grad_inputs), std::span<const Tensor>(grad_outputs));
  }
};

}  // namespace detail

HookHandle ModuleBase::register_full_backward_pre_hook(BackwardPreHook hook) {
  if (!backward_hooks_) backward_hooks_ = std::make_shared<detail::BackwardHooks>();
  return add_to(backward_hooks_->before, std::move(hook));
}
HookHandle ModuleBase::register_full_backward_hook(BackwardHook hook) {
  if (!backward_hooks_) backward_hooks_ = std::make_shared<detail::BackwardHooks>();
  return add_to(backward_hooks_->after, std::move(hook));
}

namespace {

// Replaces the tensors by others on the same memory that a node of its own stands behind.
void put_node(const char* name, std::span<Tensor* const> tensors, BackwardFunction backward) {
  std::vector<Tensor> before, after;
  for (Tensor* t : tensors) {
    before.push_back(*t);
    after.push_back(t->alias(t->shape(), t->strides(), t->offset()));
  }
  after = record(name, before, std::move(after), std::move(backward));
  for (size_t i = 0; i < tensors.size(); ++i) *tensors[i] = after[i];
}

}  // namespace

std::shared_ptr<detail::BackwardWatch> ModuleBase::watch_inputs(std::span<Tensor* const> inputs) {
  auto watch = std::make_shared<detail::BackwardWatch>();
  watch->module = this;
  watch->hooks = backward_hooks_;
  watch->inputs = inputs.size();
  std::vector<Tensor*> differentiable;
  std::vector<size_t> positions;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (GradMode::enabled() && inputs[i]->requires_grad()) {
      differentiable.push_back(inputs[i]);
      positions.push_back(i);
    }
  watch->waits_for_inputs = !differentiable.empty();
  if (watch->waits_for_inputs)
    put_node("module_inputs", differentiable, [watch, positions](Node&, const Gradients& grads) -> Gradients {
      Gradients by_argument(watch->inputs), result;
      for (size_t i = 0; i < positions.size(); ++i) by_argument[positions[i]] = grads[i];
      watch->run_after(by_argument);
      for (const size_t position : positions) result.push_back(by_argument[position]);
      return result;
    });
  return watch;
}

void ModuleBase::watch_outputs(const std::shared_ptr<detail::BackwardWatch>& watch, std::span<Tensor* const> outputs) {
  std::vector<Tensor*> differentiable;
  std::vector<size_t> positions;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i]->requires_grad()) {
      differentiable.push_back(outputs[i]);
      positions.push_back(i);
    }
  if (differentiable.empty() || !GradMode::enabled()) return;
  const size_t count = outputs.size();
  put_node("module_outputs", differentiable, [=](Node&, const Gradients& grads) -> Gradients {
    Gradients by_output(count), result;
    for (size_t i = 0; i < positions.size(); ++i) by_output[positions[i]] = grads[i];
    watch->run(&detail::BackwardHooks::before, std::span<Tensor>(by_output));
    watch->grad_outputs = by_output;
    for (const size_t position : positions) result.push_back(by_output[position]);
    if (!watch->waits_for_inputs) {
      Gradients none(watch->inputs);
      watch->run_after(none);
    }
    return result;
  });
}

}  // namespace weft::nn
