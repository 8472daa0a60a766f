// Activations as layers, for nn::Sequential and for whoever prints a model. Functions of the same names in lower case
// compute them (autograd/ops/pointwise.h, softmax.h).
//
//   nn::ReLU act{this, "act"};
//   nn::LeakyReLU leaky{this, "leaky", {.negative_slope = 0.2}};
#pragma once
#include "nn/module.h"

namespace weft::nn {

// A layer that has nothing to set.
template <class Derived>
struct PlainActivation : Module<Derived> {
  PlainActivation() = default;
  PlainActivation(ModuleBase* parent, std::string name) : Module<Derived>(parent, std::move(name)) {}
};

// max(x, 0)
struct ReLU : PlainActivation<ReLU> {
  using PlainActivation::PlainActivation;
  Tensor forward(const Tensor& x);
};
// min(max(x, 0), 6)
struct ReLU6 : PlainActivation<ReLU6> {
  using PlainActivation::PlainActivation;
  Tensor forward(const Tensor& x);
};
// x · sigmoid(x)
struct SiLU : PlainActivation<SiLU> {
  using PlainActivation::PlainActivation;
  Tensor forward(const Tensor& x);
};
struct Tanh : PlainActivation<Tanh> {
  using PlainActivation::PlainActivation;
  Tensor forward(const Tensor& x);
};
struct Sigmoid : PlainActivation<Sigmoid> {
  using PlainActivation::PlainActivation;
  Tensor forward(const Tensor& x);
};

// A layer with options of type `Options`, which its forward reads.
template <class Derived, class Options>
struct OptionActivation : Module<Derived> {
  explicit OptionActivation(Options given = {}) : options(given) {}
  OptionActivation(ModuleBase* parent, std::string name, Options given = {})
      : Module<Derived>(parent, std::move(name)), options(given) {}
  Options options;
};

struct GELUOptions {
  bool tanh_approximation = false;
};
// x · Φ(x), or its approximation by tanh.
struct GELU : OptionActivation<GELU, GELUOptions> {
  using OptionActivation::OptionActivation;
  Tensor forward(const Tensor& x);
};

struct LeakyReLUOptions {
  double negative_slope = 0.01;
};
// x where x > 0, else negative_slope · x
struct LeakyReLU : OptionActivation<LeakyReLU, LeakyReLUOptions> {
  using OptionActivation::OptionActivation;
  Tensor forward(const Tensor& x);
};

struct ELUOptions {
  double alpha = 1;
};
// x where x > 0, else alpha · (e^x - 1)
struct ELU : OptionActivation<ELU, ELUOptions> {
  using OptionActivation::OptionActivation;
  Tensor forward(const Tensor& x);
};

struct SoftplusOptions {
  double beta = 1;
  double threshold = 20;  // x itself where beta · x is larger
};
// log(1 + e^(beta · x)) / beta
struct Softplus : OptionActivation<Softplus, SoftplusOptions> {
  using OptionActivation::OptionActivation;
  Tensor forward(const Tensor& x);
};

struct HardtanhOptions {
  double min_val = -1;
  double max_val = 1;
};
// x cut to [min_val, max_val]
struct Hardtanh : OptionActivation<Hardtanh, HardtanhOptions> {
  using OptionActivation::OptionActivation;
  Tensor forward(const Tensor& x);
};

struct SoftmaxOptions {
  int64_t dim = -1;
};
struct Softmax : OptionActivation<Softmax, SoftmaxOptions> {
  using OptionActivation::OptionActivation;
  Tensor forward(const Tensor& x);
};
struct LogSoftmax : OptionActivation<LogSoftmax, SoftmaxOptions> {
  using OptionActivation::OptionActivation;
  Tensor forward(const Tensor& x);
};

struct PReLUOptions {
  int64_t num_parameters = 1;  // 1, or one a channel of x [N, C, …]
  double init = 0.25;
  DType dtype = DType::f32;
};
// x where x > 0, else weight · x (He et al. 2015, arXiv:1502.01852). weight [num_parameters].
struct PReLU : Module<PReLU> {
  explicit PReLU(PReLUOptions options = {}) : PReLU(nullptr, "", options) {}
  PReLU(ModuleBase* parent, std::string name, PReLUOptions options = {});
  Tensor forward(const Tensor& x);

  Tensor weight;
};

}  // namespace weft::nn
