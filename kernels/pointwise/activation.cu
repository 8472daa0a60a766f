// Device kernels of the ops that pointwise.def puts in the family "activation".
#include "kernels/pointwise/device_kernel.h"
#include "kernels/pointwise/functors/activation-inl.h"

namespace weft::WEFT_DEVICE {

bool run_activation(Stream stream, PointwiseOp op, PointwisePass pass, const PointwiseArguments& arguments) {
  using namespace functors;
  switch (op) {
#define WEFT_FAMILY_activation(op, Functor, arity, rule) \
  case PointwiseOp::op:                                  \
    return run_op<Functor, arity, Rule::rule>(stream, pass, arguments);
#include "kernels/pointwise/families.h"
#undef WEFT_FAMILY_activation
    default: return false;
  }
}

}  // namespace weft::WEFT_DEVICE
