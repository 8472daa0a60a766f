// Device kernels of random.h: a thread makes the four words of one counter, and stores what they say in one access
// where the output is aligned with them.
#include "kernels/random/random.h"

#include <algorithm>

#include "kernels/device_table.h"
#include "kernels/random/philox.h"
#include "kernels/simt/simt.h"

namespace weft::WEFT_DEVICE {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 2048;  // more of them loop

// out[i] is word first + i; thread t begins at counter first / 4 + t.
__global__ void __launch_bounds__(kThreads)
    keep_mask_kernel(RandomKey key, uint64_t first, uint64_t threshold, float* out, int64_t n, int64_t counters) {
  const uint64_t base = first / 4;
  const auto skipped = static_cast<int64_t>(first % 4);  // words of the first counter that lie before out
  const bool aligned = skipped == 0 && reinterpret_cast<uintptr_t>(out) % 16 == 0;
  for (int64_t c = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; c < counters;
       c += static_cast<int64_t>(gridDim.x) * kThreads) {
    const uint64_t block = base + static_cast<uint64_t>(c);
    const std::array<uint32_t, 4> words =
        philox4x32_10({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), key.step, key.op},
                      {static_cast<uint32_t>(key.seed), static_cast<uint32_t>(key.seed >> 32)});
    Pack<float, 4> kept;
    WEFT_UNROLL
    for (int lane = 0; lane < 4; ++lane) kept[lane] = words[static_cast<size_t>(lane)] >= threshold ? 1.0f : 0.0f;
    const int64_t i = c * 4 - skipped;
    if (aligned && i + 4 <= n) {
      store_pack(out + i, kept);
    } else {
      WEFT_UNROLL
      for (int lane = 0; lane < 4; ++lane)
        if (i + lane >= 0 && i + lane < n) out[i + lane] = kept[lane];
    }
  }
}

void keep_mask(Stream stream, RandomKey key, uint64_t first, double p, float* out, int64_t n) {
  if (n == 0) return;
  const auto threshold = static_cast<uint64_t>(p * 4294967296.0);
  const int64_t counters = (static_cast<int64_t>(first % 4) + n + 3) / 4;
  const int64_t blocks = std::min(kMaxBlocks, (counters + kThreads - 1) / kThreads);
  launch(keep_mask_kernel, dim3(static_cast<unsigned>(blocks)), dim3(kThreads), 0, stream, key, first, threshold, out,
         n, counters);
}

}  // namespace

extern constinit const RandomKernels random_kernels = {.keep_mask = keep_mask};

}  // namespace weft::WEFT_DEVICE
