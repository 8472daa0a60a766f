// Containers: layers one after the other, and layers by name. (ModuleList is in nn/module.h.)
//
//   nn::Sequential net;
//   net.emplace_back<nn::Linear>(nn::LinearOptions{.in = 64, .out = 128});   // "0.weight", "0.bias"
//   net.push_back(relu);                                                     // "1": any function of one tensor
//   net.emplace_back<nn::Linear>(nn::LinearOptions{.in = 128, .out = 10});   // "2.weight", …
//   Tensor y = net(x);
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nn/module.h"
#include "tensor/ordered_map.h"

namespace weft::nn {

// A function as a layer, without parameters: nn::Function f(relu);
struct Function : Module<Function> {
  explicit Function(std::function<Tensor(const Tensor&)> function) : Function(nullptr, "", std::move(function)) {}
  Function(ModuleBase* parent, std::string name, std::function<Tensor(const Tensor&)> function);
  Tensor forward(const Tensor& x) { return function_(x); }

 private:
  std::function<Tensor(const Tensor&)> function_;
};

// Layers of any classes, each called with one tensor and giving one, in their order; their names are their numbers, or
// those that emplace() is given. A layer's class takes (ModuleBase* parent, std::string name, arguments…).
class Sequential : public Module<Sequential> {
 public:
  Sequential() = default;
  Sequential(ModuleBase* parent, std::string name) : Module(parent, std::move(name)) {}

  template <class Layer, class... Arguments>
  Layer& emplace_back(Arguments&&... arguments) {
    return emplace<Layer>(std::to_string(layers_.size()), std::forward<Arguments>(arguments)...);
  }
  template <class Layer, class... Arguments>
  Layer& emplace(std::string name, Arguments&&... arguments) {
    auto owned = std::make_unique<Layer>(this, std::move(name), std::forward<Arguments>(arguments)...);
    Layer& layer = *owned;
    layers_.push_back({std::move(owned), [&layer](const Tensor& x) -> Tensor { return layer(x); }});
    return layer;
  }
  Function& push_back(std::function<Tensor(const Tensor&)> function) {
    return emplace_back<Function>(std::move(function));
  }

  Tensor forward(const Tensor& x);

  size_t size() const { return layers_.size(); }
  // Throws not_found beyond the last.
  ModuleBase& operator[](size_t i);
  // The same as its own class; throws invalid_argument when it is of another.
  template <class Layer>
  Layer& at(size_t i) {
    auto* layer = dynamic_cast<Layer*>(&(*this)[i]);
    WEFT_CHECK(layer != nullptr, "Sequential", "layer {} is a {}", i, (*this)[i].type_name());
    return *layer;
  }

 private:
  struct Entry {
    std::unique_ptr<ModuleBase> module;
    std::function<Tensor(const Tensor&)> call;  // knows the class, so that its hooks run
  };
  std::vector<Entry> layers_;
};

// Modules of one class by name, in the order in which they were added: nn::ModuleDict<Linear> heads{this, "heads"};
// heads.emplace("title", LinearOptions{…}); heads["title"](x);
template <class Element>
class ModuleDict : public ModuleBase {
 public:
  ModuleDict() = default;
  ModuleDict(ModuleBase* parent, std::string name) : ModuleBase(parent, std::move(name)) {}

  template <class... Arguments>
  Element& emplace(const std::string& name, Arguments&&... arguments) {
    auto element = std::make_unique<Element>(this, name, std::forward<Arguments>(arguments)...);
    return *elements_.insert(name, std::move(element));
  }
  // Throws not_found with the names there are.
  Element& operator[](const std::string& name) { return *elements_.at(name); }
  bool contains(const std::string& name) const { return elements_.contains(name); }
  size_t size() const { return elements_.size(); }
  std::vector<std::string> keys() const {
    std::vector<std::string> names;
    for (const auto& entry : elements_) names.push_back(entry.first);
    return names;
  }

 private:
  OrderedMap<std::unique_ptr<Element>> elements_;
};

}  // namespace weft::nn
