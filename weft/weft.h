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
#include "kernels/base/dtype.h"
#include "kernels/base/error.h"
#include "kernels/base/parallel.h"
#include "kernels/base/stream.h"
#include "tensor/allocator.h"
#include "tensor/factory.h"
#include "tensor/random.h"
#include "tensor/shape.h"
#include "tensor/storage.h"
#include "tensor/tensor.h"
