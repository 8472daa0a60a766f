#include "kernels/random/random.h"

#include "kernels/base/parallel.h"
#include "kernels/random/philox.h"

namespace weft::cpu {
namespace {

constexpr int64_t kTile = 1 << 14;  // elements a thread takes at a time

void keep_mask(Stream, RandomKey key, uint64_t first, double p, float* out, int64_t n) {
  const std::array<uint32_t, 2> words_key = {static_cast<uint32_t>(key.seed), static_cast<uint32_t>(key.seed >> 32)};
  const auto threshold = static_cast<uint64_t>(p * 4294967296.0);
  parallel_for(n, kTile, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end;) {
      const uint64_t element = first + static_cast<uint64_t>(i);
      const uint64_t block = element / 4;
      const auto words = philox4x32_10(
          {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), key.step, key.op}, words_key);
      for (size_t lane = element % 4; lane < 4 && i < end; ++lane, ++i) out[i] = words[lane] >= threshold ? 1.0f : 0.0f;
    }
  });
}

}  // namespace

extern constinit const RandomKernels random_kernels = {.keep_mask = keep_mask};

}  // namespace weft::cpu
