// Initial values of parameters. All write in place, from this thread's default generator, and return their argument.
#pragma once
#include "tensor/tensor.h"

namespace weft::nn::init {

// Uniform in [low, high).
const Tensor& uniform_(const Tensor& t, double low, double high);
// Normal with the given mean and standard deviation.
const Tensor& normal_(const Tensor& t, double mean, double std);
// He et al. 2015 (arXiv:1502.01852), as PyTorch's layers use it: uniform in ±sqrt(6 / ((1 + a²) fan_in)), where fan_in
// is the number of inputs of one output: size(1) times the sizes after it.
const Tensor& kaiming_uniform_(const Tensor& weight, double a);
int64_t fan_in(const Tensor& weight);

}  // namespace weft::nn::init
