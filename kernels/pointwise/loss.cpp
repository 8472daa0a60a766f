// CPU kernels of the ops that pointwise.def puts in the family "loss".
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pointwise/loss.cpp"
#include "kernels/base/simd.h"

#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "kernels/pointwise/chunk-inl.h"
#include "kernels/pointwise/functors/loss-inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft::HWY_NAMESPACE {

cpu::ChunkFunction loss_of(PointwiseOp op, PointwisePass pass, DType compute) {
  switch (op) {
#define WEFT_FAMILY_loss(op, Functor, arity, rule) \
  case PointwiseOp::op:                            \
    return chunk_of<Functor, arity, Rule::rule>(pass, compute);
#include "kernels/pointwise/families.h"
#undef WEFT_FAMILY_loss
    default: return nullptr;
  }
}

}  // namespace weft::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft {
WEFT_EXPORT(loss_of);
cpu::ChunkFunction cpu::loss_chunk(PointwiseOp op, PointwisePass pass, DType compute) {
  return WEFT_DISPATCH(loss_of)(op, pass, compute);
}
}  // namespace weft
#endif
