#include "autograd/functional.h"

#include <cmath>

#include "autograd/ops/ops.h"
#include "tensor/random.h"

namespace weft {

std::pair<Tensor, std::vector<Tensor>> value_and_grad(const TensorFunction& f, const std::vector<Tensor>& inputs) {
  EnableGrad enable;
  std::vector<Tensor> variables;
  for (const Tensor& input : inputs) variables.push_back(input.detach().requires_grad_());
  const Tensor value = f(variables);
  WEFT_CHECK(value.numel() == 1, "value_and_grad", "expected a function with one value, got {}", describe(value));
  return {value.detach(), grad({value}, variables)};
}

Gradients composite_gradients(const TensorFunction& f, const std::vector<Tensor>& inputs, const Tensor& grad_output) {
  // Each input gets a node of its own, newer than its history, so that one input's history cannot lead to another.
  std::vector<Tensor> variables = inputs;
  std::vector<Tensor> wanted;
  for (Tensor& variable : variables) {
    if (!variable.defined() || !variable.requires_grad()) continue;
    variable = record("identity", {variable}, variable.detach(),
                      [](Node&, const Gradients& dy) -> Gradients { return {dy[0]}; });
    wanted.push_back(variable);
  }
  Gradients result(inputs.size());
  if (wanted.empty()) return result;
  Gradients found = grad({f(variables)}, wanted, {grad_output}, {.create_graph = true, .allow_unused = true});
  for (size_t i = 0, next = 0; i < inputs.size(); ++i)
    if (inputs[i].defined() && inputs[i].requires_grad()) result[i] = std::move(found[next++]);
  return result;
}

Tensor checkpoint(const TensorFunction& f, const std::vector<Tensor>& inputs) {
  if (!GradMode::enabled()) return f(inputs);
  struct RandomState {
    std::vector<uint8_t> generator = default_generator().save();
    RandomStream stream = random_stream();
    void restore() const {
      default_generator().load(generator);
      random_stream() = stream;
    }
  };
  const RandomState before;
  Tensor value;
  {
    NoGrad guard;
    value = f(inputs).detach();
  }
  // Parameters inside f need the node even where no input requires a gradient; the last input stands for them.
  std::vector<Tensor> recorded = inputs;
  recorded.push_back(zeros({}, {.requires_grad = true}));
  std::vector<Saved> saved(inputs.begin(), inputs.end());
  return record("checkpoint", recorded, value, [f, saved, before](Node& node, const Gradients& dy) -> Gradients {
    if (GradMode::enabled())
      fail(ErrorCode::unsupported, "checkpoint",
           "create_graph cannot go through a checkpoint; call the function plainly");
    const RandomState now;
    before.restore();
    EnableGrad enable;
    std::vector<Tensor> variables;
    for (size_t i = 0; i < saved.size(); ++i) {
      variables.push_back(saved[i].get(node).detach());
      if (node.needs_input_grad(i)) variables.back().requires_grad_();
    }
    const Tensor again = f(variables);
    now.restore();
    Gradients result(saved.size() + 1);
    if (!again.requires_grad()) return result;
    backward({again}, {dy[0]});
    for (size_t i = 0; i < saved.size(); ++i) result[i] = variables[i].grad();
    return result;
  });
}

Tensor custom_op(const char* name, const std::vector<Tensor>& inputs, const Tensor& value,
                 std::function<std::vector<Tensor>(const Tensor&)> backward) {
  return record(name, inputs, value.detach(),
                [backward = std::move(backward)](Node&, const Gradients& dy) -> Gradients { return backward(dy[0]); });
}

namespace {

// Fixed, irregular weights, so that a sum over outputs does not hide errors that cancel.
Tensor probe_like(const Tensor& output) {
  Tensor weights = empty(output.shape(), DType::f64);
  double* w = weights.data<double>();
  for (int64_t i = 0; i < weights.numel(); ++i)
    w[i] = 0.5 + std::fmod(0.6180339887498949 * static_cast<double>(i + 1), 1.0);
  return weights;
}

}  // namespace

void gradcheck(const TensorFunction& f, const std::vector<Tensor>& inputs, GradcheckOptions options) {
  std::vector<Tensor> variables;
  for (const Tensor& input : inputs) {
    Tensor copy = input.detach().clone();
    if (is_floating(copy.dtype())) {
      WEFT_CHECK(copy.dtype() == DType::f64, "gradcheck", "expected f64 inputs, got {}", describe(input));
      copy.requires_grad_();
    }
    variables.push_back(std::move(copy));
  }
  const auto objective = [&] {
    const Tensor y = f(variables);
    return sum(y * probe_like(y));
  };
  std::vector<Tensor> wanted;
  for (const Tensor& variable : variables)
    if (variable.requires_grad()) wanted.push_back(variable);
  std::vector<Tensor> analytic;
  {
    EnableGrad enable;
    analytic = grad({objective()}, wanted, {}, {.allow_unused = true});
  }
  NoGrad guard;
  for (size_t i = 0; i < wanted.size(); ++i) {
    double* x = wanted[i].data<double>();
    const std::vector<double> gradient =
        analytic[i].defined() ? analytic[i].to_vector() : std::vector<double>(static_cast<size_t>(wanted[i].numel()));
    for (int64_t k = 0; k < wanted[i].numel(); ++k) {
      const double here = x[k];
      x[k] = here + options.eps;
      const double above = objective().item();
      x[k] = here - options.eps;
      const double below = objective().item();
      x[k] = here;
      const double numeric = (above - below) / (2 * options.eps);
      const double got = gradient[static_cast<size_t>(k)];
      WEFT_CHECK(std::abs(got - numeric) <= options.atol + options.rtol * std::abs(numeric), "gradcheck",
                 "input {} ({}), element {}: the gradient is {}, finite differences give {}", i, describe(wanted[i]), k,
                 got, numeric);
    }
  }
}

void gradcheck(const std::function<Tensor(const Tensor&)>& f, const Tensor& input, GradcheckOptions options) {
  gradcheck([&](const std::vector<Tensor>& in) { return f(in[0]); }, {input}, options);
}

void gradgradcheck(const TensorFunction& f, const std::vector<Tensor>& inputs, GradcheckOptions options) {
  gradcheck(
      [&](const std::vector<Tensor>& in) {
        EnableGrad enable;
        std::vector<Tensor> variables;
        std::vector<Tensor> wanted;
        for (const Tensor& input : in) {
          variables.push_back(input.requires_grad() || !is_floating(input.dtype()) ? input
                                                                                   : input.detach().requires_grad_());
          if (variables.back().requires_grad()) wanted.push_back(variables.back());
        }
        const Tensor y = f(variables);
        Tensor total = zeros({}, DType::f64);
        for (const Tensor& g : grad({sum(y * probe_like(y))}, wanted, {}, {.create_graph = true, .allow_unused = true}))
          if (g.defined()) total = total + sum(g * probe_like(g));
        return total;
      },
      inputs, options);
}

}  // namespace weft
