// The vocabulary of the pointwise functors on devices: Plain<T> and the device's own functions.
//
//   Plain<float> y = Relu{}.fwd(Plain<float>(x));
#pragma once
#include <cmath>

#include "kernels/simt/simt.h"

#define WEFT_INLINE __device__ __forceinline__
// Highway has namespaces and pragmas around code of its targets; a device needs a namespace only.
#define WEFT_FUNCTORS WEFT_DEVICE::functors
#define WEFT_BEFORE_FUNCTORS() static_assert(true)
#define WEFT_AFTER_FUNCTORS() static_assert(true)
#include "kernels/pointwise/plain-inl.h"

namespace weft::WEFT_FUNCTORS {

#define WEFT_DEVICE_FUNCTION(name)                                         \
  WEFT_INLINE Plain<float> name(Plain<float> x) { return std::name(x.v); } \
  WEFT_INLINE Plain<double> name(Plain<double> x) { return std::name(x.v); }
WEFT_DEVICE_FUNCTION(exp)
WEFT_DEVICE_FUNCTION(expm1)
WEFT_DEVICE_FUNCTION(log)
WEFT_DEVICE_FUNCTION(log1p)
WEFT_DEVICE_FUNCTION(sqrt)
WEFT_DEVICE_FUNCTION(sin)
WEFT_DEVICE_FUNCTION(cos)
WEFT_DEVICE_FUNCTION(tan)
WEFT_DEVICE_FUNCTION(atan)
WEFT_DEVICE_FUNCTION(tanh)
WEFT_DEVICE_FUNCTION(erf)
WEFT_DEVICE_FUNCTION(abs)
WEFT_DEVICE_FUNCTION(floor)
WEFT_DEVICE_FUNCTION(ceil)
WEFT_DEVICE_FUNCTION(trunc)
#undef WEFT_DEVICE_FUNCTION

// Ties to even, as the rounding mode of every device is.
WEFT_INLINE Plain<float> round(Plain<float> x) { return std::rint(x.v); }
WEFT_INLINE Plain<double> round(Plain<double> x) { return std::rint(x.v); }
WEFT_INLINE Plain<float> pow(Plain<float> x, Plain<float> y) { return std::pow(x.v, y.v); }
WEFT_INLINE Plain<double> pow(Plain<double> x, Plain<double> y) { return std::pow(x.v, y.v); }
WEFT_INLINE Plain<float> atan2(Plain<float> x, Plain<float> y) { return std::atan2(x.v, y.v); }
WEFT_INLINE Plain<double> atan2(Plain<double> x, Plain<double> y) { return std::atan2(x.v, y.v); }
WEFT_INLINE Plain<float> fmod(Plain<float> x, Plain<float> y) { return std::fmod(x.v, y.v); }
WEFT_INLINE Plain<double> fmod(Plain<double> x, Plain<double> y) { return std::fmod(x.v, y.v); }

}  // namespace weft::WEFT_FUNCTORS
