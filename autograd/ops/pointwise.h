// Pointwise operations: PyTorch's names, broadcasting and type promotion.
//
//   Tensor y = 2 * exp(-x) + maximum(a, 0);
//   Tensor z = where(x > 0, x, 0.1 * x);
//
// An operand is a Tensor or a number. A number takes the tensor's dtype, unless it is a fraction and the tensor holds
// integers (then the result is f32). Shapes broadcast by NumPy's rule, else weft::Error. All are differentiable any
// number of times, except comparisons, logic and rounding (flat: no gradient).
#pragma once
#include <limits>
#include <type_traits>

#include "tensor/factory.h"
#include "tensor/tensor.h"

namespace weft {

enum class PointwiseOp : uint8_t;  // kernels/pointwise/pointwise.h

// A Tensor or a number, as an argument.
class Operand {
 public:
  Operand(const Tensor& tensor) : tensor_(tensor) {}
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  Operand(T number) : number_(static_cast<double>(number)), is_number_(true), is_whole_(std::is_integral_v<T>) {}

  bool is_number() const { return is_number_; }
  const Tensor& tensor() const { return tensor_; }
  double number() const { return number_; }
  bool is_whole() const { return is_whole_; }

 private:
  Tensor tensor_;
  double number_ = 0;
  bool is_number_ = false;
  bool is_whole_ = false;
};

// The plain functions of kernels/pointwise/pointwise.def, with one input or two:
//   Tensor exp(const Tensor& x);
//   Tensor maximum(const Operand& a, const Operand& b);
#define WEFT_DECLARE_plain(op, arity) WEFT_DECLARE_PLAIN_##arity(op)
#define WEFT_DECLARE_own(op, arity)
#define WEFT_DECLARE_PLAIN_1(op) Tensor op(const Tensor& x);
#define WEFT_DECLARE_PLAIN_2(op) Tensor op(const Operand& a, const Operand& b);
#define WEFT_POINTWISE(op, Functor, family, arity, result, saves, low, high, call) WEFT_DECLARE_##call(op, arity)
#include "kernels/pointwise/pointwise.def"
#undef WEFT_POINTWISE
#undef WEFT_DECLARE_plain
#undef WEFT_DECLARE_own
#undef WEFT_DECLARE_PLAIN_1
#undef WEFT_DECLARE_PLAIN_2

// Those with parameters.
Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01);
Tensor elu(const Tensor& x, double alpha = 1);
Tensor hardtanh(const Tensor& x, double low = -1, double high = 1);
Tensor relu6(const Tensor& x);                        // hardtanh from 0 to 6
Tensor prelu(const Tensor& x, const Tensor& weight);  // weight: one number, or one for each slice of dimension 1
Tensor bitwise_not(const Tensor& x);                  // of bool: logical_not
Tensor softplus(const Tensor& x, double beta = 1, double threshold = 20);
Tensor clamp(const Tensor& x, double low, double high = std::numeric_limits<double>::infinity());
Tensor add(const Operand& a, const Operand& b, double alpha = 1);  // a + alpha · b
Tensor sub(const Operand& a, const Operand& b, double alpha = 1);
Tensor lerp(const Operand& a, const Operand& b, double weight);                          // a + weight · (b - a)
Tensor where(const Tensor& condition, const Operand& yes, const Operand& no);            // condition: bool
Tensor addcmul(const Operand& a, const Operand& b, const Operand& c, double value = 1);  // a + value · b · c
Tensor addcdiv(const Operand& a, const Operand& b, const Operand& c, double value = 1);  // a + value · b / c

inline Tensor operator-(const Tensor& x) { return neg(x); }
inline Tensor operator+(const Operand& a, const Operand& b) { return add(a, b); }
inline Tensor operator-(const Operand& a, const Operand& b) { return sub(a, b); }
inline Tensor operator*(const Operand& a, const Operand& b) { return mul(a, b); }
inline Tensor operator/(const Operand& a, const Operand& b) { return div(a, b); }
inline Tensor operator==(const Operand& a, const Operand& b) { return eq(a, b); }
inline Tensor operator!=(const Operand& a, const Operand& b) { return ne(a, b); }
inline Tensor operator<(const Operand& a, const Operand& b) { return lt(a, b); }
inline Tensor operator<=(const Operand& a, const Operand& b) { return le(a, b); }
inline Tensor operator>(const Operand& a, const Operand& b) { return gt(a, b); }
inline Tensor operator>=(const Operand& a, const Operand& b) { return ge(a, b); }

namespace detail {
// Sums `x` over the dimensions that broadcasting added to `shape`.
Tensor sum_to(const Tensor& x, const Shape& shape);
// The dtype that an operation on these operands computes in, by torch's promotion rules.
DType promoted_dtype(std::initializer_list<const Operand*> operands);
// A line of pointwise.def by its name, for ops that another file of autograd/ops makes public.
Tensor pointwise(PointwiseOp op, std::initializer_list<const Operand*> operands, std::array<double, 2> parameters = {});
}  // namespace detail

}  // namespace weft
