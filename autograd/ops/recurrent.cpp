#include "autograd/ops/recurrent.h"

#include "autograd/ops/common.h"
#include "autograd/ops/ops.h"

namespace weft {
namespace {

struct State {
  Tensor h;
  Tensor c;  // LSTM only
};

// What one kind of network does: the number of its gates, which bias goes with the inputs, and a step from `input`
// (x ihᵀ and that bias, [batch, gates · hidden]).
struct Kind {
  const char* name;
  int64_t gates;
  bool has_cell;
  Tensor (*input_bias)(const RecurrentWeights& weights);
  State (*step)(const Tensor& input, const State& state, const RecurrentWeights& weights);
};

// Where nothing but sums is between the two biases they are added once, not at every step.
Tensor both_biases(const RecurrentWeights& weights) {
  if (!weights.b_ih.defined()) return weights.b_hh;
  return weights.b_hh.defined() ? weights.b_ih + weights.b_hh : weights.b_ih;
}
Tensor input_bias(const RecurrentWeights& weights) { return weights.b_ih; }

State lstm_step(const Tensor& input, const State& state, const RecurrentWeights& weights) {
  const Tensor gates = addmm(input, state.h, weights.hh.t());
  const int64_t hidden = gates.size(1) / 4;
  const std::vector<Tensor> parts = split(gates, {2 * hidden, hidden, hidden}, 1);
  const std::vector<Tensor> in_and_forget = split(sigmoid(parts[0]), hidden, 1);
  const Tensor c = addcmul(in_and_forget[1] * state.c, in_and_forget[0], tanh(parts[1]));
  const Tensor h = sigmoid(parts[2]) * tanh(c);
  return {weights.hr.defined() ? linear(h, weights.hr) : h, c};
}

State gru_step(const Tensor& input, const State& state, const RecurrentWeights& weights) {
  const Tensor from_state = linear(state.h, weights.hh, weights.b_hh);
  const int64_t hidden = input.size(1) / 3;
  const std::vector<int64_t> sizes = {2 * hidden, hidden};
  const std::vector<Tensor> own = split(input, sizes, 1), recurrent = split(from_state, sizes, 1);
  const std::vector<Tensor> gates = split(sigmoid(own[0] + recurrent[0]), hidden, 1);  // reset, update
  const Tensor candidate = tanh(addcmul(own[1], gates[0], recurrent[1]));
  return {addcmul(candidate, gates[1], state.h - candidate), {}};
}

State rnn_tanh_step(const Tensor& input, const State& state, const RecurrentWeights& weights) {
  return {tanh(addmm(input, state.h, weights.hh.t())), {}};
}
State rnn_relu_step(const Tensor& input, const State& state, const RecurrentWeights& weights) {
  return {relu(addmm(input, state.h, weights.hh.t())), {}};
}

constexpr Kind kLstm{"lstm", 4, true, both_biases, lstm_step};
constexpr Kind kGru{"gru", 3, false, input_bias, gru_step};
constexpr Kind kRnnTanh{"rnn_tanh", 1, false, both_biases, rnn_tanh_step};
constexpr Kind kRnnRelu{"rnn_relu", 1, false, both_biases, rnn_relu_step};

// `in`: the last size of what the weights are multiplied with.
void check_weights(const Kind& kind, const Tensor& x, int64_t in, const RecurrentWeights& weights) {
  WEFT_CHECK(weights.ih.defined() && weights.hh.defined(), kind.name, "the weights are undefined");
  const Tensor& ih = weights.ih;
  WEFT_CHECK(ih.dim() == 2 && ih.size(0) > 0 && ih.size(0) % kind.gates == 0 && ih.size(1) == in, kind.name,
             "expected the weight of the input as [{} · hidden, {}], got {}", kind.gates, in, describe(ih));
  const int64_t rows = ih.size(0), hidden = rows / kind.gates;
  WEFT_CHECK(!weights.hr.defined() || kind.has_cell, kind.name, "only an LSTM has a projection");
  WEFT_CHECK(!weights.hr.defined() || (weights.hr.dim() == 2 && weights.hr.size(1) == hidden), kind.name,
             "expected the projection as [.., {}], got {}", hidden, describe(weights.hr));
  const int64_t state = weights.hr.defined() ? weights.hr.size(0) : hidden;
  WEFT_CHECK(weights.hh.shape() == Shape({rows, state}), kind.name,
             "expected the weight of the state as [{}, {}], got {}", rows, state, describe(weights.hh));
  for (const Tensor& bias : {weights.b_ih, weights.b_hh})
    WEFT_CHECK(!bias.defined() || bias.shape() == Shape({rows}), kind.name, "expected a bias of [{}], got {}", rows,
               describe(bias));
  for (const Tensor& weight : {weights.ih, weights.hh, weights.b_ih, weights.b_hh, weights.hr})
    if (weight.defined()) detail::check_same_kind(kind.name, x, weight);
}

int64_t state_size(const RecurrentWeights& weights) { return weights.hh.size(1); }
int64_t hidden_size(const Kind& kind, const RecurrentWeights& weights) { return weights.ih.size(0) / kind.gates; }

// One layer in one direction: x [time, batch, in] → every h in order of time, and the last state.
std::pair<Tensor, State> run_direction(const Kind& kind, const Tensor& x, State state, const RecurrentWeights& weights,
                                       bool backwards) {
  const std::vector<Tensor> inputs = unbind(linear(x, weights.ih, kind.input_bias(weights)), 0);
  std::vector<Tensor> outputs(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const size_t time = backwards ? inputs.size() - 1 - i : i;
    state = kind.step(inputs[time], state, weights);
    outputs[time] = state.h;
  }
  return {stack(outputs, 0), state};
}

// The initial state, checked; `states` [layers · directions, batch, size] or undefined.
void check_state(const Kind& kind, const Tensor& x, const Tensor& states, const char* which, size_t count,
                 int64_t size) {
  if (!states.defined()) return;
  const Shape wanted = {static_cast<int64_t>(count), x.size(1), size};
  WEFT_CHECK(states.shape() == wanted, kind.name, "expected {} of shape {}, got {}", which, wanted, describe(states));
  detail::check_same_kind(kind.name, x, states);
}
Tensor initial(const Tensor& x, const Tensor& states, size_t i, int64_t size) {
  return states.defined() ? states.select(0, static_cast<int64_t>(i)) : zeros({x.size(1), size}, x.options());
}

RecurrentResult run(const Kind& kind, const Tensor& x, const Tensor& h0, const Tensor& c0,
                    const std::vector<RecurrentWeights>& weights, const RecurrentOptions& options) {
  if (x.dim() == 2) {
    RecurrentOptions batched = options;
    batched.batch_first = false;
    const auto with_batch = [](const Tensor& t) { return t.defined() ? t.unsqueeze(1) : t; };
    RecurrentResult result = run(kind, x.unsqueeze(1), with_batch(h0), with_batch(c0), weights, batched);
    return {result.output.squeeze(1), result.h.squeeze(1), kind.has_cell ? result.c.squeeze(1) : Tensor()};
  }
  WEFT_CHECK(x.dim() == 3, kind.name, "expected [time, batch, in] or [time, in], got {}", describe(x));
  if (options.batch_first) {
    RecurrentOptions by_time = options;
    by_time.batch_first = false;
    RecurrentResult result = run(kind, x.transpose(0, 1), h0, c0, weights, by_time);
    result.output = result.output.transpose(0, 1);
    return result;
  }
  const size_t directions = options.bidirectional ? 2 : 1;
  WEFT_CHECK(x.size(0) > 0, kind.name, "expected at least one time step, got {}", describe(x));
  WEFT_CHECK(options.num_layers > 0 && weights.size() == static_cast<size_t>(options.num_layers) * directions,
             kind.name, "{} layers in {} directions need as many weights, got {}", options.num_layers, directions,
             weights.size());
  check_weights(kind, x, x.size(2), weights[0]);
  check_state(kind, x, h0, "h0", weights.size(), state_size(weights[0]));
  check_state(kind, x, c0, "c0", weights.size(), hidden_size(kind, weights[0]));
  Tensor y = x;
  std::vector<Tensor> last_h, last_c;
  for (size_t layer = 0; layer < static_cast<size_t>(options.num_layers); ++layer) {
    if (layer > 0) y = dropout(y, options.dropout, options.training);
    std::vector<Tensor> outputs;
    for (size_t direction = 0; direction < directions; ++direction) {
      const size_t i = layer * directions + direction;
      check_weights(kind, x, y.size(2), weights[i]);
      State state{initial(x, h0, i, state_size(weights[i])), {}};
      if (kind.has_cell) state.c = initial(x, c0, i, hidden_size(kind, weights[i]));
      auto [output, last] = run_direction(kind, y, state, weights[i], direction == 1);
      outputs.push_back(output);
      last_h.push_back(last.h);
      last_c.push_back(last.c);
    }
    y = directions == 1 ? outputs[0] : cat(outputs, 2);
  }
  return {y, stack(last_h, 0), kind.has_cell ? stack(last_c, 0) : Tensor()};
}

State one_step(const Kind& kind, const Tensor& x, const State& state, const RecurrentWeights& weights) {
  WEFT_CHECK(x.dim() == 1 || x.dim() == 2, kind.name, "expected x [batch, in] or [in], got {}", describe(x));
  if (x.dim() == 1) {
    const auto batch = [](const Tensor& t) { return t.defined() ? t.unsqueeze(0) : t; };
    const State next = one_step(kind, x.unsqueeze(0), {batch(state.h), batch(state.c)}, weights);
    return {next.h.squeeze(0), next.c.defined() ? next.c.squeeze(0) : Tensor()};
  }
  check_weights(kind, x, x.size(1), weights);
  State from = state;
  const int64_t batch = x.size(0);
  const auto fill = [&](Tensor& t, int64_t size) {
    if (!t.defined()) t = zeros({batch, size}, x.options());
    WEFT_CHECK(t.shape() == Shape({batch, size}), kind.name, "expected a state [{}, {}], got {}", batch, size,
               describe(t));
    detail::check_same_kind(kind.name, x, t);
  };
  fill(from.h, state_size(weights));
  if (kind.has_cell) fill(from.c, hidden_size(kind, weights));
  return kind.step(linear(x, weights.ih, kind.input_bias(weights)), from, weights);
}

}  // namespace

RecurrentResult lstm(const Tensor& x, const Tensor& h0, const Tensor& c0, const std::vector<RecurrentWeights>& weights,
                     const RecurrentOptions& options) {
  return run(kLstm, x, h0, c0, weights, options);
}
RecurrentResult gru(const Tensor& x, const Tensor& h0, const std::vector<RecurrentWeights>& weights,
                    const RecurrentOptions& options) {
  return run(kGru, x, h0, {}, weights, options);
}
RecurrentResult rnn_tanh(const Tensor& x, const Tensor& h0, const std::vector<RecurrentWeights>& weights,
                         const RecurrentOptions& options) {
  return run(kRnnTanh, x, h0, {}, weights, options);
}
RecurrentResult rnn_relu(const Tensor& x, const Tensor& h0, const std::vector<RecurrentWeights>& weights,
                         const RecurrentOptions& options) {
  return run(kRnnRelu, x, h0, {}, weights, options);
}

std::pair<Tensor, Tensor> lstm_cell(const Tensor& x, const Tensor& h, const Tensor& c,
                                    const RecurrentWeights& weights) {
  const State next = one_step(kLstm, x, {h, c}, weights);
  return {next.h, next.c};
}
Tensor gru_cell(const Tensor& x, const Tensor& h, const RecurrentWeights& weights) {
  return one_step(kGru, x, {h, {}}, weights).h;
}
Tensor rnn_tanh_cell(const Tensor& x, const Tensor& h, const RecurrentWeights& weights) {
  return one_step(kRnnTanh, x, {h, {}}, weights).h;
}
Tensor rnn_relu_cell(const Tensor& x, const Tensor& h, const RecurrentWeights& weights) {
  return one_step(kRnnRelu, x, {h, {}}, weights).h;
}

}  // namespace weft
