// One definition for all pointwise ops: promote, broadcast, launch, record. The formulas are the functors' (kernels/
// pointwise/functors): launched as fused kernels, and, under create_graph, evaluated on Tensors.
#include "autograd/ops/pointwise.h"

#include <cmath>

#include "kernels/base/simd.h"

#include <hwy/highway.h>

#include "autograd/node.h"
#include "autograd/ops/reduce.h"
#include "kernels/pointwise/chunk-inl.h"
#include "kernels/pointwise/functors/activation-inl.h"
#include "kernels/pointwise/functors/arithmetic-inl.h"
#include "kernels/pointwise/functors/comparison-inl.h"
#include "kernels/pointwise/functors/exponential-inl.h"
#include "kernels/pointwise/functors/loss-inl.h"
#include "kernels/table.h"

namespace weft {

// The vocabulary of the functors that is not a public function already.
[[maybe_unused]] static Tensor select(const Tensor& mask, const Operand& yes, const Operand& no) {
  return where(mask, yes, no);
}
[[maybe_unused]] static Tensor both(const Tensor& a, const Tensor& b) { return logical_and(a, b); }
[[maybe_unused]] static Tensor either(const Tensor& a, const Tensor& b) { return logical_or(a, b); }

namespace {

using Parameters = std::array<double, 2>;
using Composite = Tensor (*)(const Tensor* in, const Parameters& parameters);
enum class Saves { nothing, inputs, output, both };
using HWY_NAMESPACE::Rule;

struct OpInfo {
  PointwiseOp op;
  const char* name;
  Rule rule;
  Saves saves;
  std::array<Composite, 3> composite;  // the gradient formulas on Tensors, by input
};

template <class Functor, int arity, int input>
Tensor composite_formula(const Tensor* in, const Parameters& parameters) {
  const Functor functor = HWY_NAMESPACE::functor_from<Functor>(parameters.data());
  return HWY_NAMESPACE::apply<arity, input>(functor, in);
}

template <class Functor, int arity, Rule rule>
constexpr std::array<Composite, 3> composites() {
  std::array<Composite, 3> result{};
  if constexpr (HWY_NAMESPACE::has_gradient(rule)) {
    result[0] = composite_formula<Functor, arity, 0>;
    if constexpr (arity > 1) result[1] = composite_formula<Functor, arity, 1>;
    if constexpr (arity > 2) result[2] = composite_formula<Functor, arity, 2>;
  }
  return result;
}

#define WEFT_POINTWISE(op, Functor, family, arity, rule, saves, ...)            \
  constexpr OpInfo op##_info = {PointwiseOp::op, #op, Rule::rule, Saves::saves, \
                                composites<HWY_NAMESPACE::Functor, arity, Rule::rule>()};
#include "kernels/pointwise/pointwise.def"
#undef WEFT_POINTWISE

DType compute_dtype(DType dtype) {
  if (dtype == DType::f64) return DType::f64;
  return is_floating(dtype) ? DType::f32 : DType::i64;
}

void add_operand(PointwiseArguments& args, const Tensor& tensor) {
  const auto k = static_cast<size_t>(args.count++);
  args.data[k] = tensor.data();
  args.dtype[k] = tensor.dtype();
  const int missing = args.layout.ndim - tensor.dim();
  for (int d = 0; d < args.layout.ndim; ++d) {
    const int own = d - missing;
    args.layout.strides[k][static_cast<size_t>(d)] = own < 0 || tensor.size(own) == 1 ? 0 : tensor.stride(own);
  }
}

// Launches one pass over operands that broadcast to `shape`.
Tensor launch(const OpInfo& info, PointwisePass pass, const std::vector<Tensor>& in, const Shape& shape, DType compute,
              DType result_dtype, const Parameters& parameters) {
  const Device device = in[0].device();
  for (const Tensor& t : in)
    WEFT_CHECK(t.device() == device, info.name, "operands on different devices: {} and {}", name(device.type),
               name(t.device().type));
  Tensor result = empty(shape, {.dtype = result_dtype, .device = device});
  if (device.type == DeviceType::meta || result.numel() == 0) return result;
  PointwiseArguments args;
  args.compute = compute;
  args.parameters = parameters;
  for (int64_t size : shape) args.layout.push(size, {});
  for (const Tensor& t : in) add_operand(args, t);
  add_operand(args, result);
  args.layout.collapse();
  kernel_table(device.type, info.name).pointwise.run(current_stream(device), info.op, pass, args);
  return result;
}

Tensor gradient_of_input(const OpInfo& info, int input, const std::vector<Tensor>& in, const Tensor& y,
                         const Tensor& dy, const Shape& shape, const Parameters& parameters) {
  const auto i = static_cast<size_t>(input);
  // Operands that backward does not read may be anything; dy is at hand.
  std::vector<Tensor> operands = in;
  operands.push_back(y);
  operands.push_back(dy);
  for (Tensor& operand : operands)
    if (!operand.defined()) operand = dy;
  Tensor gradient;
  if (GradMode::enabled() || info.saves == Saves::nothing)  // without operands the formula is a view or one launch
    gradient = info.composite[i](operands.data(), parameters);
  else
    gradient = launch(info, static_cast<PointwisePass>(input + 1), operands, dy.shape(), compute_dtype(dy.dtype()),
                      dy.dtype(), parameters);
  return detail::sum_to(gradient, shape);
}

// The tensor of an operand: a number becomes a 0-d tensor of the common dtype.
Tensor as_tensor(const Operand& operand, DType dtype, Device device) {
  return operand.is_number() ? full({}, operand.number(), {.dtype = dtype, .device = device}) : operand.tensor();
}

Tensor apply(const OpInfo& info, std::initializer_list<const Operand*> operands, Parameters parameters = {}) {
  for (const Operand* operand : operands)
    WEFT_CHECK(operand->is_number() || operand->tensor().defined(), info.name, "an operand is an undefined tensor");
  DType dtype = detail::promoted_dtype(operands);
  WEFT_CHECK(dtype != DType::boolean || (info.op != PointwiseOp::neg && info.op != PointwiseOp::sub), info.name,
             "bool has no negative numbers; use logical_not or ne, or convert it with to()");
  if (info.rule == Rule::floating && !is_floating(dtype)) dtype = DType::f32;
  WEFT_CHECK(info.rule != Rule::integral || !is_floating(dtype), info.name, "expected integers or bool, got {}", dtype);
  if (!is_floating(dtype))
    for (double parameter : parameters)
      WEFT_CHECK(std::trunc(parameter) == parameter, info.name, "{} is no whole number, but the operands are {}",
                 parameter, dtype);
  Device device = cpu_device;
  for (const Operand* operand : operands)
    if (!operand->is_number()) device = operand->tensor().device();
  std::vector<Tensor> in;
  Shape shape;
  for (const Operand* operand : operands) {
    in.push_back(as_tensor(*operand, dtype, device));
    shape = broadcast_shapes(shape, in.back().shape(), info.name);
  }
  const DType result = info.rule == Rule::comparison ? DType::boolean : dtype;
  Tensor y = launch(info, PointwisePass::forward, in, shape, compute_dtype(dtype), result, parameters);
  if (!HWY_NAMESPACE::has_gradient(info.rule) || !any_requires_grad(in)) return y;

  const bool saves_inputs = info.saves == Saves::inputs || info.saves == Saves::both;
  std::vector<Saved> saved;
  for (const Tensor& t : in) saved.push_back(saves_inputs ? Saved(t) : Saved());
  std::vector<Shape> shapes;
  for (const Tensor& t : in) shapes.push_back(t.shape());
  Saved saved_y = info.saves == Saves::output || info.saves == Saves::both ? Saved::output(y) : Saved();
  return record(info.name, in, y,
                [&info, saved, saved_y, shapes, parameters](Node& node, const Gradients& dy) -> Gradients {
                  std::vector<Tensor> inputs;
                  for (const Saved& s : saved) inputs.push_back(s.get(node));
                  const Tensor y = saved_y.get(node);
                  Gradients result(inputs.size());
                  for (size_t i = 0; i < result.size(); ++i)
                    if (node.needs_input_grad(i))
                      result[i] = gradient_of_input(info, static_cast<int>(i), inputs, y, dy[0], shapes[i], parameters);
                  return result;
                });
}

Tensor unary(const OpInfo& info, const Tensor& x, Parameters parameters = {}) {
  const Operand operand(x);
  return apply(info, {&operand}, parameters);
}

}  // namespace

