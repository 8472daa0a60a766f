#include "autograd/ops/inplace.h"

#include "autograd/node.h"
#include "autograd/ops/ops.h"
#include "kernels/table.h"

namespace weft {

bool detail::begin_in_place(const char* op, const Tensor& target, const std::vector<Tensor>& sources) {
  for (int d = 0; d < target.dim(); ++d)
    WEFT_CHECK(target.stride(d) != 0 || target.size(d) <= 1 || target.numel() == 0, op,
               "{} is expanded: several elements share one place in memory; clone() it first", describe(target));
  const bool matters = any_requires_grad(sources) || any_requires_grad({target});
  if (matters) {
    WEFT_CHECK(!(target.requires_grad() && target.is_leaf()), op,
               "a leaf that requires a gradient cannot be changed in place; wrap the update in NoGrad");
    WEFT_CHECK(!target.impl().is_view && !target.impl().has_views.load(std::memory_order_relaxed), op,
               "a tensor that shares its memory with a view cannot be changed in place while gradients are recorded; "
               "use the out-of-place form or clone() first");
  }
  return matters;
}

namespace {

// The result of target ∘ other has the shape of target, and a dtype that target's can hold.
void check_fits(const char* op, const Tensor& target, const Tensor& other) {
  WEFT_CHECK(broadcast_shapes(target.shape(), other.shape(), op) == target.shape(), op,
             "{} does not broadcast to {}, which is changed in place", describe(other), describe(target));
  WEFT_CHECK(is_floating(target.dtype()) || !is_floating(other.dtype()), op,
             "{} cannot hold a result of {}; convert it with to() first", describe(target), describe(other));
}

// Computes into `target` the value that `f` gives for its present value.
template <class F>
void overwrite(const char* op, const Tensor& target, F&& f) {
  NoGrad guard;
  const Tensor value = f();
  WEFT_CHECK(value.shape() == target.shape(), op, "the result has shape {}, which does not fit in place into {}",
             value.shape(), describe(target));
  detail::copy_elements(value, target);
  target.storage()->bump_version();
}

// True when a fused update may write straight into `target`.
bool writes_directly(const Tensor& target, const Tensor& other) {
  return target.is_contiguous() && other.is_contiguous() && target.dtype() == other.dtype() &&
         target.shape() == other.shape() && target.device() == other.device() && !target.is_meta() &&
         (target.dtype() == DType::f32 || target.dtype() == DType::f64);
}

void run_directly(PointwiseOp op, const Tensor& target, const Tensor& other, double parameter) {
  PointwiseArguments args;
  args.compute = target.dtype();
  args.parameters = {parameter, 0};
  args.count = 3;
  args.layout.push(target.numel(), {1, 1, 1});
  args.data = {target.data(), other.data(), target.data()};
  args.dtype = {target.dtype(), target.dtype(), target.dtype()};
  const Device device = target.device();
  kernel_table(device.type, "add_").pointwise.run(current_stream(device), op, PointwisePass::forward, args);
  target.storage()->bump_version();
}

}  // namespace

const Tensor& Tensor::copy_(const Tensor& source) const {
  WEFT_CHECK(broadcast_shapes(shape(), source.shape(), "copy_") == shape(), "copy_", "{} does not broadcast to {}",
             describe(source), describe(*this));
  const bool recorded = detail::begin_in_place("copy_", *this, {source});
  const Tensor fitted = source.shape() == shape() ? source : source.expand(shape());
  const auto record_inputs = std::vector<Tensor>{*this, fitted};
  if (recorded)
    record_in_place("copy_", record_inputs, *this,
                    [from = source.dtype()](Node& node, const Gradients& dy) -> Gradients {
                      return {node.needs_input_grad(0) ? zeros_like(dy[0]) : Tensor(), dy[0].to(from)};
                    });
  if (fitted.defined() && fitted.storage() == storage()) {
    overwrite("copy_", *this, [&] { return fitted.detach().clone(); });  // may overlap
  } else {
    detail::copy_elements(fitted, *this);
    storage()->bump_version();
  }
  return *this;
}

const Tensor& Tensor::fill_(double value) const {
  if (detail::begin_in_place("fill_", *this, {}))
    record_in_place("fill_", {*this}, *this,
                    [](Node&, const Gradients& dy) -> Gradients { return {zeros_like(dy[0])}; });
  if (is_meta()) return *this;
  if (is_contiguous())
    kernel_table(device().type, "fill_").copy.fill(current_stream(device()), dtype(), data(), numel(), value);
  else
    detail::copy_elements(full({}, value, options()).expand(shape()), *this);
  storage()->bump_version();
  return *this;
}

const Tensor& Tensor::add_(const Tensor& other, double alpha) const {
  check_fits("add_", *this, other);
  const bool recorded = detail::begin_in_place("add_", *this, {other});
  if (recorded)
    record_in_place(
        "add_", {*this, other}, *this, [alpha, shape = other.shape()](Node& node, const Gradients& dy) -> Gradients {
          return {dy[0],
                  node.needs_input_grad(1) ? detail::sum_to(alpha == 1 ? dy[0] : mul(dy[0], alpha), shape) : Tensor()};
        });
  if (!is_meta() && writes_directly(*this, other))
    run_directly(alpha == 1 ? PointwiseOp::add : PointwiseOp::add_scaled, *this, other, alpha);
  else if (!is_meta())
    overwrite("add_", *this, [&] { return add(*this, other, alpha); });
  return *this;
}

const Tensor& Tensor::mul_(const Tensor& other) const {
  check_fits("mul_", *this, other);
  if (detail::begin_in_place("mul_", *this, {other})) {
    Saved before = other.requires_grad() ? Saved(clone()) : Saved();  // with its history, for double backward
    Saved factor = other.is(*this) ? before : Saved(other);           // this tensor's new node must not own it
    record_in_place("mul_", {*this, other}, *this,
                    [factor, before, shape = other.shape()](Node& node, const Gradients& dy) -> Gradients {
                      return {mul(dy[0], factor.get(node)), node.needs_input_grad(1)
                                                                ? detail::sum_to(mul(dy[0], before.get(node)), shape)
                                                                : Tensor()};
                    });
  }
  if (!is_meta() && writes_directly(*this, other) && !is(other))
    run_directly(PointwiseOp::mul, *this, other, 0);
  else if (!is_meta())
    overwrite("mul_", *this, [&] { return mul(*this, other); });
  return *this;
}

const Tensor& Tensor::mul_(double factor) const {
  if (detail::begin_in_place("mul_", *this, {}))
    record_in_place("mul_", {*this}, *this,
                    [factor](Node&, const Gradients& dy) -> Gradients { return {mul(dy[0], factor)}; });
  if (!is_meta()) overwrite("mul_", *this, [&] { return mul(*this, factor); });
  return *this;
}

}  // namespace weft
