#include "nn/layers/embedding.h"

#include "autograd/ops/ops.h"
#include "nn/init.h"

namespace weft::nn {

Embedding::Embedding(ModuleBase* parent, std::string name, EmbeddingOptions options) : Module(parent, std::move(name)) {
  register_parameter("weight", weight, empty({options.count, options.dim}, options.dtype));
  init::normal_(weight, 0, options.init_std);
}

Tensor Embedding::forward(const Tensor& indices) { return embedding(weight, indices); }

}  // namespace weft::nn
