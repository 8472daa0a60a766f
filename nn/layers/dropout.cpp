#include "nn/layers/dropout.h"

#include "autograd/ops/ops.h"

namespace weft::nn {

Dropout::Dropout(ModuleBase* parent, std::string name, DropoutOptions options)
    : Module(parent, std::move(name)), p(options.p) {
  WEFT_CHECK(p >= 0 && p <= 1, "Dropout", "expected a probability from 0 to 1, got {}", p);
}

Tensor Dropout::forward(const Tensor& x) { return dropout(x, p, training()); }

}  // namespace weft::nn
