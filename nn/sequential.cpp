#include "nn/sequential.h"

namespace weft::nn {

Function::Function(ModuleBase* parent, std::string name, std::function<Tensor(const Tensor&)> function)
    : Module(parent, std::move(name)), function_(std::move(function)) {
  WEFT_CHECK(static_cast<bool>(function_), "Function", "expected a function, got none");
}

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (Entry& layer : layers_) y = layer.call(y);
  return y;
}

ModuleBase& Sequential::operator[](size_t i) {
  if (i >= layers_.size()) fail(ErrorCode::not_found, "Sequential", "no layer {} of {}", i, layers_.size());
  return *layers_[i].module;
}

}  // namespace weft::nn
