#include "nn/init.h"

#include <cmath>

#include "autograd/ops/ops.h"
#include "tensor/factory.h"

namespace weft::nn::init {

const Tensor& uniform_(const Tensor& t, double low, double high) {
  NoGrad guard;
  if (t.is_meta()) return t;
  return t.copy_(rand(t.shape()) * (high - low) + low);
}

const Tensor& normal_(const Tensor& t, double mean, double std) {
  NoGrad guard;
  if (t.is_meta()) return t;
  return t.copy_(randn(t.shape()) * std + mean);
}

int64_t fan_in(const Tensor& weight) {
  WEFT_CHECK(weight.dim() >= 2, "init", "fan-in needs a weight of at least two dimensions, got {}", describe(weight));
  return weight.numel() / std::max<int64_t>(weight.size(0), 1);
}

const Tensor& kaiming_uniform_(const Tensor& weight, double a) {
  const int64_t inputs = fan_in(weight);
  if (inputs == 0) return weight;
  const double bound = std::sqrt(6.0 / ((1 + a * a) * static_cast<double>(inputs)));
  return uniform_(weight, -bound, bound);
}

}  // namespace weft::nn::init
