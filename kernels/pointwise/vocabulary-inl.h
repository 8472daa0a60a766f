// The vocabulary of the pointwise functors, over three kinds of value:
//
//   Lanes<T>   a SIMD vector of float or double, on the CPU (lanes-inl.h)
//   Plain<T>   one number: integers on the CPU, everything on devices (plain-inl.h, device_lanes.h)
//   Tensor     whole tensors, differentiable: autograd/ops/pointwise.h has the same names
//
//   template <class V> WEFT_INLINE V fwd(V x) const { return select(x > 0, x, exp(x) - 1); }
//
// A formula is written once; what includes it decides what it is compiled for.
#ifdef WEFT_DEVICE
#include "kernels/pointwise/device_lanes.h"
#else
#include "kernels/pointwise/lanes-inl.h"
#endif
