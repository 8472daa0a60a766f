// The public functions by the names of kernels/pointwise/pointwise.def, each with the operands of its line and nothing
// else: parameters are filled in, and ops whose public function restricts or reduces shapes are called element by element.
//
//   Tensor y = pointwise_api::clamp(x);
#pragma once
#include "autograd/ops/ops.h"
#include "kernels/pointwise/pointwise.h"

namespace weft::testing::pointwise_api {

using namespace weft;

inline Tensor add_scaled(const Tensor& a, const Tensor& b) { return add(a, b, 2); }
inline Tensor clamp(const Tensor& x) { return weft::clamp(x, -1, 2); }
inline Tensor lerp(const Tensor& a, const Tensor& b) { return weft::lerp(a, b, 0.25); }
inline Tensor where(const Tensor& condition, const Tensor& yes, const Tensor& no) {
  return weft::where(gt(condition, 0), yes, no);
}

namespace detail {
inline Tensor whole(const Tensor& x) { return is_floating(x.dtype()) ? x.to(i64) : x; }
inline Tensor elements(PointwiseOp op, const Operand& a, const Operand& b, double parameter = 0) {
  return weft::detail::pointwise(op, {&a, &b}, {parameter});
}
}  // namespace detail

inline Tensor bitwise_and(const Tensor& a, const Tensor& b) {
  return weft::bitwise_and(detail::whole(a), detail::whole(b));
}
inline Tensor bitwise_or(const Tensor& a, const Tensor& b) {
  return weft::bitwise_or(detail::whole(a), detail::whole(b));
}
inline Tensor bitwise_xor(const Tensor& a, const Tensor& b) {
  return weft::bitwise_xor(detail::whole(a), detail::whole(b));
}
inline Tensor bitwise_not(const Tensor& x) { return weft::bitwise_not(detail::whole(x)); }

inline Tensor prelu(const Tensor& a, const Tensor& b) { return detail::elements(PointwiseOp::prelu, a, b); }
inline Tensor mse_loss(const Tensor& x, const Tensor& t) { return detail::elements(PointwiseOp::mse_loss, x, t); }
inline Tensor l1_loss(const Tensor& x, const Tensor& t) { return detail::elements(PointwiseOp::l1_loss, x, t); }
inline Tensor smooth_l1_loss(const Tensor& x, const Tensor& t) {
  return detail::elements(PointwiseOp::smooth_l1_loss, x, t, 0.75);
}
inline Tensor huber_loss(const Tensor& x, const Tensor& t) {
  return detail::elements(PointwiseOp::huber_loss, x, t, 0.75);
}
inline Tensor binary_cross_entropy(const Tensor& x, const Tensor& t) {
  return detail::elements(PointwiseOp::binary_cross_entropy, x, t);
}
inline Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& t, const Tensor& p) {
  const Operand logits(x), target(t), weight(p);
  return weft::detail::pointwise(PointwiseOp::binary_cross_entropy_with_logits, {&logits, &target, &weight});
}
inline Tensor kl_div(const Tensor& x, const Tensor& t) { return detail::elements(PointwiseOp::kl_div, x, t); }
inline Tensor kl_div_log_target(const Tensor& x, const Tensor& t) {
  return detail::elements(PointwiseOp::kl_div_log_target, x, t);
}

}  // namespace weft::testing::pointwise_api
