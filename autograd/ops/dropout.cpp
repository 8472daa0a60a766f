#include "autograd/ops/dropout.h"

#include "autograd/ops/ops.h"
#include "kernels/base/parallel.h"
#include "tensor/random.h"

namespace weft {

Tensor dropout_with_mask(const Tensor& x, const Tensor& mask, double p) {
  return x * (mask.to(x.dtype()) * (p < 1 ? 1 / (1 - p) : 0));
}

Tensor dropout(const Tensor& x, double p, bool training) {
  WEFT_CHECK(p >= 0 && p <= 1, "dropout", "expected a probability from 0 to 1, got {}", p);
  RandomStream& stream = random_stream();
  if (!training || p == 0) return x;
  Tensor mask = empty(x.shape(), {.dtype = DType::f32, .device = x.device()});
  const uint32_t op = stream.op++;
  if (!mask.is_meta() && x.numel() > 0) {
    const std::array<uint32_t, 2> key = {static_cast<uint32_t>(stream.seed), static_cast<uint32_t>(stream.seed >> 32)};
    const int64_t per_sample = x.dim() > 0 ? x.numel() / x.size(0) : 1;
    const uint64_t first = stream.sample_offset * static_cast<uint64_t>(per_sample);
    // Kept where the 32-bit word is at least p · 2^32.
    const auto threshold = static_cast<uint64_t>(p * 4294967296.0);
    float* out = mask.data<float>();
    parallel_for(x.numel(), 1 << 14, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end;) {
        const uint64_t element = first + static_cast<uint64_t>(i);
        const uint64_t block = element / 4;
        const auto words =
            philox4x32_10({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), stream.step, op}, key);
        for (size_t lane = element % 4; lane < 4 && i < end; ++lane, ++i)
          out[i] = words[lane] >= threshold ? 1.0f : 0.0f;
      }
    });
  }
  return dropout_with_mask(x, mask, p);
}

}  // namespace weft
