// Kernels whose floating-point operations are known, for tests/kernels/arithmetic_test.cpp.
#pragma once
#include <cstdint>

#include "kernels/simt/simt.h"

namespace weft::WEFT_DEVICE::arithmetic {

struct Counted {
  void (*run)(Stream stream, const float* x, float* y, int n);
  uint64_t (*operations)(uint64_t n);
  uint64_t (*bytes)(uint64_t n);  // of global memory, if n is a multiple of 32
};

inline constexpr int kThreads = 128;

extern const Counted saxpy, saxpy_f64, sum, fused, library, divisions, polynomial, conversions, halves, minima, product,
    atomics;

}  // namespace weft::WEFT_DEVICE::arithmetic
