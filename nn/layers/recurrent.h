// Recurrent layers with PyTorch's parameter names: LSTM, GRU, RNN over sequences, and their cells for one step.
//
//   nn::LSTM lstm({.input_size = 10, .hidden_size = 20, .num_layers = 2, .batch_first = true});
//   RecurrentResult r = lstm(x);                  // x [batch, time, 10] → r.output [batch, time, 20], r.h and r.c
//   r = lstm(more, r.h, r.c);
#pragma once
#include <utility>
#include <vector>

#include "autograd/ops/recurrent.h"
#include "nn/module.h"

namespace weft::nn {

struct RecurrentLayerOptions {
  int64_t input_size = 0;
  int64_t hidden_size = 0;
  int64_t num_layers = 1;
  bool bias = true;
  bool batch_first = false;  // [batch, time, ..] instead of [time, batch, ..]
  double dropout = 0;        // of the output of every layer but the last, while training
  bool bidirectional = false;
  int64_t proj_size = 0;  // LSTM: h is projected to this size; 0: not
  bool relu = false;      // RNN: relu instead of tanh
  DType dtype = DType::f32;
};

// The weights of all layers and directions: weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, (weight_hr_l0,)
// weight_ih_l0_reverse, …, uniform in ±1/sqrt(hidden_size) at first. The equations and shapes are those of lstm(), gru()
// and rnn_tanh() (autograd/ops/recurrent.h).
template <class Derived>
class RecurrentLayer : public Module<Derived> {
 public:
  const RecurrentLayerOptions options;
  // Layer 0 forward, layer 0 backward, layer 1 forward, …
  const std::vector<RecurrentWeights>& weights() const { return weights_; }

 protected:
  RecurrentLayer(ModuleBase* parent, std::string name, RecurrentLayerOptions options, int64_t gates);
  RecurrentOptions call_options() const;

 private:
  std::vector<RecurrentWeights> weights_;
};

// forward(x, h0, c0): states may be left out.
struct LSTM : RecurrentLayer<LSTM> {
  explicit LSTM(RecurrentLayerOptions options) : LSTM(nullptr, "", options) {}
  LSTM(ModuleBase* parent, std::string name, RecurrentLayerOptions options);
  RecurrentResult forward(const Tensor& x, const Tensor& h0 = {}, const Tensor& c0 = {});
};

struct GRU : RecurrentLayer<GRU> {
  explicit GRU(RecurrentLayerOptions options) : GRU(nullptr, "", options) {}
  GRU(ModuleBase* parent, std::string name, RecurrentLayerOptions options);
  RecurrentResult forward(const Tensor& x, const Tensor& h0 = {});
};

// Elman's network, with tanh or relu.
struct RNN : RecurrentLayer<RNN> {
  explicit RNN(RecurrentLayerOptions options) : RNN(nullptr, "", options) {}
  RNN(ModuleBase* parent, std::string name, RecurrentLayerOptions options);
  RecurrentResult forward(const Tensor& x, const Tensor& h0 = {});
};

struct CellOptions {
  int64_t input_size = 0;
  int64_t hidden_size = 0;
  bool bias = true;
  bool relu = false;  // RNNCell: relu instead of tanh
  DType dtype = DType::f32;
};

// One step of a layer: weight_ih, weight_hh, bias_ih, bias_hh, uniform in ±1/sqrt(hidden_size) at first.
template <class Derived>
class RecurrentCell : public Module<Derived> {
 public:
  const CellOptions options;
  const RecurrentWeights& weights() const { return weights_; }

 protected:
  RecurrentCell(ModuleBase* parent, std::string name, CellOptions options, int64_t gates);

 private:
  RecurrentWeights weights_;
};

struct LSTMCell : RecurrentCell<LSTMCell> {
  explicit LSTMCell(CellOptions options) : LSTMCell(nullptr, "", options) {}
  LSTMCell(ModuleBase* parent, std::string name, CellOptions options);
  std::pair<Tensor, Tensor> forward(const Tensor& x, const Tensor& h = {}, const Tensor& c = {});
};

struct GRUCell : RecurrentCell<GRUCell> {
  explicit GRUCell(CellOptions options) : GRUCell(nullptr, "", options) {}
  GRUCell(ModuleBase* parent, std::string name, CellOptions options);
  Tensor forward(const Tensor& x, const Tensor& h = {});
};

struct RNNCell : RecurrentCell<RNNCell> {
  explicit RNNCell(CellOptions options) : RNNCell(nullptr, "", options) {}
  RNNCell(ModuleBase* parent, std::string name, CellOptions options);
  Tensor forward(const Tensor& x, const Tensor& h = {});
};

}  // namespace weft::nn
