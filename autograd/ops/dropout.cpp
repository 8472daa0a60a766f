#include "autograd/ops/dropout.h"

#include <cmath>

#include "autograd/ops/ops.h"
#include "kernels/table.h"
#include "tensor/random.h"

namespace weft {
namespace {

void check(const char* op, const Tensor& x, double p) {
  WEFT_CHECK(p >= 0 && p <= 1, op, "expected a probability from 0 to 1, got {}", p);
  WEFT_CHECK(is_floating(x.dtype()), op, "expected floating-point numbers, got {}", describe(x));
}

// 1 where an element is kept, 0 with probability p; f32 of this shape, whose dimension 0 counts samples.
Tensor keep_mask(const char* op, const Shape& shape, Device device, double p) {
  RandomStream& stream = random_stream();
  const uint32_t number = stream.op++;
  Tensor mask = empty(shape, {.dtype = DType::f32, .device = device});
  if (mask.is_meta() || mask.numel() == 0) return mask;
  const int64_t per_sample = mask.dim() > 0 ? mask.numel() / mask.size(0) : 1;
  kernel_table(device.type, op)
      .random.keep_mask(current_stream(device), {.seed = stream.seed, .step = stream.step, .op = number},
                        stream.sample_offset * static_cast<uint64_t>(per_sample), p, mask.data<float>(), mask.numel());
  return mask;
}

// The mask broadcasts.
Tensor masked(const Tensor& x, const Tensor& mask, double p) {
  return x * (mask.to(x.dtype()) * (p < 1 ? 1 / (1 - p) : 0));
}

// x [N, C, …] with `spatial` dimensions, or without the batch.
Tensor feature_dropout(const char* op, const Tensor& x, int spatial, double p, bool training) {
  check(op, x, p);
  WEFT_CHECK(x.dim() == spatial + 1 || x.dim() == spatial + 2, op, "expected {} or {} dimensions, got {}", spatial + 1,
             spatial + 2, describe(x));
  if (!training || p == 0) return x;
  Shape shape = x.shape();
  for (int d = x.dim() - spatial; d < x.dim(); ++d) shape[d] = 1;
  return masked(x, keep_mask(op, shape, x.device(), p), p);
}

}  // namespace

Tensor dropout_with_mask(const Tensor& x, const Tensor& mask, double p) {
  WEFT_CHECK(mask.shape() == x.shape(), "dropout_with_mask", "expected a mask like {}, got {}", describe(x),
             describe(mask));
  return masked(x, mask, p);
}

Tensor dropout(const Tensor& x, double p, bool training) {
  check("dropout", x, p);
  if (!training || p == 0) return x;
  return masked(x, keep_mask("dropout", x.shape(), x.device(), p), p);
}

Tensor dropout1d(const Tensor& x, double p, bool training) { return feature_dropout("dropout1d", x, 1, p, training); }
Tensor dropout2d(const Tensor& x, double p, bool training) { return feature_dropout("dropout2d", x, 2, p, training); }

Tensor alpha_dropout(const Tensor& x, double p, bool training) {
  constexpr const char* op = "alpha_dropout";
  check(op, x, p);
  if (!training || p == 0) return x;
  const Tensor mask = keep_mask(op, x.shape(), x.device(), p).to(x.dtype());
  if (p == 1) return x * mask;
  // Kept or replaced by -alpha: mean -alpha·p and variance (1 - p)·(1 + alpha²·p) where x has 0 and 1.
  constexpr double alpha = 1.7580993408473766;
  const double scale = 1 / std::sqrt((1 - p) * (1 + alpha * alpha * p));
  return x * (mask * scale) + ((mask - 1) * (alpha * scale) + alpha * scale * p);
}

}  // namespace weft
