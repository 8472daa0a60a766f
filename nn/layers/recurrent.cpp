#include "nn/layers/recurrent.h"

#include <fmt/format.h>

#include <cmath>

#include "autograd/ops/ops.h"
#include "nn/init.h"

namespace weft::nn {
namespace {

// A parameter as PyTorch's recurrent layers begin.
Tensor initial(const Shape& shape, int64_t hidden_size, DType dtype) {
  const Tensor value = empty(shape, dtype);
  const double bound = hidden_size > 0 ? 1 / std::sqrt(static_cast<double>(hidden_size)) : 0;
  return init::uniform_(value, -bound, bound);
}

}  // namespace

template <class Derived>
RecurrentLayer<Derived>::RecurrentLayer(ModuleBase* parent, std::string name, RecurrentLayerOptions given,
                                        int64_t gates)
    : Module<Derived>(parent, std::move(name)), options(given) {
  WEFT_CHECK(given.input_size >= 0 && given.hidden_size > 0 && given.num_layers > 0, "recurrent layer",
             "expected sizes above 0, got input {}, hidden {}, layers {}", given.input_size, given.hidden_size,
             given.num_layers);
  WEFT_CHECK(given.proj_size >= 0 && given.proj_size < given.hidden_size && (given.proj_size == 0 || gates == 4),
             "recurrent layer", "expected an LSTM's proj_size below {}, or 0, got {}", given.hidden_size,
             given.proj_size);
  WEFT_CHECK(given.dropout >= 0 && given.dropout <= 1, "recurrent layer", "expected a probability of dropout, got {}",
             given.dropout);
  const int64_t directions = given.bidirectional ? 2 : 1, rows = gates * given.hidden_size;
  const int64_t state = given.proj_size > 0 ? given.proj_size : given.hidden_size;
  weights_.resize(static_cast<size_t>(given.num_layers * directions));  // slots stay where they are
  for (int64_t layer = 0; layer < given.num_layers; ++layer)
    for (int64_t direction = 0; direction < directions; ++direction) {
      RecurrentWeights& w = weights_[static_cast<size_t>(layer * directions + direction)];
      const std::string end = fmt::format("_l{}{}", layer, direction == 1 ? "_reverse" : "");
      const auto add = [&](const char* its_name, Tensor& slot, const Shape& shape, bool present) {
        this->register_parameter(its_name + end, slot,
                                 present ? initial(shape, given.hidden_size, given.dtype) : Tensor());
      };
      add("weight_ih", w.ih, {rows, layer == 0 ? given.input_size : state * directions}, true);
      add("weight_hh", w.hh, {rows, state}, true);
      add("bias_ih", w.b_ih, {rows}, given.bias);
      add("bias_hh", w.b_hh, {rows}, given.bias);
      if (given.proj_size > 0) add("weight_hr", w.hr, {given.proj_size, given.hidden_size}, true);
    }
}

template <class Derived>
RecurrentOptions RecurrentLayer<Derived>::call_options() const {
  return {.num_layers = options.num_layers,
          .bidirectional = options.bidirectional,
          .batch_first = options.batch_first,
          .dropout = options.dropout,
          .training = this->training()};
}

template <class Derived>
RecurrentCell<Derived>::RecurrentCell(ModuleBase* parent, std::string name, CellOptions given, int64_t gates)
    : Module<Derived>(parent, std::move(name)), options(given) {
  WEFT_CHECK(given.input_size >= 0 && given.hidden_size > 0, "recurrent cell",
             "expected sizes above 0, got input {}, hidden {}", given.input_size, given.hidden_size);
  const int64_t rows = gates * given.hidden_size;
  const auto add = [&](const char* its_name, Tensor& slot, const Shape& shape, bool present) {
    this->register_parameter(its_name, slot, present ? initial(shape, given.hidden_size, given.dtype) : Tensor());
  };
  add("weight_ih", weights_.ih, {rows, given.input_size}, true);
  add("weight_hh", weights_.hh, {rows, given.hidden_size}, true);
  add("bias_ih", weights_.b_ih, {rows}, given.bias);
  add("bias_hh", weights_.b_hh, {rows}, given.bias);
}

template class RecurrentLayer<LSTM>;
template class RecurrentLayer<GRU>;
template class RecurrentLayer<RNN>;
template class RecurrentCell<LSTMCell>;
template class RecurrentCell<GRUCell>;
template class RecurrentCell<RNNCell>;

LSTM::LSTM(ModuleBase* parent, std::string name, RecurrentLayerOptions given)
    : RecurrentLayer(parent, std::move(name), given, 4) {}
RecurrentResult LSTM::forward(const Tensor& x, const Tensor& h0, const Tensor& c0) {
  return lstm(x, h0, c0, weights(), call_options());
}

GRU::GRU(ModuleBase* parent, std::string name, RecurrentLayerOptions given)
    : RecurrentLayer(parent, std::move(name), given, 3) {}
RecurrentResult GRU::forward(const Tensor& x, const Tensor& h0) { return gru(x, h0, weights(), call_options()); }

RNN::RNN(ModuleBase* parent, std::string name, RecurrentLayerOptions given)
    : RecurrentLayer(parent, std::move(name), given, 1) {}
RecurrentResult RNN::forward(const Tensor& x, const Tensor& h0) {
  return options.relu ? rnn_relu(x, h0, weights(), call_options()) : rnn_tanh(x, h0, weights(), call_options());
}

LSTMCell::LSTMCell(ModuleBase* parent, std::string name, CellOptions given)
    : RecurrentCell(parent, std::move(name), given, 4) {}
std::pair<Tensor, Tensor> LSTMCell::forward(const Tensor& x, const Tensor& h, const Tensor& c) {
  return lstm_cell(x, h, c, weights());
}

GRUCell::GRUCell(ModuleBase* parent, std::string name, CellOptions given)
    : RecurrentCell(parent, std::move(name), given, 3) {}
Tensor GRUCell::forward(const Tensor& x, const Tensor& h) { return gru_cell(x, h, weights()); }

RNNCell::RNNCell(ModuleBase* parent, std::string name, CellOptions given)
    : RecurrentCell(parent, std::move(name), given, 1) {}
Tensor RNNCell::forward(const Tensor& x, const Tensor& h) {
  return options.relu ? rnn_relu_cell(x, h, weights()) : rnn_tanh_cell(x, h, weights());
}

}  // namespace weft::nn
