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
#include "kernels/base/dtype.h"
#include "kernels/base/error.h"
#include "kernels/base/parallel.h"
#include "kernels/base/stream.h"
#include "nn/nn.h"
#include "tensor/allocator.h"
#include "tensor/factory.h"
#include "tensor/random.h"
#include "tensor/safetensors.h"
#include "tensor/shape.h"
#include "tensor/storage.h"
#include "tensor/tensor.h"
