// Sequential, ModuleDict, summary, backward hooks, and the rules of nn/init.
#include <gtest/gtest.h>

#include <cmath>

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

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}
#define EXPECT_TEXT(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

struct Tied : Module<Tied> {
  Embedding embedding{this, "embedding", {.count = 5, .dim = 3}};
  Linear head{this, "head", {.in = 3, .out = 5, .bias = false, .weight = embedding.weight}};
  Tensor forward(const Tensor& ids) { return head(embedding(ids)); }
};

TEST(Sequential, LayersAndFunctions) {
  manual_seed(1);
  Sequential net;
  net.emplace_back<Linear>(LinearOptions{.in = 4, .out = 3});
  net.push_back(relu);
  net.emplace<Linear>("head", LinearOptions{.in = 3, .out = 2});
  EXPECT_EQ(names_of(net.named_parameters()), (Names{"0.weight", "0.bias", "head.weight", "head.bias"}));
  EXPECT_EQ(net.size(), 3u);
  const Tensor x = randn({2, 4});
  Linear& first = net.at<Linear>(0);
  EXPECT_EQ(net(x).to_vector(), net.at<Linear>(2)(relu(first(x))).to_vector());
  EXPECT_TEXT(error_of([&] { net.at<Linear>(1); }), "Function");
  EXPECT_TEXT(error_of([&] { net[3]; }), "3");
  // A layer's hooks run inside as well.
  int calls = 0;
  const HookHandle hook = first.register_forward_hook([&](ModuleBase&, std::span<Tensor* const>) { ++calls; });
  net(x);
  EXPECT_EQ(calls, 1);
  // As a member, and in another.
  struct Net : Module<Net> {
    Sequential body{this, "body"};
    Net() { body.emplace_back<Sequential>().emplace_back<Linear>(LinearOptions{.in = 1, .out = 1}); }
  } outer;
  EXPECT_EQ(names_of(outer.named_parameters()), (Names{"body.0.0.weight", "body.0.0.bias"}));
}

TEST(ModuleDict, ByName) {
  struct Net : Module<Net> {
    ModuleDict<Linear> heads{this, "heads"};
    Net() {
      heads.emplace("title", LinearOptions{.in = 2, .out = 3});
      heads.emplace("body", LinearOptions{.in = 2, .out = 1, .bias = false});
    }
  } net;
  EXPECT_EQ(names_of(net.named_parameters()), (Names{"heads.title.weight", "heads.title.bias", "heads.body.weight"}));
  EXPECT_EQ(net.heads["body"](ones({1, 2})).shape(), (Shape{1, 1}));
  EXPECT_EQ(net.heads.keys(), (Names{"title", "body"}));
  EXPECT_TRUE(net.heads.contains("title"));
  EXPECT_TEXT(error_of([&] { net.heads["footer"]; }), "title");
  EXPECT_THROW(net.heads.emplace("body", LinearOptions{.in = 1, .out = 1}), Error);
}

TEST(Summary, CountsTiedOnceAndFrozenApart) {
  Tied net;
  const ModelSummary counts = summarize(net);
  ASSERT_EQ(counts.rows.size(), 3u);
  EXPECT_EQ(counts.rows[0].type, "Tied");
  EXPECT_EQ(counts.rows[1].type, "Embedding");
  EXPECT_EQ(counts.count, 15);
  EXPECT_EQ(counts.bytes, 60);
  EXPECT_EQ(counts.trainable, 15);
  EXPECT_EQ(counts.rows[2].parameters, "weight [5, 3] = embedding.weight");
  EXPECT_EQ(counts.rows[2].count, 0);
  net.embedding.requires_grad_(false);
  const std::string text = summary(net);
  EXPECT_TEXT(text, "15 parameters (60 bytes), 0 trainable, 15 frozen");
  EXPECT_TEXT(text, "embedding  Embedding  weight [5, 3]");
  ModuleList<Linear> list;
  EXPECT_EQ(list.type_name(), "ModuleList<Linear>");
}

TEST(BackwardHooks, SeeAndReplaceGradients) {
  Linear layer({.in = 2, .out = 1, .bias = false});
  layer.weight.detach().copy_(tensor({3.0, 4.0}).reshape({1, 2}));
  Names order;
  HookHandle before = layer.register_full_backward_pre_hook([&](ModuleBase& module, std::span<Tensor> grad_outputs) {
    EXPECT_EQ(&module, &layer);
    order.push_back("before");
    grad_outputs[0] = grad_outputs[0] * 2;
  });
  HookHandle after = layer.register_full_backward_hook(
      [&](ModuleBase&, std::span<Tensor> grad_inputs, std::span<const Tensor> grad_outputs) {
        order.push_back("after");
        ASSERT_EQ(grad_inputs.size(), 1u);
        EXPECT_EQ(grad_outputs[0].to_vector(), (Values{2}));
        EXPECT_EQ(grad_inputs[0].to_vector(), (Values{6, 8}));
        grad_inputs[0] = grad_inputs[0] + 1;
      });
  const Tensor x = tensor({1.0, 2.0}, {.requires_grad = true}).reshape({1, 2});
  const Tensor leaf = tensor({1.0, 2.0}, {.requires_grad = true});
  sum(layer(leaf.unsqueeze(0))).backward();
  EXPECT_EQ(order, (Names{"before", "after"}));
  EXPECT_EQ(leaf.grad().to_vector(), (Values{7, 9}));
  EXPECT_EQ(layer.weight.grad().to_vector(), (Values{2, 4}));
  before.remove();
  after.remove();
  leaf.set_grad({});
  sum(layer(leaf.unsqueeze(0))).backward();
  EXPECT_EQ(leaf.grad().to_vector(), (Values{3, 4}));
  EXPECT_EQ(order.size(), 2u);
}

