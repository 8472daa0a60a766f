#include "autograd/ops/matmul.h"

#include <algorithm>

#include "autograd/node.h"
#include "autograd/ops/common.h"
#include "autograd/ops/ops.h"
#include "kernels/table.h"

namespace weft {
namespace {

// The last two dimensions of an operand as BLAS takes them.
struct Matrix {
  Tensor tensor;
  bool transposed = false;
  int64_t leading = 1;  // distance of rows, or of columns when transposed
};

Matrix as_matrix(const Tensor& x) {
  const int64_t rows = x.size(-2), columns = x.size(-1);
  const auto spaced = [](int64_t step, int64_t count, int64_t length) { return count <= 1 || step >= length; };
  if ((x.stride(-1) == 1 || columns <= 1) && spaced(x.stride(-2), rows, columns))
    return {x, false, rows <= 1 ? std::max<int64_t>(columns, 1) : x.stride(-2)};
  if ((x.stride(-2) == 1 || rows <= 1) && spaced(x.stride(-1), columns, rows))
    return {x, true, columns <= 1 ? std::max<int64_t>(rows, 1) : x.stride(-1)};
  return {x.clone(), false, std::max<int64_t>(columns, 1)};
}

// The one stride that all batch dimensions (those before the last two) follow, if there is one.
std::optional<int64_t> batch_stride(const Tensor& x) {
  int64_t expected = -1, innermost = 0;
  for (int d = x.dim() - 3; d >= 0; --d) {
    if (x.size(d) == 1) continue;
    if (expected < 0)
      innermost = x.stride(d);
    else if (x.stride(d) != expected)
      return std::nullopt;
    expected = x.stride(d) * x.size(d);
  }
  return innermost;
}

// x as a matrix of its last dimension; without history.
Tensor as_rows(const Tensor& x) {
  return reshape(x, {x.size(-1) == 0 ? x.numel() : x.numel() / x.size(-1), x.size(-1)});
}

// a [m, k] × b [k, n] (+ bias [n] on every row); without history.
Tensor multiply(const char* op, const Tensor& a, const Tensor& b, const Tensor& bias = {}) {
  const int64_t m = a.size(0), k = a.size(1), n = b.size(1);
  Tensor c = empty({m, n}, a.options());
  if (c.is_meta() || c.numel() == 0) return c;
  const Matrix left = as_matrix(a), right = as_matrix(b);
  const Tensor row = bias.defined() ? bias.contiguous() : Tensor();
  kernel_table(a.device().type, op)
      .gemm.gemm_bias(current_stream(a.device()), a.dtype(), left.transposed, right.transposed, m, n, k, 1,
                      left.tensor.data(), left.leading, right.tensor.data(), right.leading,
                      row.defined() ? row.data() : nullptr, c.data(), n);
  return c;
}

// [batch.., m, k] × [batch.., k, n], equal batches; without history.
Tensor multiply_batched(const Tensor& a, const Tensor& b) {
  const int64_t m = a.size(-2), k = a.size(-1), n = b.size(-1);
  Shape shape = a.shape();
  shape[-1] = n;
  Tensor c = empty(shape, a.options());
  if (c.is_meta() || c.numel() == 0) return c;
  const Matrix left = as_matrix(batch_stride(a) ? a : a.contiguous());
  const Matrix right = as_matrix(batch_stride(b) ? b : b.contiguous());
  kernel_table(a.device().type, "matmul")
      .gemm.gemm_batched(current_stream(a.device()), a.dtype(), left.transposed, right.transposed, m, n, k, 1,
                         left.tensor.data(), left.leading, *batch_stride(left.tensor), right.tensor.data(),
                         right.leading, *batch_stride(right.tensor), 0, c.data(), n, m * n, c.numel() / (m * n));
  return c;
}

// The product of operands with at least two dimensions each.
Tensor product(const Tensor& a, const Tensor& b) {
  Tensor y;
  {
    NoGrad guard;
    if (b.dim() == 2) {  // all rows of a in one product
      Shape shape = a.shape();
      shape[-1] = b.size(-1);
      y = a.dim() == 2 ? multiply("matmul", a, b) : multiply("matmul", as_rows(a), b).reshape(shape);
    } else {
      const auto batch_of = [](const Tensor& x) {
        return Shape(std::span(x.shape().data(), static_cast<size_t>(x.dim() - 2)));
      };
      const Shape batch = broadcast_shapes(batch_of(a), batch_of(b), "matmul");
      const auto fit = [&](const Tensor& x) {
        Shape shape = batch;
        shape.push_back(x.size(-2));
        shape.push_back(x.size(-1));
        return x.shape() == shape ? x : x.expand(shape);
      };
      y = multiply_batched(fit(a), fit(b));
    }
  }
  if (!any_requires_grad({a, b})) return y;
  return record("matmul", {a, b}, y, [a = Saved(a), b = Saved(b)](Node& node, const Gradients& dy) -> Gradients {
    const Tensor left = a.get(node), right = b.get(node);
    Gradients result(2);
    if (node.needs_input_grad(0)) result[0] = detail::sum_to(product(dy[0], right.transpose(-1, -2)), left.shape());
    if (node.needs_input_grad(1)) {
      result[1] = right.dim() == 2 ? product(as_rows(left).t(), as_rows(dy[0]))
                                   : detail::sum_to(product(left.transpose(-1, -2), dy[0]), right.shape());
    }
    return result;
  });
}

// x [.., in] times `weight` as [in, out] plus bias; `stored_transposed` when the weight is stored [out, in].
Tensor affine(const char* name, const Tensor& x, const Tensor& weight, const Tensor& bias, bool stored_transposed) {
  WEFT_CHECK(weight.dim() == 2, name, "expected a weight of two dimensions, got {}", describe(weight));
  const int64_t in = weight.size(stored_transposed ? 1 : 0), out = weight.size(stored_transposed ? 0 : 1);
  WEFT_CHECK(x.dim() >= 1 && x.size(-1) == in, name, "input {} does not fit weight {}: expected x.size(-1) == {}",
             describe(x), describe(weight), in);
  WEFT_CHECK(!bias.defined() || bias.shape() == Shape({out}), name, "expected a bias of shape [{}], got {}", out,
             describe(bias));
  detail::check_same_kind(name, x, weight);
  if (bias.defined()) detail::check_same_kind(name, x, bias);
  if (const DType compute = detail::compute_dtype_of(x, name); compute != x.dtype())
    return affine(name, x.to(compute), weight.to(compute), bias.defined() ? bias.to(compute) : bias, stored_transposed)
        .to(x.dtype());
  Shape shape = x.shape();
  shape[-1] = out;
  std::vector<Tensor> inputs = {x, weight};
  if (bias.defined()) inputs.push_back(bias);
  Tensor y;
  {
    NoGrad guard;
    y = multiply(name, as_rows(x), stored_transposed ? weight.t() : weight, bias).reshape(shape);
  }
  if (!any_requires_grad(inputs)) return y;
  return record(
      name, inputs, y,
      [=, x = Saved(x), weight = Saved(weight), count = inputs.size()](Node& node, const Gradients& dy) -> Gradients {
        Gradients result(count);
        const Tensor dense = dy[0].contiguous();
        const Tensor rows = as_rows(dense);
        if (node.needs_input_grad(0)) {
          const Tensor w = weight.get(node);
          result[0] = product(dense, stored_transposed ? w : w.t());
        }
        if (node.needs_input_grad(1)) {
          const Tensor inputs = as_rows(x.get(node));
          result[1] = stored_transposed ? product(rows.t(), inputs) : product(inputs.t(), rows);
        }
        if (count > 2 && node.needs_input_grad(2)) result[2] = sum(rows, {0});
        return result;
      });
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
  WEFT_CHECK(a.dim() >= 1 && b.dim() >= 1, "matmul", "0-d operands have no matrix product: lhs {} × rhs {}",
             describe(a), describe(b));
  WEFT_CHECK(a.size(-1) == b.size(b.dim() == 1 ? 0 : -2), "matmul",
             "inner dimensions differ: lhs {} × rhs {}; expected rhs.size({}) == {}", describe(a), describe(b),
             b.dim() == 1 ? 0 : b.dim() - 2, a.size(-1));
  detail::check_same_kind("matmul", a, b);
  if (const DType compute = detail::compute_dtype_of(a, "matmul"); compute != a.dtype())
    return matmul(a.to(compute), b.to(compute)).to(a.dtype());
  if (a.dim() == 1 && b.dim() == 1) return product(a.unsqueeze(0), b.unsqueeze(1)).reshape({});
  if (a.dim() == 1) return product(a.unsqueeze(0), b).squeeze(-2);
  if (b.dim() == 1) return product(a, b.unsqueeze(1)).squeeze(-1);
  return product(a, b);
}

Tensor bmm(const Tensor& a, const Tensor& b) {
  WEFT_CHECK(a.dim() == 3 && b.dim() == 3 && a.size(0) == b.size(0) && a.size(2) == b.size(1), "bmm",
             "expected [b, m, k] × [b, k, n], got {} × {}", describe(a), describe(b));
  return matmul(a, b);
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return affine("linear", x, weight, bias, true);
}

Tensor linear_transposed(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return affine("linear_transposed", x, weight, bias, false);
}

Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, double beta, double alpha) {
  WEFT_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0), "addmm", "expected [m, k] × [k, n], got {} × {}",
             describe(a), describe(b));
  const Shape shape{a.size(0), b.size(1)};
  WEFT_CHECK(broadcast_shapes(input.shape(), shape, "addmm") == shape, "addmm", "{} does not broadcast to {}",
             describe(input), shape);
  const Tensor product = matmul(a, b);
  const Tensor scaled = alpha == 1 ? product : product * alpha;
  if (beta == 0) {  // `input` does not take part, NaN or not; its gradient is 0
    if (!any_requires_grad({input})) return scaled;
    return add(scaled, where(zeros({}, {.dtype = DType::boolean, .device = input.device()}), input, 0.0));
  }
  return add(beta == 1 ? input : input * beta, scaled);
}

Tensor outer(const Tensor& a, const Tensor& b) {
  WEFT_CHECK(a.dim() == 1 && b.dim() == 1, "outer", "expected two vectors, got {} and {}", describe(a), describe(b));
  return a.unsqueeze(1) * b.unsqueeze(0);
}

Tensor dot(const Tensor& a, const Tensor& b) {
  WEFT_CHECK(a.dim() == 1 && a.shape() == b.shape(), "dot", "expected two vectors of one size, got {} and {}",
             describe(a), describe(b));
  return matmul(a, b);
}

Tensor Tensor::matmul(const Tensor& other) const { return weft::matmul(*this, other); }

}  // namespace weft
