#include "nn/layers/dropout.h"

#include "autograd/ops/ops.h"

namespace weft::nn {
namespace {

double checked(const char* type, double p) {
  WEFT_CHECK(p >= 0 && p <= 1, type, "expected a probability from 0 to 1, got {}", p);
  return p;
}

}  // namespace

Dropout::Dropout(ModuleBase* parent, std::string name, DropoutOptions options)
    : Module(parent, std::move(name)), p(checked("Dropout", options.p)) {}
Dropout1d::Dropout1d(ModuleBase* parent, std::string name, DropoutOptions options)
    : Module(parent, std::move(name)), p(checked("Dropout1d", options.p)) {}
Dropout2d::Dropout2d(ModuleBase* parent, std::string name, DropoutOptions options)
    : Module(parent, std::move(name)), p(checked("Dropout2d", options.p)) {}
AlphaDropout::AlphaDropout(ModuleBase* parent, std::string name, DropoutOptions options)
    : Module(parent, std::move(name)), p(checked("AlphaDropout", options.p)) {}

Tensor Dropout::forward(const Tensor& x) { return dropout(x, p, training()); }
Tensor Dropout1d::forward(const Tensor& x) { return dropout1d(x, p, training()); }
Tensor Dropout2d::forward(const Tensor& x) { return dropout2d(x, p, training()); }
Tensor AlphaDropout::forward(const Tensor& x) { return alpha_dropout(x, p, training()); }

}  // namespace weft::nn