TEST(BackwardHooks, InputsWithoutGradientAndManyResults) {
  struct Two : Module<Two> {
    Tensor scale;
    Two() { register_parameter("scale", scale, ones({2})); }
    std::pair<Tensor, Tensor> forward(const Tensor& x, double factor, const Tensor& y) {
      return {x * scale * factor, y * scale};
    }
  } net;
  int calls = 0;
  const HookHandle hook = net.register_full_backward_hook(
      [&](ModuleBase&, std::span<Tensor> grad_inputs, std::span<const Tensor> grad_outputs) {
        ++calls;
        EXPECT_EQ(grad_inputs.size(), 2u);
        EXPECT_FALSE(grad_inputs[0].defined());
        EXPECT_EQ(grad_outputs.size(), 2u);
        EXPECT_TRUE(grad_outputs[0].defined());
        EXPECT_FALSE(grad_outputs[1].defined()) << "not used";
      });
  sum(net(ones({2}), 3.0, ones({2})).first).backward();  // no argument needs a gradient: called at the results
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(net.scale.grad().to_vector(), (Values{3, 3}));
  const NoGrad guard;
  EXPECT_FALSE(net(ones({2}), 1.0, ones({2})).first.requires_grad());
}

TEST(BackwardHooks, TheGraphMayOutliveTheModule) {
  const Tensor x = ones({1, 2}).requires_grad_();
  Tensor y;
  {
    Linear layer({.in = 2, .out = 1});
    layer.register_full_backward_hook([](ModuleBase&, std::span<Tensor>, std::span<const Tensor>) { FAIL(); });
    y = layer(x);
  }
  y.backward();
  EXPECT_TRUE(x.grad().defined());
}

double deviation(const Tensor& t) { return weft::std(t).item(); }

TEST(Init, FansAndGains) {
  const Tensor w = empty({200, 50, 3, 3});
  EXPECT_EQ(init::fan_in(w), 450);
  EXPECT_EQ(init::fan_out(w), 1800);
  EXPECT_DOUBLE_EQ(init::calculate_gain(init::Nonlinearity::tanh), 5.0 / 3);
  EXPECT_DOUBLE_EQ(init::calculate_gain(init::Nonlinearity::leaky_relu, 1), 1);
  manual_seed(1);
  init::xavier_normal_(w, 2);
  EXPECT_NEAR(deviation(w), 2 * std::sqrt(2.0 / 2250), 1e-3);
  init::xavier_uniform_(w);
  EXPECT_NEAR(deviation(w), std::sqrt(2.0 / 2250), 1e-3);
  EXPECT_LE(amax(abs(w)).item(), std::sqrt(6.0 / 2250));
  init::kaiming_normal_(w, {.mode = init::Fan::out, .nonlinearity = init::Nonlinearity::relu});
  EXPECT_NEAR(deviation(w), std::sqrt(2.0 / 1800), 1e-3);
  init::kaiming_uniform_(w);
  EXPECT_LE(amax(abs(w)).item(), std::sqrt(6.0 / 450));
  EXPECT_GT(amax(abs(w)).item(), 0.99 * std::sqrt(6.0 / 450));
  EXPECT_EQ(sum(init::ones_(empty({3}))).item(), 3);
  EXPECT_EQ(sum(init::zeros_(empty({3}))).item(), 0);
  EXPECT_EQ(sum(init::constant_(empty({3}), 2)).item(), 6);
  EXPECT_THROW(init::xavier_uniform_(empty({3})), Error);
}

TEST(Init, TruncatedNormal) {
  manual_seed(1);
  const Tensor t = init::trunc_normal_(empty({100, 100}), 0, 1, -1, 2);
  EXPECT_GE(amin(t).item(), -1);
  EXPECT_LE(amax(t).item(), 2);
  // Mean of a standard normal cut to [-1, 2]: (φ(-1) - φ(2)) / (Φ(2) - Φ(-1)).
  EXPECT_NEAR(mean(t).item(), (0.24197072 - 0.05399097) / (0.97724987 - 0.15865525), 0.02);
  // A quarter of the mass lies below each quartile.
  const Tensor wide = init::trunc_normal_(empty({100, 100}, f64), 5, 2, -100, 100);
  EXPECT_NEAR(mean(wide).item(), 5, 0.06);
  EXPECT_NEAR(deviation(wide), 2, 0.05);
  EXPECT_NEAR(mean((wide < 5 - 0.6745 * 2).to(f64)).item(), 0.25, 0.015);
  EXPECT_THROW(init::trunc_normal_(empty({1}), 0, 1, 2, 1), Error);
}

TEST(Init, Orthogonal) {
  manual_seed(1);
  for (const Shape& shape : {Shape{4, 9}, Shape{9, 4}, Shape{5, 5}, Shape{3, 2, 2}}) {
    const Tensor w = init::orthogonal_(empty(shape, f64), 2);
    const Tensor rows = w.reshape({shape[0], -1});
    const Tensor product = rows.size(0) <= rows.size(1) ? matmul(rows, rows.t()) : matmul(rows.t(), rows);
    EXPECT_LE(amax(abs(product - eye(product.size(0), {.dtype = f64}) * 4)).item(), 1e-12);
  }
}

}  // namespace
}  // namespace weft::nn
