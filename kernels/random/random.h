// Random numbers that depend on what they are for and on nothing else: not on the device, the launch or the threads.
//
//   const RandomKey key{.seed = 1, .step = 40, .op = 3};
//   weft::cpu::random_kernels.keep_mask(stream, key, first, 0.1, mask, n);   // 1 with probability 0.9, else 0
//
// Element e of a key's sequence is word e % 4 of Philox (philox.h) at counter {e / 4 (64 bits), step, op} under the key
// `seed`. A rank that holds the elements from `first` on draws what one process would have drawn for them.
#pragma once
#include <cstdint>

#include "kernels/base/stream.h"

namespace weft {

struct RandomKey {
  uint64_t seed = 0;
  uint32_t step = 0;
  uint32_t op = 0;
};

struct RandomKernels {
  // out[i] = 1 where word first + i is at least p · 2^32, else 0: dropout's mask. 0 ≤ p ≤ 1.
  void (*keep_mask)(Stream stream, RandomKey key, uint64_t first, double p, float* out, int64_t n);
};

namespace cpu {
extern const RandomKernels random_kernels;
}

}  // namespace weft
