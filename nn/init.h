// Initial values of parameters, by torch.nn.init's names and rules. All write in place, from this thread's default
// generator, and return their argument. On the meta device they do nothing.
//
//   init::kaiming_normal_(conv.weight, {.mode = init::Fan::out, .nonlinearity = init::Nonlinearity::relu});
//   init::trunc_normal_(embedding.weight, 0, 0.02);
#pragma once
#include <utility>

#include "tensor/tensor.h"

namespace weft::nn::init {

// Uniform in [low, high).
const Tensor& uniform_(const Tensor& t, double low = 0, double high = 1);
// Normal with the given mean and standard deviation.
const Tensor& normal_(const Tensor& t, double mean = 0, double std = 1);
// The same, with what would lie outside [low, high] distributed like the rest.
const Tensor& trunc_normal_(const Tensor& t, double mean = 0, double std = 1, double low = -2, double high = 2);
const Tensor& constant_(const Tensor& t, double value);
const Tensor& zeros_(const Tensor& t);
const Tensor& ones_(const Tensor& t);

// How many inputs one output has, and how many outputs one input: of a weight [out, in, kernel..] in · kernel and
// out · kernel. Needs two dimensions.
int64_t fan_in(const Tensor& weight);
int64_t fan_out(const Tensor& weight);
enum class Fan { in, out };

// The factor by which a layer's weights grow to keep the variance behind this activation. `slope`: of leaky_relu.
enum class Nonlinearity { linear, sigmoid, tanh, relu, leaky_relu, selu };
double calculate_gain(Nonlinearity nonlinearity, double slope = 0.01);

// Glorot & Bengio 2010: variance gain² · 2 / (fan_in + fan_out).
const Tensor& xavier_uniform_(const Tensor& weight, double gain = 1);
const Tensor& xavier_normal_(const Tensor& weight, double gain = 1);

struct KaimingOptions {
  double a = 0;  // slope of leaky_relu
  Fan mode = Fan::in;
  Nonlinearity nonlinearity = Nonlinearity::leaky_relu;
};
// He et al. 2015 (arXiv:1502.01852): variance gain² / fan; uniform in ± gain · sqrt(3 / fan), or normal.
const Tensor& kaiming_uniform_(const Tensor& weight, KaimingOptions options = {});
const Tensor& kaiming_normal_(const Tensor& weight, KaimingOptions options = {});
// With the gain of leaky_relu of slope `a`, over fan_in, as PyTorch's layers use it.
const Tensor& kaiming_uniform_(const Tensor& weight, double a);

// Rows, or columns where there are fewer, that are orthonormal, times gain (Saxe et al. 2013, arXiv:1312.6120); trailing
// dimensions count as one. f32 or f64 on the CPU.
const Tensor& orthogonal_(const Tensor& weight, double gain = 1);

}  // namespace weft::nn::init
