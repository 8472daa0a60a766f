// Attention, transformer and recurrent layers: names, shapes, masks, and the same values by another way.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "autograd/engine.h"
#include "nn/nn.h"

namespace weft::nn {
namespace {

using Names = std::vector<std::string>;
using Values = std::vector<double>;

template <class List>
Names names_of(const List& list) {
  Names names;
  for (const auto& entry : list) names.push_back(entry.first);
  return names;
}

void expect_near(const Tensor& got, const Tensor& want, double tolerance = 1e-5) {
  ASSERT_EQ(got.shape(), want.shape());
  EXPECT_LE(amax(abs(got - want)).item(), tolerance);
}

TEST(MultiheadAttention, NamesAndInitialValues) {
  MultiheadAttention same({.embed_dim = 8, .num_heads = 2});
  EXPECT_EQ(names_of(same.state_dict()), (Names{"in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"}));
  EXPECT_LE(amax(abs(same.in_proj_weight)).item(), std::sqrt(6.0 / (24 + 8)));
  EXPECT_EQ(sum(abs(same.in_proj_bias)).item() + sum(abs(same.out_proj.bias)).item(), 0);
  MultiheadAttention other({.embed_dim = 8, .num_heads = 2, .kdim = 6, .vdim = 4});
  EXPECT_EQ(names_of(other.state_dict()), (Names{"q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_bias",
                                                 "out_proj.weight", "out_proj.bias"}));
  MultiheadAttention without({.embed_dim = 8, .num_heads = 2, .bias = false});
  EXPECT_EQ(names_of(without.state_dict()), (Names{"in_proj_weight", "out_proj.weight"}));
  EXPECT_THROW(MultiheadAttention({.embed_dim = 7, .num_heads = 2}), Error);
}

TEST(MultiheadAttention, IsTheFunction) {
  manual_seed(1);
  MultiheadAttention attention({.embed_dim = 8, .num_heads = 2, .batch_first = true});
  const Tensor x = randn({3, 5, 8});
  const auto [y, none] = attention(x, x, x, MultiheadAttentionCall{.is_causal = true});
  EXPECT_FALSE(none.defined());
  expect_near(y,
              multihead_self_attention(x, attention.in_proj_weight, attention.in_proj_bias, attention.out_proj.weight,
                                       attention.out_proj.bias, {.heads = 2, .attention = {.causal = true}}));
  // The causal mask as a mask; true is what is not seen.
  const Tensor later = triu(ones({5, 5}), 1) > 0;
  const auto [masked, weights] = attention(x, x, x, MultiheadAttentionCall{.attn_mask = later, .need_weights = true});
  expect_near(masked, y);
  EXPECT_EQ(weights.shape(), (Shape{3, 5, 5}));
  expect_near(sum(weights, {2}), ones({3, 5}));
  EXPECT_EQ(amax(abs(triu(weights, 1))).item(), 0);
  // Added, and by head.
  const Tensor added = where(later, full({5, 5}, -std::numeric_limits<double>::infinity()), 0.0);
  expect_near(attention(x, x, x, MultiheadAttentionCall{.attn_mask = added.expand({6, 5, 5})}).first, y);
  // Other tensors of the same values: three products instead of one.
  const Tensor copy = x.clone();
  expect_near(attention(x, copy, copy, MultiheadAttentionCall{.is_causal = true}).first, y);
}

TEST(MultiheadAttention, PaddingAndLayouts) {
  manual_seed(2);
  MultiheadAttention attention({.embed_dim = 8, .num_heads = 4, .kdim = 6, .vdim = 4});
  const Tensor query = randn({5, 2, 8}), key = randn({7, 2, 6}), value = randn({7, 2, 4});
  Tensor padding = zeros({2, 7});
  padding.slice(1, 4, 7).fill_(1);
  const Tensor flags = padding > 0;
  const auto [y, weights] =
      attention(query, key, value,
                MultiheadAttentionCall{.key_padding_mask = flags, .need_weights = true, .average_attn_weights = false});
  EXPECT_EQ(y.shape(), (Shape{5, 2, 8}));
  EXPECT_EQ(weights.shape(), (Shape{2, 4, 5, 7}));
  expect_near(y, attention(query, key.slice(0, 0, 4), value.slice(0, 0, 4)).first);
  // A bool and a floating mask together.
  expect_near(
      attention(query, key, value, MultiheadAttentionCall{.key_padding_mask = flags, .attn_mask = zeros({5, 7})}).first,
      y);
  // Without a batch.
  expect_near(attention(query.select(1, 0), key.select(1, 0), value.select(1, 0),
                        MultiheadAttentionCall{.key_padding_mask = flags[0]})
                  .first,
              y.select(1, 0));
  // A row that sees nothing has weights of zero and no NaN anywhere.
  const auto [all, nothing] =
      attention(query, key, value, MultiheadAttentionCall{.key_padding_mask = ones({2, 7}) > 0, .need_weights = true});
  EXPECT_EQ(sum(abs(nothing)).item(), 0);
  expect_near(all, attention.out_proj.bias.expand({5, 2, 8}), 0);
  EXPECT_THROW(attention(query, key, value, MultiheadAttentionCall{.key_padding_mask = flags[0]}), Error);
  EXPECT_THROW(attention(query, key, value, MultiheadAttentionCall{.attn_mask = zeros({7, 5})}), Error);
  EXPECT_THROW(attention(query, value, key), Error);
}

TEST(Transformer, NamesAndShapes) {
  const TransformerLayerOptions options{.d_model = 8, .nhead = 2, .dim_feedforward = 16, .batch_first = true};
  TransformerEncoderLayer layer(options);
  EXPECT_EQ(names_of(layer.state_dict()),
            (Names{"self_attn.in_proj_weight", "self_attn.in_proj_bias", "self_attn.out_proj.weight",
                   "self_attn.out_proj.bias", "linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias",
                   "norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"}));
  TransformerEncoder encoder({.layer = options, .num_layers = 2, .final_norm = true});
  TransformerDecoder decoder({.layer = options, .num_layers = 1});
  EXPECT_TRUE(encoder.state_dict().contains("layers.1.linear2.bias"));
  EXPECT_EQ(names_of(encoder.state_dict()).back(), "norm.bias");
  EXPECT_TRUE(decoder.state_dict().contains("layers.0.multihead_attn.in_proj_weight"));
  const Tensor x = randn({3, 5, 8}), y = randn({3, 4, 8});
  const Tensor out = decoder(y, encoder(x), TransformerDecoderCall{.tgt_is_causal = true});
  EXPECT_EQ(out.shape(), (Shape{3, 4, 8}));
  sum(out).backward();
  for (const auto& [name, p] : encoder.named_parameters()) EXPECT_TRUE(p.grad().defined()) << name;
  for (const auto& [name, p] : decoder.named_parameters()) EXPECT_TRUE(p.grad().defined()) << name;
}

TEST(Transformer, NormFirstAndAfter) {
  for (const bool first : {false, true})
    for (const auto activation : {TransformerActivation::relu, TransformerActivation::gelu}) {
      manual_seed(3);
      TransformerEncoderLayer layer({.d_model = 8,
                                     .nhead = 2,
                                     .dim_feedforward = 16,
                                     .dropout = 0.5,
                                     .activation = activation,
                                     .norm_first = first});
      layer.eval();
      const Tensor x = randn({5, 3, 8});
      const auto attend = [&](const Tensor& t) { return layer.self_attn(t, t, t).first; };
      const auto feed = [&](const Tensor& t) {
        const Tensor h = layer.linear1(t);
        return layer.linear2(activation == TransformerActivation::relu ? relu(h) : gelu(h));
      };
      Tensor y = first ? x + attend(layer.norm1(x)) : layer.norm1(x + attend(x));
      y = first ? y + feed(layer.norm2(y)) : layer.norm2(y + feed(y));
      expect_near(layer(x), y);
    }
}

TEST(Recurrent, NamesShapesAndCells) {
  LSTM lstm({.input_size = 3, .hidden_size = 4, .num_layers = 2, .batch_first = true, .bidirectional = true});
  const Names names = names_of(lstm.state_dict());
  EXPECT_EQ(names.size(), 16u);
  EXPECT_EQ(names[0], "weight_ih_l0");
  EXPECT_EQ(names[4], "weight_ih_l0_reverse");
  EXPECT_EQ(names.back(), "bias_hh_l1_reverse");
  EXPECT_LE(amax(abs(lstm.parameters()[0])).item(), 0.5);
  const RecurrentResult r = lstm(randn({2, 5, 3}));
  EXPECT_EQ(r.output.shape(), (Shape{2, 5, 8}));
  EXPECT_EQ(r.h.shape(), (Shape{4, 2, 4}));
  EXPECT_EQ(r.c.shape(), (Shape{4, 2, 4}));
  LSTM projected({.input_size = 3, .hidden_size = 4, .bias = false, .proj_size = 2});
  EXPECT_EQ(names_of(projected.state_dict()), (Names{"weight_ih_l0", "weight_hh_l0", "weight_hr_l0"}));
  const RecurrentResult p = projected(randn({5, 2, 3}));
  EXPECT_EQ(p.h.shape(), (Shape{1, 2, 2}));
  EXPECT_EQ(p.c.shape(), (Shape{1, 2, 4}));
  EXPECT_THROW(GRU({.input_size = 3, .hidden_size = 4, .proj_size = 2}), Error);
  EXPECT_THROW(lstm(randn({2, 5, 4})), Error);
  EXPECT_THROW(lstm(randn({2, 5, 3}), zeros({1, 2, 4})), Error);

  // A layer is its cell, step by step.
  GRU gru({.input_size = 3, .hidden_size = 4});
  GRUCell cell({.input_size = 3, .hidden_size = 4});
  StateDict state;
  for (const auto& [name, tensor] : gru.state_dict()) state[name.substr(0, name.size() - 3)] = tensor;
  cell.load_state_dict(state);
  const Tensor x = randn({5, 2, 3});
  Tensor h = zeros({2, 4});
  for (int64_t t = 0; t < 5; ++t) h = cell(x[t], h);
  expect_near(gru(x).h[0], h);
  RNN rnn({.input_size = 3, .hidden_size = 4, .relu = true});
  EXPECT_GE(amin(rnn(x).output).item(), 0);
}

TEST(Recurrent, DropoutBetweenLayers) {
  manual_seed(4);
  GRU gru({.input_size = 3, .hidden_size = 4, .num_layers = 2, .dropout = 0.5});
  const Tensor x = randn({5, 2, 3});
  EXPECT_NE(gru(x).output.to_vector(), gru(x).output.to_vector());
  gru.eval();
  EXPECT_EQ(gru(x).output.to_vector(), gru(x).output.to_vector());
}

TEST(Recurrent, StateGoesOn) {
  manual_seed(5);
  LSTM lstm({.input_size = 3, .hidden_size = 4, .num_layers = 2});
  const Tensor x = randn({6, 2, 3});
  const RecurrentResult whole = lstm(x), first = lstm(x.slice(0, 0, 2)),
                        rest = lstm(x.slice(0, 2, {}), first.h, first.c);
  expect_near(cat({first.output, rest.output}), whole.output);
  expect_near(rest.c, whole.c);
}

}  // namespace
}  // namespace weft::nn
