// CPU kernels of the ops that pointwise.def puts in the family "exponential".
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pointwise/exponential.cpp"
#include "kernels/base/simd.h"

#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "kernels/pointwise/chunk-inl.h"
#include "kernels/pointwise/functors/exponential-inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::HWY_NAMESPACE {

cpu::ChunkFunction exponential_of(PointwiseOp op, PointwisePass pass, DType compute) {
  switch (op) {
#define WEFT_FAMILY_exponential(op, Functor, arity, rule) \
  case PointwiseOp::op:                                   \
    return chunk_of<Functor, arity, Rule::rule>(pass, compute);
#include "kernels/pointwise/families.h"
#undef WEFT_FAMILY_exponential
    default: return nullptr;
  }
}

}  // namespace weft::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft {
WEFT_EXPORT(exponential_of);
cpu::ChunkFunction cpu::exponential_chunk(PointwiseOp op, PointwisePass pass, DType compute) {
  return WEFT_DISPATCH(exponential_of)(op, pass, compute);
}
}  // namespace weft
#endif
