// The device kernels of all families. The kernels themselves are in device_kernel.h, the formulas in functors/.
#include "kernels/device_table.h"
#include "kernels/pointwise/device_kernel.h"

namespace weft::WEFT_DEVICE {
namespace {

bool run_family(Stream stream, PointwiseOp op, PointwisePass pass, const PointwiseArguments& arguments) {
  switch (op) {
#define WEFT_POINTWISE(op, Functor, family, ...) \
  case PointwiseOp::op:                          \
    return run_##family(stream, PointwiseOp::op, pass, arguments);
#include "kernels/pointwise/pointwise.def"
#undef WEFT_POINTWISE
  }
  return false;
}

void run(Stream stream, PointwiseOp op, PointwisePass pass, const PointwiseArguments& arguments) {
  if (arguments.layout.rows() * arguments.layout.row_size() == 0) return;
  if (!run_family(stream, op, pass, arguments))
    fail(ErrorCode::unsupported, "pointwise", "op {} has no kernel that computes in {}", static_cast<int>(op),
         name(arguments.compute));
}

}  // namespace

extern constinit const PointwiseKernels pointwise_kernels = {.run = run};

}  // namespace weft::WEFT_DEVICE
