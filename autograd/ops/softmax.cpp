#include "autograd/ops/softmax.h"

#include "autograd/node.h"
#include "autograd/ops/common.h"
#include "autograd/ops/ops.h"
#include "kernels/table.h"

namespace weft {
namespace {

struct Extent {
  int64_t outer = 1, size = 1, inner = 1;
};
Extent extent_of(const Tensor& x, int dim) {
  Extent extent;
  for (int d = 0; d < x.dim(); ++d) (d < dim ? extent.outer : d == dim ? extent.size : extent.inner) *= x.size(d);
  return extent;
}

Tensor along(const char* name, const Tensor& input, int64_t dim_, bool log) {
  if (const DType compute = detail::compute_dtype_of(input, name); compute != input.dtype())
    return along(name, input.to(compute), dim_, log).to(input.dtype());
  const int dim = wrap_dim(dim_, input.dim(), name);
  const Tensor x = input.contiguous();
  const Extent e = extent_of(x, dim);
  Tensor y = empty_like(x);

  if (!x.is_meta() && x.numel() > 0)
    kernel_table(x.device().type, name)
        .softmax.forward(current_stream(x.device()), x.dtype(), x.data(), y.data(), e.outer, e.size, e.inner, log);
  if (!any_requires_grad({x})) return y;
  return record(name, {x}, y, [=, y = Saved::output(y)](Node& node, const Gradients& dy) -> Gradients {
    const Tensor result = y.get(node);
    if (GradMode::enabled()) {
      if (log) return {dy[0] - exp(result) * sum(dy[0], {dim}, true)};
      return {result * (dy[0] - sum(result * dy[0], {dim}, true))};
    }
    const Tensor dense = dy[0].contiguous();
    Tensor dx = empty_like(dense);
    if (!dx.is_meta() && dx.numel() > 0)
      kernel_table(dx.device().type, name)
          .softmax.backward(current_stream(dx.device()), dx.dtype(), result.data(), dense.data(), dx.data(), e.outer,
                            e.size, e.inner, log);
    return {dx};
  });
}

}  // namespace

Tensor softmax(const Tensor& x, int64_t dim) { return along("softmax", x, dim, false); }
Tensor log_softmax(const Tensor& x, int64_t dim) { return along("log_softmax", x, dim, true); }

}  // namespace weft
