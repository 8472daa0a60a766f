// The instruction sets our Highway kernels are compiled for: a baseline that runs anywhere, AVX2, and AVX-512 (AVX3).
//
// Include it before any <hwy/…> header. Highway compiles the part of a unit between HWY_BEFORE_NAMESPACE and
// HWY_AFTER_NAMESPACE once for every enabled target and picks one at run time, so every further target costs build
// time and size: SSSE3 and SSE4 would serve only machines older than AVX2 (2013), AVX3_DL adds no float instruction. The
// baseline is Highway's scalar (g++ < 12.3) or emulated 128-bit (clang) target, plain C++ that any machine runs.
//
// A kernel unit, here kernels/example/example.cpp, looks like this:
//
//   #include "kernels/example/example.h"
//
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "kernels/example/example.cpp"  // this very file
//   #include "kernels/base/simd.h"
//   #include <hwy/foreach_target.h>                           // first hwy header: includes this file once a target
//   #include <hwy/highway.h>
//
//   HWY_BEFORE_NAMESPACE();
//   namespace weft::cpu::HWY_NAMESPACE {
//   namespace hn = hwy::HWY_NAMESPACE;
//
//   void scale(float* x, int64_t n, float factor) {           // lambdas that use vectors need HWY_ATTR
//     const hn::ScalableTag<float> d;
//     const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
//     int64_t i = 0;
//     for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Mul(hn::LoadU(d, x + i), hn::Set(d, factor)), d, x + i);
//     for (; i < n; ++i) x[i] *= factor;
//   }
//   }  // namespace weft::cpu::HWY_NAMESPACE
//   HWY_AFTER_NAMESPACE();
//
//   #if HWY_ONCE                                              // what exists once, not once a target
//   namespace weft::cpu {
//   WEFT_EXPORT(scale);
//   void scale_launch(Stream, float* x, int64_t n, float factor) { WEFT_DISPATCH(scale)(x, n, factor); }
//   }  // namespace weft::cpu
//   #endif
//
// Helpers shared by kernel units (exp, reductions over a row …) are in kernels/base/simd_math-inl.h; include it after
// <hwy/highway.h>, before HWY_BEFORE_NAMESPACE. The baseline may have a single lane: use no operation that needs two.
#pragma once

#if defined(HIGHWAY_HWY_DETECT_TARGETS_H_)
#error "include kernels/base/simd.h before any hwy header"
#endif

// The macro is expanded inside Highway, which defines every name on every architecture. On Arm this leaves NEON: vectors
// whose length is unknown at compile time (SVE, RVV) cannot be kept in the arrays our register tiles are made of.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

// WEFT_EXPORT(f) makes a table of f's versions, and WEFT_DISPATCH(f) is the one for this processor. They stand in for
// HWY_EXPORT and HWY_DYNAMIC_DISPATCH, which need Highway's library: loading that costs 5 ms at every start of a program,
// spent in a static initialiser that measures a timer nobody here uses.
#define WEFT_EXPORT(f)                                                                         \
  static constexpr ::weft::cpu::SimdVersions<decltype(&HWY_STATIC_DISPATCH(f))> f##_versions { \
    &HWY_STATIC_DISPATCH(f), HWY_CHOOSE_AVX2(f), HWY_CHOOSE_AVX3(f)                            \
  }
#define WEFT_DISPATCH(f) (f##_versions.best())

namespace weft::cpu {

enum class SimdLevel { baseline, avx2, avx3 };
// The best level of this processor and its operating system.
SimdLevel simd_level();

template <class Function>
struct SimdVersions {
  Function baseline, avx2, avx3;  // the baseline is always there; null: not compiled
  Function best() const {
    const SimdLevel level = simd_level();
    if (level >= SimdLevel::avx3 && avx3) return avx3;
    if (level >= SimdLevel::avx2 && avx2) return avx2;
    return baseline;
  }
};

}  // namespace weft::cpu
