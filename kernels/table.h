// The kernels of each device, one member a family. A new family: its header and a line in families.def.
//
//   kernel_table(x.device().type).softmax.forward(stream, …);
//
// A device that is not in this build, and meta, which has no kernels, are an error naming `op`.
#pragma once
#include <string_view>

#include "kernels/attention/attention.h"
#include "kernels/base/stream.h"
#include "kernels/conv/conv.h"
#include "kernels/copy/copy.h"
#include "kernels/embedding/embedding.h"
#include "kernels/gemm/gemm.h"
#include "kernels/index/index.h"
#include "kernels/loss/loss.h"
#include "kernels/norm/batch_norm.h"
#include "kernels/norm/norm.h"
#include "kernels/optimizer/optimizer.h"
#include "kernels/pointwise/pointwise.h"
#include "kernels/random/random.h"
#include "kernels/reduce/reduce.h"
#include "kernels/resample/resample.h"
#include "kernels/softmax/softmax.h"

namespace weft {

struct KernelTable {
#define WEFT_FAMILY(name, Kernels) const Kernels& name;
#include "kernels/families.def"
#undef WEFT_FAMILY
};

const KernelTable& kernel_table(DeviceType device, std::string_view op);

}  // namespace weft
