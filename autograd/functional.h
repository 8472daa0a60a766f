// Functions of functions.
//
//   auto [loss, grads] = value_and_grad([&](const std::vector<Tensor>& in) { return sum(in[0] * in[0]); }, {x});
//   Tensor y = checkpoint([&](const std::vector<Tensor>& in) { return block(in[0]); }, {x});
//   Tensor z = custom_op("my_silu", {x}, x * sigmoid(x), [x](const Tensor& dy) { return std::vector{…}; });
//   gradcheck([](const std::vector<Tensor>& in) { return exp(in[0]); }, {randn({4, 5}, f64)});
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "autograd/engine.h"

namespace weft {

using TensorFunction = std::function<Tensor(const std::vector<Tensor>&)>;

// f(inputs), a scalar, and its gradients by input. The inputs' own grad() is left alone.
std::pair<Tensor, std::vector<Tensor>> value_and_grad(const TensorFunction& f, const std::vector<Tensor>& inputs);

// Those gradients alone.
std::vector<Tensor> grad(const TensorFunction& f, const std::vector<Tensor>& inputs);

// f(inputs), and vᵀ · J by input, where J is the Jacobian of f at `inputs`; v has the value's shape. (jacobian.cpp)
std::pair<Tensor, std::vector<Tensor>> vjp(const TensorFunction& f, const std::vector<Tensor>& inputs, const Tensor& v);
// f(inputs), and the sum of J_i · v_i over the inputs; v_i has the shape of input i. Takes a double backward of f.
std::pair<Tensor, Tensor> jvp(const TensorFunction& f, const std::vector<Tensor>& inputs, const std::vector<Tensor>& v);
// By input, d value / d input: the value's dimensions, then the input's. One backward an element of the value; 0 where f
// does not depend on an input.
std::vector<Tensor> jacobian(const TensorFunction& f, const std::vector<Tensor>& inputs);
// Of a function with one value: element [i][j] is d²f / d input i d input j, the dimensions of input i, then of j.
std::vector<std::vector<Tensor>> hessian(const TensorFunction& f, const std::vector<Tensor>& inputs);

// f(inputs) without keeping what happens inside: backward runs f once more (Chen et al. 2016, "Training deep nets with
// sublinear memory cost"). Random ops repeat their first draw.
Tensor checkpoint(const TensorFunction& f, const std::vector<Tensor>& inputs);

// An op with a gradient of one's own: `value` is the result, computed in any way; `backward` maps its gradient to one
// gradient an input.
Tensor custom_op(const char* name, const std::vector<Tensor>& inputs, const Tensor& value,
                 std::function<std::vector<Tensor>(const Tensor& grad_output)> backward);

// For the backward functions of fused ops under create_graph: the gradients of f, the same function made of
// differentiable ops, at `inputs`; undefined for inputs that require none.
Gradients composite_gradients(const TensorFunction& f, const std::vector<Tensor>& inputs, const Tensor& grad_output);

struct GradcheckOptions {
  double eps = 1e-6;  // step of the central difference
  double atol = 1e-5;
  double rtol = 1e-3;
};
// Compares the gradient of f with finite differences at `inputs` (f64), along every element. Throws weft::Error naming
// input, element and both values on a difference.
void gradcheck(const TensorFunction& f, const std::vector<Tensor>& inputs, GradcheckOptions options = {});
void gradcheck(const std::function<Tensor(const Tensor&)>& f, const Tensor& input, GradcheckOptions options = {});
// The same for the gradient of the gradient.
void gradgradcheck(const TensorFunction& f, const std::vector<Tensor>& inputs, GradcheckOptions options = {});

}  // namespace weft
