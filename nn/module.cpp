#include "nn/module.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
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

}  // namespace weft::nn
