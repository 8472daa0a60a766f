// Losses of matching elements. Their formulas are kernels/pointwise/functors/loss-inl.h: one launch, then the reduction.
#include "autograd/ops/common.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/ops.h"
#include "kernels/pointwise/pointwise.h"

namespace weft {
namespace {

// Shapes that differ would broadcast to losses of pairs that nobody meant.
void check_pair(const char* op, const Tensor& x, const Tensor& target) {
  WEFT_CHECK(x.shape() == target.shape(), op, "shapes differ: {} and {}", describe(x), describe(target));
  detail::check_same_device(op, x, target);
}

Tensor elements(PointwiseOp op, const Tensor& x, const Tensor& target, double parameter = 0) {
  const Operand a(x), b(target);
  return detail::pointwise(op, {&a, &b}, {parameter});
}

Tensor weighted(const char* op, const Tensor& loss, const Tensor& weight) {
  if (!weight.defined()) return loss;
  detail::check_same_device(op, loss, weight);
  WEFT_CHECK(broadcast_shapes(loss.shape(), weight.shape(), op) == loss.shape(), op,
             "the weight {} does not broadcast to {}", describe(weight), describe(loss));
  return loss * weight;
}

}  // namespace

namespace detail {

Tensor reduced(const char* op, const Tensor& loss, LossReduction reduction) {
  switch (reduction) {
    case LossReduction::none: return loss;
    case LossReduction::mean: return mean(loss);
    case LossReduction::sum: return sum(loss);
    case LossReduction::batchmean: break;
  }
  fail(ErrorCode::invalid_argument, op, "expected the reduction none, mean or sum; batchmean is kl_div's");
}

}  // namespace detail

Tensor mse_loss(const Tensor& x, const Tensor& target, LossReduction reduction) {
  check_pair("mse_loss", x, target);
  return detail::reduced("mse_loss", elements(PointwiseOp::mse_loss, x, target), reduction);
}

Tensor l1_loss(const Tensor& x, const Tensor& target, LossReduction reduction) {
  check_pair("l1_loss", x, target);
  return detail::reduced("l1_loss", elements(PointwiseOp::l1_loss, x, target), reduction);
}

Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, double beta, LossReduction reduction) {
  WEFT_CHECK(beta >= 0, "smooth_l1_loss", "expected beta >= 0, got {}", beta);
  if (beta == 0) return l1_loss(x, target, reduction);
  check_pair("smooth_l1_loss", x, target);
  return detail::reduced("smooth_l1_loss", elements(PointwiseOp::smooth_l1_loss, x, target, beta), reduction);
}

Tensor huber_loss(const Tensor& x, const Tensor& target, double delta, LossReduction reduction) {
  WEFT_CHECK(delta > 0, "huber_loss", "expected delta > 0, got {}", delta);
  check_pair("huber_loss", x, target);
  return detail::reduced("huber_loss", elements(PointwiseOp::huber_loss, x, target, delta), reduction);
}

Tensor binary_cross_entropy(const Tensor& x, const Tensor& target, BinaryCrossEntropyOptions options) {
  constexpr const char* op = "binary_cross_entropy";
  check_pair(op, x, target);
  return detail::reduced(op, weighted(op, elements(PointwiseOp::binary_cross_entropy, x, target), options.weight),
                         options.reduction);
}

Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target,
                                        BinaryCrossEntropyWithLogitsOptions options) {
  constexpr const char* op = "binary_cross_entropy_with_logits";
  check_pair(op, logits, target);
  const Operand x(logits), t(target), one(1);
  const Operand p = options.pos_weight.defined() ? Operand(options.pos_weight) : one;
  if (options.pos_weight.defined()) {
    detail::check_same_device(op, logits, options.pos_weight);
    WEFT_CHECK(broadcast_shapes(logits.shape(), options.pos_weight.shape(), op) == logits.shape(), op,
               "pos_weight {} does not broadcast to {}", describe(options.pos_weight), describe(logits));
  }
  const Tensor loss = detail::pointwise(PointwiseOp::binary_cross_entropy_with_logits, {&x, &t, &p});
  return detail::reduced(op, weighted(op, loss, options.weight), options.reduction);
}

Tensor kl_div(const Tensor& x, const Tensor& target, LossReduction reduction, bool log_target) {
  check_pair("kl_div", x, target);
  const Tensor loss = elements(log_target ? PointwiseOp::kl_div_log_target : PointwiseOp::kl_div, x, target);
  if (reduction != LossReduction::batchmean) return detail::reduced("kl_div", loss, reduction);
  const Tensor total = sum(loss);
  return x.dim() > 0 ? total / x.size(0) : total;
}

Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target, double margin,
                             LossReduction reduction) {
  constexpr const char* op = "cosine_embedding_loss";
  check_pair(op, a, b);
  detail::check_same_device(op, a, target);
  WEFT_CHECK((a.dim() == 1 || a.dim() == 2) && is_floating(a.dtype()), op,
             "expected floating-point vectors [N, D] or [D], got {}", describe(a));
  Shape rows = a.shape();
  rows.erase(a.dim() - 1);
  WEFT_CHECK(target.shape() == rows, op, "vectors {} need targets of shape {}, got {}", describe(a), rows,
             describe(target));
  constexpr double epsilon = 1e-12;
  const DType wide = detail::statistics_dtype(a.dtype());
  const Tensor x = a.to(wide), y = b.to(wide);
  const Tensor lengths = sqrt((sum(x * x, {-1}) + epsilon) * (sum(y * y, {-1}) + epsilon));
  const Tensor cosine = sum(x * y, {-1}) / lengths;
  const Tensor loss =
      where(eq(target, 1), 1 - cosine, where(eq(target, -1), clamp(cosine - margin, 0), zeros_like(cosine)));
  return detail::reduced(op, loss, reduction).to(a.dtype());
}

}  // namespace weft
