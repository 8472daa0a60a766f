// Everything a program needs from Weft, in one header.
//
//   #include <weft/weft.h>
//   using namespace weft;
//
//   Tensor x = randn({2, 3}, {.requires_grad = true});
//   sum(exp(2 * x)).backward();
//   fmt::print("{}\n", x.grad());
#pragma once
#include "autograd/engine.h"
#include "autograd/functional.h"
#include "autograd/grad_mode.h"
#include "autograd/node.h"
#include "autograd/ops/ops.h"
#include "data/batch.h"
#include "data/collate.h"
#include "data/dataset.h"
#include "data/loader.h"
#include "data/sampler.h"
#include "data/shard.h"
#include "data/sources/digits.h"
#include "data/sources/text.h"
#include "distributed/accelerator/accelerator.h"
#include "distributed/comm/process_group.h"
#include "distributed/ddp/ddp.h"
#include "distributed/profiler/limits.h"
#include "distributed/trackers/progress.h"
#include "kernels/base/dtype.h"
#include "kernels/base/error.h"
#include "kernels/base/log.h"
#include "kernels/base/parallel.h"
#include "kernels/base/profile_range.h"
#include "kernels/base/stream.h"
#include "kernels/gemm/precision.h"
#include "nn/nn.h"
#include "optim/optim.h"
#include "tensor/allocator.h"
#include "tensor/device.h"
#include "tensor/device_kernel.h"
#include "tensor/factory.h"
#include "tensor/file.h"
#include "tensor/random.h"
#include "tensor/safetensors.h"
#include "tensor/shape.h"
#include "tensor/storage.h"
#include "tensor/tensor.h"
#include "tensor/tree.h"
#include "tensor/tree_file.h"
