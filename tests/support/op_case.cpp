#include "tests/support/op_case.h"

#include <algorithm>
#include <cmath>

#include "autograd/engine.h"

namespace weft::testing {
namespace {

Tensor make_input(const OpInput& input, const Shape& shape, DType dtype, Generator& generator) {
  Tensor x = empty(shape, f64);
  const int64_t count = x.numel();
  double* values = count ? x.data<double>() : nullptr;
  const double range = input.high - input.low;
  if (input.kind == OpInput::Kind::flag) {
    for (int64_t i = 0; i < count; ++i) values[i] = i * 7 % 5 < 3 ? 1 : 0;  // never all alike
  } else if (input.distinct) {
    std::vector<int64_t> order(static_cast<size_t>(count));
    generator.fill_permutation(order.data(), count);
    const bool whole = input.kind == OpInput::Kind::index;
    // Whole numbers as they are; others in the middle of equal intervals, which no dtype rounds together.
    for (int64_t i = 0; i < count; ++i) {
      const auto place = static_cast<double>(order[static_cast<size_t>(i)]);
      values[i] = whole ? place : input.low + range * (place + 0.5) / static_cast<double>(count);
    }
  } else if (count) {
    generator.fill_uniform(values, count, input.low, input.high);
  }
  switch (input.kind) {
    case OpInput::Kind::index: return floor(x).to(i64);
    case OpInput::Kind::flag: return ge(x, 1);
    default: return x.to(dtype);
  }
}

// Fixed, irregular weights: no sum of errors cancels.
Tensor weights_like(const Tensor& y) {
  Tensor weights = empty(y.shape(), f64);
  for (int64_t i = 0; i < weights.numel(); ++i)
    weights.data<double>()[i] = 0.5 + std::fmod(0.6180339887498949 * static_cast<double>(i + 1), 1.0);
  return weights.to(y.dtype()).to(y.device());
}

}  // namespace

std::vector<Tensor> make_inputs(const OpCase& c, DType dtype, const std::vector<Shape>& shapes) {
  Generator generator(20);
  std::vector<Tensor> result;
  for (size_t i = 0; i < c.inputs.size(); ++i)
    result.push_back(make_input(c.inputs[i], shapes.empty() ? c.inputs[i].shape : shapes.at(i), dtype, generator));
  return result;
}

OpRun run_case(const OpCase& c, const std::vector<Tensor>& inputs, bool create_graph) {
  std::vector<Tensor> in = inputs, leaves;
  const bool wanted = c.no_gradient.empty();
  for (size_t i = 0; i < in.size(); ++i) {
    if (c.inputs[i].kind != OpInput::Kind::real || !is_floating(in[i].dtype())) continue;
    in[i] = in[i].detach().requires_grad_(wanted);
    leaves.push_back(in[i]);
  }
  OpRun run;
  run.outputs = c.call(in);
  std::vector<Tensor> outputs, weights;
  for (const Tensor& y : run.outputs) {
    if (!y.requires_grad()) continue;
    outputs.push_back(y);
    weights.push_back(weights_like(y));
  }
  if (!outputs.empty())
    run.gradients = grad(outputs, leaves, weights, {.create_graph = create_graph, .allow_unused = true});
  for (auto* list : {&run.outputs, &run.gradients})
    for (Tensor& t : *list)
      if (t.defined()) t = t.detach();
  return run;
}

Tensor with_layout(const Tensor& x, Layout layout) {
  if (x.dim() == 0) return x;
  const NoGrad guard;
  Shape shape = x.shape();
  if (layout == Layout::spaced) {
    shape[-1] = 2 * x.size(-1) + 1;
    Tensor larger = zeros(shape, x.options()).slice(-1, 1, {}, 2);
    return larger.copy_(x);
  }
  Shape order;
  for (int d = x.dim() - 1; d >= 0; --d) order.push_back(d);
  return x.permute(order).clone().permute(order);
}

}  // namespace weft::testing