namespace detail {

// torch's rule: tensors with dimensions decide; then 0-d tensors, then numbers, each only if of a higher category
// (bool < integer < floating).
DType promoted_dtype(std::initializer_list<const Operand*> operands) {
  const auto category = [](DType dtype) { return is_floating(dtype) ? 2 : dtype == DType::boolean ? 0 : 1; };
  std::optional<DType> levels[3];
  for (const Operand* operand : operands) {
    const bool number = operand->is_number();
    const DType dtype = number ? (operand->is_whole() ? DType::i64 : DType::f32) : operand->tensor().impl().dtype;
    auto& level = levels[number ? 2 : operand->tensor().dim() == 0 ? 1 : 0];
    level = level ? promote(*level, dtype) : dtype;
  }
  std::optional<DType> result;
  for (const auto& level : levels) {
    if (!level) continue;
    if (!result || category(*level) > category(*result)) result = level;
  }
  return *result;
}

Tensor pointwise(PointwiseOp op, std::initializer_list<const Operand*> operands, std::array<double, 2> parameters) {
  switch (op) {
#define WEFT_POINTWISE(op, ...) \
  case PointwiseOp::op:         \
    return apply(op##_info, operands, parameters);
#include "kernels/pointwise/pointwise.def"
#undef WEFT_POINTWISE
  }
  return {};
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  Shape dims;
  const int added = x.dim() - shape.size();
  for (int d = 0; d < x.dim(); ++d)
    if (d < added || (shape[d - added] == 1 && x.size(d) != 1)) dims.push_back(d);
  Tensor result = dims.empty() ? x : sum(x, dims, /*keepdim=*/true);
  return result.shape() == shape ? result : result.reshape(shape);
}

}  // namespace detail

// The plain functions.
#define WEFT_DEFINE_plain(op, arity) WEFT_DEFINE_PLAIN_##arity(op)
#define WEFT_DEFINE_own(op, arity)
#define WEFT_DEFINE_PLAIN_1(op) \
  Tensor op(const Tensor& x) { return unary(op##_info, x); }
#define WEFT_DEFINE_PLAIN_2(op) \
  Tensor op(const Operand& a, const Operand& b) { return apply(op##_info, {&a, &b}); }
#define WEFT_POINTWISE(op, Functor, family, arity, rule, saves, low, high, call) WEFT_DEFINE_##call(op, arity)
#include "kernels/pointwise/pointwise.def"
#undef WEFT_POINTWISE

Tensor leaky_relu(const Tensor& x, double negative_slope) { return unary(leaky_relu_info, x, {negative_slope}); }
Tensor elu(const Tensor& x, double alpha) { return unary(elu_info, x, {alpha}); }
Tensor hardtanh(const Tensor& x, double low, double high) { return unary(hardtanh_info, x, {low, high}); }
Tensor relu6(const Tensor& x) { return hardtanh(x, 0, 6); }
Tensor prelu(const Tensor& x, const Tensor& weight) {
  const int64_t channels = x.dim() > 1 ? x.size(1) : 1;
  WEFT_CHECK(weight.dim() <= 1 && (weight.numel() == 1 || weight.numel() == channels), "prelu",
             "expected a weight with 1 or {} elements for {}, got {}", channels, describe(x), describe(weight));
  WEFT_CHECK(weight.dtype() == x.dtype(), "prelu", "dtypes differ: {} and {}", describe(x), describe(weight));
  Shape shape;
  for (int d = 0; d < x.dim(); ++d) shape.push_back(d == 1 ? weight.numel() : 1);
  const Operand a(x), b(weight.reshape(weight.numel() == 1 ? Shape{} : shape));
  return apply(prelu_info, {&a, &b});
}
Tensor bitwise_not(const Tensor& x) {
  return x.dtype() == DType::boolean ? logical_not(x) : unary(bitwise_not_info, x);
}
Tensor softplus(const Tensor& x, double beta, double threshold) { return unary(softplus_info, x, {beta, threshold}); }
Tensor clamp(const Tensor& x, double low, double high) { return unary(clamp_info, x, {low, high}); }

Tensor add(const Operand& a, const Operand& b, double alpha) {
  return alpha == 1 ? apply(add_info, {&a, &b}) : apply(add_scaled_info, {&a, &b}, {alpha});
}
Tensor sub(const Operand& a, const Operand& b, double alpha) {
  return alpha == 1 ? apply(sub_info, {&a, &b}) : apply(add_scaled_info, {&a, &b}, {-alpha});
}
Tensor lerp(const Operand& a, const Operand& b, double weight) { return apply(lerp_info, {&a, &b}, {weight}); }
Tensor addcmul(const Operand& a, const Operand& b, const Operand& c, double value) {
  return apply(addcmul_info, {&a, &b, &c}, {value});
}
Tensor addcdiv(const Operand& a, const Operand& b, const Operand& c, double value) {
  return apply(addcdiv_info, {&a, &b, &c}, {value});
}

Tensor where(const Tensor& condition, const Operand& yes, const Operand& no) {
  WEFT_CHECK(condition.dtype() == DType::boolean, "where", "expected a bool condition, got {}", condition.dtype());
  const Operand operand(condition);
  return apply(where_info, {&operand, &yes, &no});
}

}  // namespace weft
