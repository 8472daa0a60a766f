// Device kernels of the ops that pointwise.def puts in the family "loss".
#include "kernels/pointwise/device_kernel.h"
#include "kernels/pointwise/functors/loss-inl.h"

namespace weft::WEFT_DEVICE {

bool run_loss(Stream stream, PointwiseOp op, PointwisePass pass, const PointwiseArguments& arguments) {
  using namespace functors;
  switch (op) {
#define WEFT_FAMILY_loss(op, Functor, arity, rule) \
  case PointwiseOp::op:                            \
    return run_op<Functor, arity, Rule::rule>(stream, pass, arguments);
#include "kernels/pointwise/families.h"
#undef WEFT_FAMILY_loss
    default: return false;
  }
}

}  // namespace weft::WEFT_DEVICE
