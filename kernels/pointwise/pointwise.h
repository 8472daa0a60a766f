// Pointwise operations: every element of the output depends on the same element of the inputs.
//
// An op is a functor in functors/<family>-inl.h (the formula of forward and backward, written once over a small
// vocabulary) and one line in pointwise.def. From these come the CPU kernels here, the public function, its gradient
// and double gradient (autograd/ops/pointwise.h), and a test row.
#pragma once
#include <array>

#include "kernels/base/dtype.h"
#include "kernels/base/layout.h"
#include "kernels/base/stream.h"

namespace weft {

enum class PointwiseOp : uint8_t {
#define WEFT_POINTWISE(op, Functor, family, ...) op,
#include "kernels/pointwise/pointwise.def"
#undef WEFT_POINTWISE
};

// Which function of an op: the output, or the gradient with respect to input 0, 1 or 2. The gradient functions take
// the op's inputs, its output and the output's gradient, in this order.
enum class PointwisePass : uint8_t { forward, backward_0, backward_1, backward_2 };

inline constexpr int kPointwiseOperands = 6;  // up to 3 inputs, y, dy, and the result, which comes last

struct PointwiseArguments {
  // Inputs first, then the result (operand `count - 1`); strides 0 broadcast.
  Layout<kPointwiseOperands> layout;
  int count = 0;
  std::array<const void*, kPointwiseOperands> data{};
  std::array<DType, kPointwiseOperands> dtype{};
  // f32, f64 or i64: operands of other dtypes are converted when read and written.
  DType compute = DType::f32;
  std::array<double, 2> parameters{};
};

struct PointwiseKernels {
  // The result may be the very same memory as an input (same layout), not overlap it otherwise.
  void (*run)(Stream stream, PointwiseOp op, PointwisePass pass, const PointwiseArguments& arguments);
};

namespace cpu {
extern const PointwiseKernels pointwise_kernels;
}

}  // namespace weft
