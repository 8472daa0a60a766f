// All modules, and the functions of nn:: that users call by these names.
#pragma once
#include "autograd/ops/ops.h"
#include "nn/init.h"
#include "nn/layers/activation.h"
#include "nn/layers/attention.h"
#include "nn/layers/conv.h"
#include "nn/layers/dropout.h"
#include "nn/layers/embedding.h"
#include "nn/layers/linear.h"
#include "nn/layers/loss.h"
#include "nn/layers/norm.h"
#include "nn/layers/pool.h"
#include "nn/layers/recurrent.h"
#include "nn/layers/shape.h"
#include "nn/layers/transformer.h"
#include "nn/models/bert.h"
#include "nn/models/gpt2.h"
#include "nn/models/llama.h"
#include "nn/models/resnet.h"
#include "nn/module.h"
#include "nn/sequential.h"
#include "nn/summary.h"

namespace weft::nn {
using weft::cross_entropy;
}
