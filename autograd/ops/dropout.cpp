#include "autograd/ops/dropout.h"

#include "autograd/ops/ops.h"
#include "kernels/table.h"
#include "tensor/random.h"

namespace weft {

Tensor dropout_with_mask(const Tensor& x, const Tensor& mask, double p) {
  WEFT_CHECK(mask.shape() == x.shape(), "dropout_with_mask", "expected a mask like {}, got {}", describe(x),
             describe(mask));
  return x * (mask.to(x.dtype()) * (p < 1 ? 1 / (1 - p) : 0));
}

Tensor dropout(const Tensor& x, double p, bool training) {
  WEFT_CHECK(p >= 0 && p <= 1, "dropout", "expected a probability from 0 to 1, got {}", p);
  WEFT_CHECK(is_floating(x.dtype()), "dropout", "expected floating-point numbers, got {}", describe(x));
  RandomStream& stream = random_stream();
  if (!training || p == 0) return x;
  Tensor mask = empty(x.shape(), {.dtype = DType::f32, .device = x.device()});
  const uint32_t op = stream.op++;
  if (!mask.is_meta() && x.numel() > 0) {
    const int64_t per_sample = x.dim() > 0 ? x.numel() / x.size(0) : 1;
    kernel_table(x.device().type, "dropout")
        .random.keep_mask(current_stream(x.device()), {.seed = stream.seed, .step = stream.step, .op = op},
                          stream.sample_offset * static_cast<uint64_t>(per_sample), p, mask.data<float>(), x.numel());
  }
  return dropout_with_mask(x, mask, p);
}

}  // namespace weft
