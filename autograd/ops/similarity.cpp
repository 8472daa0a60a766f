#include "autograd/ops/similarity.h"

#include "autograd/ops/common.h"
#include "autograd/ops/ops.h"

namespace weft {
namespace {

Tensor length(const Tensor& x, double p, int64_t dim, double eps) {
  return clamp(norm(x, p, {dim}, /*keepdim=*/true), eps);
}

}  // namespace

Tensor cosine_similarity(const Tensor& a, const Tensor& b, int64_t dim, double eps) {
  detail::check_same_kind("cosine_similarity", a, b);
  WEFT_CHECK(is_floating(a.dtype()), "cosine_similarity", "expected floating-point tensors, got {}", describe(a));
  const Shape shape = broadcast_shapes(a.shape(), b.shape(), "cosine_similarity");
  const int d = wrap_dim(dim, shape.size(), "cosine_similarity");
  const DType wide = detail::statistics_dtype(a.dtype());
  // Expanded, a vector along `dim` is whole in both.
  const Tensor x = a.to(wide).expand(shape), y = b.to(wide).expand(shape);
  return sum((x / length(x, 2, d, eps)) * (y / length(y, 2, d, eps)), {d}).to(a.dtype());
}

Tensor normalize(const Tensor& x, double p, int64_t dim, double eps) {
  WEFT_CHECK(is_floating(x.dtype()), "normalize", "expected a floating-point tensor, got {}", describe(x));
  const Tensor wide = x.to(detail::statistics_dtype(x.dtype()));
  return (wide / length(wide, p, wrap_dim(dim, x.dim(), "normalize"), eps)).to(x.dtype());
}

}  // namespace weft
