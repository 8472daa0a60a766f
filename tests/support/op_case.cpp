#include "tests/support/op_case.h"

#include <fmt/format.h>

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

std::vector<Tensor> make_inputs(const OpCase& c, DType dtype, const std::vector<Shape>& shapes, uint64_t seed) {
  Generator generator(seed);
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

Sizes sizes_of(const OpCase& c) {
  Sizes sizes;
  for (const OpInput& input : c.inputs)
    for (const int64_t size : input.shape)
      if (size > 1) sizes[size] = size;
  return sizes;
}

OpCase resized(const OpCase& c, const Sizes& sizes) {
  OpCase result = c;
  for (OpInput& input : result.inputs) {
    for (int64_t& size : input.shape)
      if (size > 1) size = sizes.at(size);
    // Indices into a dimension end where it ends.
    if (input.kind == OpInput::Kind::index && sizes.count(static_cast<int64_t>(input.high)))
      input.high = static_cast<double>(sizes.at(static_cast<int64_t>(input.high)));
  }
  return result;
}

bool indices_fit(const OpCase& c) {
  for (const OpInput& input : c.inputs) {
    if (input.kind != OpInput::Kind::index) continue;
    if (input.high < 1) return false;
    if (input.distinct && input.shape[0] != static_cast<int64_t>(input.high)) return false;
  }
  return true;
}

std::string difference(const Tensor& got_, const Tensor& want_, OpTolerance tolerance) {
  if (got_.defined() != want_.defined()) return fmt::format("{}, expected {}", describe(got_), describe(want_));
  if (!got_.defined()) return "";
  const Tensor got = got_.to(cpu_device), want = want_.to(cpu_device);
  if (got.shape() != want.shape()) return fmt::format("{}, expected {}", describe(got), describe(want));
  const std::vector<double> a = got.to_vector(), b = want.to_vector();
  for (size_t i = 0; i < a.size(); ++i) {
    const bool near = std::isfinite(b[i]) ? std::abs(a[i] - b[i]) <= tolerance.atol + tolerance.rtol * std::abs(b[i])
                                          : a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
    if (!near) return fmt::format("element {} of {}: {}, expected {}", i, describe(got), a[i], b[i]);
  }
  return "";
}

std::string difference(const OpRun& got, const OpRun& want, OpTolerance tolerance) {
  const auto of_lists = [&](const std::vector<Tensor>& a, const std::vector<Tensor>& b, const char* what) {
    if (a.size() != b.size()) return fmt::format("{} {}s, expected {}", a.size(), what, b.size());
    for (size_t k = 0; k < a.size(); ++k)
      if (std::string found = difference(a[k], b[k], tolerance); !found.empty())
        return fmt::format("{} {}, {}", what, k, found);
    return std::string();
  };
  std::string found = of_lists(got.outputs, want.outputs, "result");
  return found.empty() ? of_lists(got.gradients, want.gradients, "gradient") : found;
}

std::vector<Tensor> converted(const std::vector<Tensor>& in, DType dtype) {
  std::vector<Tensor> result;
  for (const Tensor& x : in) result.push_back(is_floating(x.dtype()) ? x.to(dtype) : x);
  return result;
}

OpTolerance half_tolerance(const OpCase& c, DType dtype) {
  const double unit = dtype == bf16 ? 1.0 / 128 : 1.0 / 1024;
  return {3 * unit + c.tolerance.rtol, 3 * unit + c.tolerance.atol};
}

Tensor moved(const Tensor& x, Device device) {
  if (x.device() == device) return x;
  if (x.is_contiguous()) return x.to(device);
  const Tensor storage = x.alias({x.storage()->bytes() / size_of(x.dtype())}, {1}, 0).to(device);
  return storage.alias(x.shape(), x.strides(), x.offset());
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
