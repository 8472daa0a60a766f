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

// A Tensor or a number, as an argument.
class Operand {
 public:
  Operand(const Tensor& tensor) : tensor_(tensor) {}
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  Operand(T number) : number_(static_cast<double>(number)), is_whole_(std::is_integral_v<T>) {}

  bool is_number() const { return !tensor_.defined(); }
  const Tensor& tensor() const { return tensor_; }
  double number() const { return number_; }
  bool is_whole() const { return is_whole_; }

 private:
  Tensor tensor_;
  double number_ = 0;
  bool is_whole_ = false;
};

// One input.
Tensor neg(const Tensor& x);
Tensor square(const Tensor& x);
Tensor reciprocal(const Tensor& x);  // 1 / x
Tensor abs(const Tensor& x);
Tensor sign(const Tensor& x);
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
Tensor round(const Tensor& x);  // ties to even
Tensor trunc(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor expm1(const Tensor& x);  // exp(x) - 1
Tensor log(const Tensor& x);
Tensor log1p(const Tensor& x);  // log(1 + x)
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);  // 1 / sqrt(x)
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor erf(const Tensor& x);
Tensor relu(const Tensor& x);
Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01);
Tensor elu(const Tensor& x, double alpha = 1);
Tensor sigmoid(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor gelu(const Tensor& x);       // x · Φ(x)
Tensor gelu_tanh(const Tensor& x);  // GPT-2's approximation of it
Tensor silu(const Tensor& x);       // x · sigmoid(x)
Tensor softplus(const Tensor& x, double beta = 1, double threshold = 20);
Tensor clamp(const Tensor& x, double low, double high = std::numeric_limits<double>::infinity());
Tensor isnan(const Tensor& x);
Tensor isfinite(const Tensor& x);
Tensor logical_not(const Tensor& x);

// Two inputs.
Tensor add(const Operand& a, const Operand& b, double alpha = 1);  // a + alpha · b
Tensor sub(const Operand& a, const Operand& b, double alpha = 1);
Tensor mul(const Operand& a, const Operand& b);
Tensor div(const Operand& a, const Operand& b);  // true division: integers give f32
Tensor floor_divide(const Operand& a, const Operand& b);
Tensor trunc_divide(const Operand& a, const Operand& b);
Tensor remainder(const Operand& a, const Operand& b);  // the sign is the divisor's
Tensor fmod(const Operand& a, const Operand& b);       // the sign is the dividend's
Tensor pow(const Operand& a, const Operand& b);
Tensor maximum(const Operand& a, const Operand& b);  // NaN wins
Tensor minimum(const Operand& a, const Operand& b);
Tensor lerp(const Operand& a, const Operand& b, double weight);  // a + weight · (b - a)
Tensor eq(const Operand& a, const Operand& b);
Tensor ne(const Operand& a, const Operand& b);
Tensor lt(const Operand& a, const Operand& b);
Tensor le(const Operand& a, const Operand& b);
Tensor gt(const Operand& a, const Operand& b);
Tensor ge(const Operand& a, const Operand& b);
Tensor logical_and(const Operand& a, const Operand& b);
Tensor logical_or(const Operand& a, const Operand& b);

// Three inputs.
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
}  // namespace detail

}  // namespace weft
