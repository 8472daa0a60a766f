// Derivatives of functions as tensors: products with the Jacobian, the Jacobian itself, second derivatives.
#include "autograd/functional.h"
#include "autograd/ops/ops.h"

namespace weft {
namespace {

std::vector<Tensor> variables_like(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> variables;
  for (const Tensor& input : inputs) variables.push_back(input.detach().requires_grad_());
  return variables;
}

void fill_unused(std::vector<Tensor>& gradients, const std::vector<Tensor>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!gradients[i].defined()) gradients[i] = zeros_like(inputs[i]);
}

Shape joined(const Shape& a, const Shape& b) {
  Shape all = a;
  for (const int64_t size : b) all.push_back(size);
  return all;
}

// d value / d variable by variable, where the graph of `value` is recorded.
std::vector<Tensor> rows_of(const Tensor& value, const std::vector<Tensor>& variables) {
  std::vector<std::vector<Tensor>> rows(variables.size());
  if (value.requires_grad())
    for (int64_t k = 0; k < value.numel(); ++k) {
      const Tensor one = reshape(eq(arange(value.numel(), value.device()), k).to(value.dtype()), value.shape());
      std::vector<Tensor> row = grad({value}, variables, {one}, {.retain_graph = true, .allow_unused = true});
      fill_unused(row, variables);
      for (size_t i = 0; i < row.size(); ++i) rows[i].push_back(row[i]);
    }
  std::vector<Tensor> result;
  for (size_t i = 0; i < variables.size(); ++i) {
    const Shape shape = joined(value.shape(), variables[i].shape());
    result.push_back(rows[i].empty() ? zeros(shape, variables[i].options()) : reshape(stack(rows[i]), shape));
  }
  return result;
}

}  // namespace

std::vector<Tensor> grad(const TensorFunction& f, const std::vector<Tensor>& inputs) {
  return value_and_grad(f, inputs).second;
}

std::pair<Tensor, std::vector<Tensor>> vjp(const TensorFunction& f, const std::vector<Tensor>& inputs,
                                           const Tensor& v) {
  EnableGrad enable;
  const std::vector<Tensor> variables = variables_like(inputs);
  const Tensor value = f(variables);
  WEFT_CHECK(v.shape() == value.shape(), "vjp", "expected a vector like the value {}, got {}", describe(value),
             describe(v));
  std::vector<Tensor> gradients(inputs.size());
  if (value.requires_grad()) gradients = grad({value}, variables, {v}, {.allow_unused = true});
  fill_unused(gradients, inputs);
  return {value.detach(), gradients};
}

// vᵀ · J is linear in v, so its derivative by v is J: the product with it is one more backward.
std::pair<Tensor, Tensor> jvp(const TensorFunction& f, const std::vector<Tensor>& inputs,
                              const std::vector<Tensor>& v) {
  WEFT_CHECK(v.size() == inputs.size(), "jvp", "expected a vector for each of {} inputs, got {}", inputs.size(),
             v.size());
  for (size_t i = 0; i < v.size(); ++i)
    WEFT_CHECK(v[i].shape() == inputs[i].shape(), "jvp", "expected a vector like input {}, {}; got {}", i,
               describe(inputs[i]), describe(v[i]));
  EnableGrad enable;
  const std::vector<Tensor> variables = variables_like(inputs);
  const Tensor value = f(variables);
  Tensor product = zeros_like(value);
  if (!value.requires_grad()) return {value.detach(), product};
  const Tensor dummy = zeros_like(value).requires_grad_();
  const std::vector<Tensor> pulled = grad({value}, variables, {dummy}, {.create_graph = true, .allow_unused = true});
  std::vector<Tensor> outputs, weights;
  for (size_t i = 0; i < pulled.size(); ++i) {
    if (!pulled[i].defined() || !pulled[i].requires_grad()) continue;
    outputs.push_back(pulled[i]);
    weights.push_back(v[i]);
  }
  if (!outputs.empty())
    if (const Tensor found = grad(outputs, {dummy}, weights, {.allow_unused = true})[0]; found.defined())
      product = found;
  return {value.detach(), product};
}

std::vector<Tensor> jacobian(const TensorFunction& f, const std::vector<Tensor>& inputs) {
  EnableGrad enable;
  const std::vector<Tensor> variables = variables_like(inputs);
  return rows_of(f(variables), variables);
}

std::vector<std::vector<Tensor>> hessian(const TensorFunction& f, const std::vector<Tensor>& inputs) {
  EnableGrad enable;
  const std::vector<Tensor> variables = variables_like(inputs);
  const Tensor value = f(variables);
  WEFT_CHECK(value.numel() == 1, "hessian", "expected a function with one value, got {}", describe(value));
  std::vector<Tensor> first(inputs.size());
  if (value.requires_grad()) first = grad({value}, variables, {}, {.create_graph = true, .allow_unused = true});
  fill_unused(first, inputs);
  std::vector<std::vector<Tensor>> result;
  for (const Tensor& gradient : first) result.push_back(rows_of(gradient, variables));
  return result;
}

}  // namespace weft
