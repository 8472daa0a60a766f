#include "autograd/ops/embedding.h"

#include "autograd/node.h"
#include "autograd/ops/common.h"
#include "autograd/ops/ops.h"
#include "kernels/table.h"

namespace weft {

Tensor embedding(const Tensor& weight, const Tensor& indices, int64_t padding_index) {
  constexpr const char* op = "embedding";
  WEFT_CHECK(weight.dim() == 2, op, "expected a table [count, dim], got {}", describe(weight));
  WEFT_CHECK(indices.dtype() == DType::i64 || indices.dtype() == DType::i32, op,
             "expected indices of dtype i64 or i32, got {}", describe(indices));
  detail::check_same_device(op, weight, indices);
  const int64_t count = weight.size(0), width = weight.size(1), rows = indices.numel();
  const Tensor table = weight.contiguous();
  const Tensor places = indices.to(DType::i64).contiguous();
  Shape shape = indices.shape();
  shape.push_back(width);
  Tensor y = empty(shape, weight.options());
  if (!y.is_meta())
    kernel_table(weight.device().type, op)
        .embedding.forward(current_stream(weight.device()), weight.dtype(), table.data(), places.data<int64_t>(),
                           y.data(), rows, count, width);
  return record(op, {table}, y, [=, places = Saved(places)](Node& node, const Gradients& dy) -> Gradients {
    const Tensor at = places.get(node);
    if (GradMode::enabled()) {
      const Tensor flat = at.reshape({rows});
      const Tensor gradient = dy[0].reshape({rows, width});
      const Tensor counted = padding_index < 0 ? gradient : where(ne(flat, padding_index).unsqueeze(1), gradient, 0.0);
      return {index_add(zeros({count, width}, dy[0].options()), 0, flat, counted)};
    }
    const Tensor dense = dy[0].to(detail::compute_dtype_of(dy[0], op)).contiguous();
    Tensor gradient = zeros({count, width}, dense.options());
    if (!gradient.is_meta())
      kernel_table(gradient.device().type, op)
          .embedding.backward(current_stream(gradient.device()), gradient.dtype(), dense.data(), at.data<int64_t>(),
                              gradient.data(), rows, count, width, padding_index);
    return {gradient.to(dy[0].dtype())};
  });
}

}  // namespace weft
