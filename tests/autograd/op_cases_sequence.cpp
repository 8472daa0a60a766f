// Rows of the ops over sequences: rotary positions, attention with its projections, recurrent networks.
#include "tests/autograd/op_cases.h"

namespace weft::testing {
namespace {

const char* const kGates = "one size is a multiple of another, by the number of gates or of projections";
const char* const kProducts = "where a zero meets an infinity depends on how a library cuts a product into tiles";

void add_rope(std::vector<OpCase>& cases) {
  cases.push_back({.name = "rope",
                   .inputs = {real({2, 3, 5, 6}), index_below(900, {5})},
                   .call = [](In in) { return rope(in[0], in[1]); },
                   .also = {{{2, 0, 5, 6}, {5}}, {{5, 8}, {5}}, {{2, 3, 7, 64}, {7}}},
                   .tolerance = {1e-4, 1e-4}});  // an angle in f32 is off by its position / 2^24
  cases.push_back({.name = "rope_interleaved_partial",
                   .covers = {"rope"},
                   .inputs = {real({2, 3, 4, 7}), index_below(50, {2, 4})},
                   .call = [](In in) { return rope(in[0], in[1], {.dim = 4, .base = 500, .interleaved = true}); }});
  cases.push_back({.name = "apply_rope",
                   .inputs = {real({2, 3, 4, 6}), real({4, 3}, -1, 1), real({4, 3}, -1, 1)},
                   .call = [](In in) { return apply_rope(in[0], in[1], in[2]); },
                   .also = {{{0, 6}, {0, 3}, {0, 3}}, {{4, 6}, {3}, {3}}}});
  cases.push_back(
      {.name = "rope_tables",
       .inputs = {index_below(100, {5})},
       .call =
           [](In in) {
             const RopeTables tables = rope_tables(
                 in[0],
                 {.dim = 8,
                  .scaling = {.factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_context = 64}});
             return std::vector<Tensor>{tables.cos, tables.sin};
           },
       .also = {{{0}}, {{2, 3}}},
       .no_gradient = "positions are whole numbers",
       .no_half = "the tables are f32, whatever they will be applied to"});
}

void add_multihead(std::vector<OpCase>& cases) {
  const std::vector<OpInput> inputs = {real({2, 3, 4}), real({12, 4}, -1, 1), real({12}), real({4, 4}, -1, 1),
                                       real({4})};
  cases.push_back({.name = "multihead_self_attention",
                   .inputs = inputs,
                   .call =
                       [](In in) {
                         return multihead_self_attention(in[0], in[1], in[2], in[3], in[4],
                                                         {.heads = 2, .attention = {.causal = true}});
                       },
                   .also = {{{0, 3, 4}, {12, 4}, {12}, {4, 4}, {4}}, {{3, 4}, {12, 4}, {12}, {4, 4}, {4}}},
                   .no_special = kProducts,
                   .fixed_sizes = kGates,
                   .tolerance = {1e-4, 1e-4}});
  cases.push_back({.name = "multihead_self_attention_by_time",
                   .covers = {"multihead_self_attention"},
                   .inputs = {real({3, 2, 4}), real({12, 4}, -1, 1), real({4, 4}, -1, 1)},
                   .call =
                       [](In in) {
                         return multihead_self_attention(in[0], in[1], {}, in[2], {},
                                                         {.heads = 4, .batch_first = false});
                       },
                   .no_special = kProducts,
                   .fixed_sizes = kGates,
                   .tolerance = {1e-4, 1e-4}});
  cases.push_back({.name = "split_heads",
                   .inputs = {real({2, 3, 8})},
                   .call = [](In in) { return split_heads(in[0], 2); },
                   .also = {{{2, 0, 8}}}});
  cases.push_back({.name = "merge_heads",
                   .inputs = {real({2, 2, 3, 4})},
                   .call = [](In in) { return merge_heads(in[0]); },
                   .also = {{{2, 2, 0, 4}}}});
}

std::vector<Tensor> listed_result(RecurrentResult r) {
  std::vector<Tensor> all = {std::move(r.output), std::move(r.h)};
  if (r.c.defined()) all.push_back(std::move(r.c));
  return all;
}

// x, h, (c), then the weights of one layer, for a hidden size of 2 and 3 inputs.
std::vector<OpInput> one_layer(int64_t gates, std::vector<OpInput> states, Shape x) {
  std::vector<OpInput> inputs = {real(std::move(x))};
  for (OpInput& state : states) inputs.push_back(std::move(state));
  for (const Shape& shape : {Shape{2 * gates, 3}, Shape{2 * gates, 2}, Shape{2 * gates}, Shape{2 * gates}})
    inputs.push_back(real(shape, -1, 1));
  return inputs;
}
RecurrentWeights weights_from(In in, size_t first) { return {in[first], in[first + 1], in[first + 2], in[first + 3]}; }

void add_recurrent(std::vector<OpCase>& cases) {
  const auto add = [&](std::string name, std::vector<std::string> covers, std::vector<OpInput> inputs, OpCall call,
                       std::vector<std::vector<Shape>> also = {}) {
    cases.push_back({.name = std::move(name),
                     .covers = std::move(covers),
                     .inputs = std::move(inputs),
                     .call = std::move(call),
                     .also = std::move(also),
                     .no_special = kProducts,
                     .fixed_sizes = kGates,
                     .tolerance = {1e-4, 1e-4}});
  };
  const OpInput states = real({1, 2, 2}), state = real({2, 2});
  add("lstm", {}, one_layer(4, {states, states}, {3, 2, 3}),
      [](In in) { return listed_result(lstm(in[0], in[1], in[2], {weights_from(in, 3)})); },
      {{{3, 0, 3}, {1, 0, 2}, {1, 0, 2}, {8, 3}, {8, 2}, {8}, {8}},
       {{3, 3}, {1, 2}, {1, 2}, {8, 3}, {8, 2}, {8}, {8}}});
  add("gru", {}, one_layer(3, {states}, {3, 2, 3}),
      [](In in) { return listed_result(gru(in[0], in[1], {weights_from(in, 2)})); },
      {{{3, 0, 3}, {1, 0, 2}, {6, 3}, {6, 2}, {6}, {6}}, {{3, 3}, {1, 2}, {6, 3}, {6, 2}, {6}, {6}}});
  add("rnn", {"rnn_tanh", "rnn_relu"}, one_layer(1, {states}, {2, 2, 3}), [](In in) {
    const std::vector<Tensor> a = listed_result(rnn_tanh(in[0], in[1], {weights_from(in, 2)}));
    return std::vector<Tensor>{a[0], a[1], rnn_relu(in[0], in[1], {weights_from(in, 2)}).output};
  });
  add("lstm_projected", {"lstm"},
      {real({2, 2, 3}), real({1, 2, 1}), states, real({8, 3}, -1, 1), real({8, 1}, -1, 1), real({1, 2}, -1, 1)},
      [](In in) {
        return listed_result(
            lstm(in[0], in[1], in[2], {{.ih = in[3], .hh = in[4], .hr = in[5]}}, {.batch_first = true}));
      });
  add("lstm_two_directions", {"lstm"},
      {real({2, 2, 3}), real({8, 3}, -1, 1), real({8, 2}, -1, 1), real({8, 3}, -1, 1), real({8, 2}, -1, 1)}, [](In in) {
        return listed_result(lstm(in[0], {}, {}, {{in[1], in[2]}, {in[3], in[4]}}, {.bidirectional = true}));
      });
  add("gru_two_layers", {"gru"},
      {real({2, 2, 3}), real({6, 3}, -1, 1), real({6, 2}, -1, 1), real({6, 2}, -1, 1), real({6, 2}, -1, 1)}, [](In in) {
        return listed_result(
            gru(in[0], {}, {{in[1], in[2]}, {in[3], in[4]}}, {.num_layers = 2, .dropout = 0.5, .training = false}));
      });
  add("lstm_cell", {}, one_layer(4, {state, state}, {2, 3}),
      [](In in) { return lstm_cell(in[0], in[1], in[2], weights_from(in, 3)); },
      {{{3}, {2}, {2}, {8, 3}, {8, 2}, {8}, {8}}, {{0, 3}, {0, 2}, {0, 2}, {8, 3}, {8, 2}, {8}, {8}}});
  add("gru_cell", {}, one_layer(3, {state}, {2, 3}), [](In in) { return gru_cell(in[0], in[1], weights_from(in, 2)); },
      {{{3}, {2}, {6, 3}, {6, 2}, {6}, {6}}});
  add("rnn_cell", {"rnn_tanh_cell", "rnn_relu_cell"}, one_layer(1, {state}, {2, 3}), [](In in) {
    return std::vector<Tensor>{rnn_tanh_cell(in[0], in[1], weights_from(in, 2)),
                               rnn_relu_cell(in[0], in[1], weights_from(in, 2))};
  });
}

}  // namespace

std::vector<OpCase> sequence_cases() {
  std::vector<OpCase> cases;
  add_rope(cases);
  add_multihead(cases);
  add_recurrent(cases);
  return cases;
}

}  // namespace weft::testing
