// Recurrent networks over whole sequences, and single steps of them: PyTorch's equations, order of gates and weights.
//
//   RecurrentResult r = lstm(x, {}, {}, {{w_ih, w_hh, b_ih, b_hh}});         // x [time, batch, in] → r.output, r.h, r.c
//
// A layer first multiplies the inputs of all times by weight_ih, one large product; what is left for each step is the
// product with the state and the gates.
#pragma once
#include <vector>

#include "tensor/tensor.h"

namespace weft {

// Of one layer and direction. Rows are gates × hidden: i, f, g, o (LSTM), r, z, n (GRU), one (RNN).
struct RecurrentWeights {
  Tensor ih;         // [gates · hidden, in]
  Tensor hh;         // [gates · hidden, state], state = hidden or, with `hr`, its projection
  Tensor b_ih = {};  // [gates · hidden] or undefined
  Tensor b_hh = {};  // the same
  Tensor hr = {};    // LSTM only: [projection, hidden], applied to each h (Sak et al. 2014, arXiv:1402.1128)
};

struct RecurrentOptions {
  int64_t num_layers = 1;
  bool bidirectional = false;  // a second set of weights reads the sequence from its end
  bool batch_first = false;    // x and output are [batch, time, …], else [time, batch, …]; states never change
  double dropout = 0;          // of every layer's output but the last one's
  bool training = true;        // false: no dropout
};

struct RecurrentResult {
  Tensor output;  // the last layer's h at every time, both directions side by side
  Tensor h;       // [layers · directions, batch, state]: the last h of each
  Tensor c;       // LSTM only
  std::vector<const Tensor*> tensors() const { return {&output, &h, &c}; }  // for hooks of modules
};

// x [time, batch, in], or [time, in] without a batch (then no result has one). h0 and c0: [layers · directions, batch,
// state], or undefined for zeros. `weights`: layer 0 forward, layer 0 backward, layer 1 forward, …
// LSTM (Hochreiter & Schmidhuber 1997): c = f · c + i · g, h = o · tanh(c), with i, f, o = sigmoid and g = tanh of
// x ihᵀ + b_ih + h hhᵀ + b_hh.
RecurrentResult lstm(const Tensor& x, const Tensor& h0, const Tensor& c0, const std::vector<RecurrentWeights>& weights,
                     const RecurrentOptions& options = {});
// GRU (Cho et al. 2014, arXiv:1406.1078), with the reset gate after the product, as cuDNN and PyTorch:
// n = tanh(x_n + r · h_n), h = (1 - z) · n + z · h, where x_n and h_n include their biases.
RecurrentResult gru(const Tensor& x, const Tensor& h0, const std::vector<RecurrentWeights>& weights,
                    const RecurrentOptions& options = {});
// Elman's network: h = tanh(…), or relu(…).
RecurrentResult rnn_tanh(const Tensor& x, const Tensor& h0, const std::vector<RecurrentWeights>& weights,
                         const RecurrentOptions& options = {});
RecurrentResult rnn_relu(const Tensor& x, const Tensor& h0, const std::vector<RecurrentWeights>& weights,
                         const RecurrentOptions& options = {});

// One step. x [batch, in] or [in], h and c [batch, hidden] or [hidden].
std::pair<Tensor, Tensor> lstm_cell(const Tensor& x, const Tensor& h, const Tensor& c, const RecurrentWeights& weights);
Tensor gru_cell(const Tensor& x, const Tensor& h, const RecurrentWeights& weights);
Tensor rnn_tanh_cell(const Tensor& x, const Tensor& h, const RecurrentWeights& weights);
Tensor rnn_relu_cell(const Tensor& x, const Tensor& h, const RecurrentWeights& weights);

}  // namespace weft
