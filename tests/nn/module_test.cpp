// Modules: names and their order, tying, state, hooks, modes, dtypes; the layers' shapes, initial values and errors.
#include "nn/module.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autograd/engine.h"
#include "nn/nn.h"
#include "tensor/factory.h"

namespace weft::nn {
namespace {

using Names = std::vector<std::string>;
using Values = std::vector<double>;

struct Mlp : Module<Mlp> {
  Mlp() = default;
  Mlp(ModuleBase* parent, std::string name) : Module(parent, std::move(name)) {}
  Linear fc1{this, "fc1", {.in = 4, .out = 3}};
  Linear fc2{this, "fc2", {.in = 3, .out = 2}};
  Tensor forward(const Tensor& x) { return fc2(relu(fc1(x))); }
};

struct Tied : Module<Tied> {
  Embedding embedding{this, "embedding", {.count = 5, .dim = 3}};
  Linear head{this, "head", {.in = 3, .out = 5, .bias = false, .weight = embedding.weight}};
  Tensor forward(const Tensor& ids) { return head(embedding(ids)); }
};

struct WithBuffers : Module<WithBuffers> {
  WithBuffers() {
    register_parameter("scale", scale, ones({2}));
    register_parameter("absent", absent, Tensor());
    register_buffer("running", running, zeros({2}));
    register_buffer("scratch", scratch, zeros({2}), /*persistent=*/false);
    register_buffer("count", count, zeros({}, i64));
  }
  Tensor forward(const Tensor& x) { return x * scale + running; }
  Tensor scale, absent, running, scratch, count;
};

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

TEST(Module, NamesInOrderOfDeclaration) {
  Mlp net;
  EXPECT_EQ(names_of(net.named_parameters()), (Names{"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}));
  EXPECT_EQ(names_of(net.named_modules()), (Names{"", "fc1", "fc2"}));
  EXPECT_EQ(names_of(net.named_children()), (Names{"fc1", "fc2"}));
  EXPECT_EQ(names_of(net.state_dict()), (Names{"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}));
  for (const Tensor& p : net.parameters()) EXPECT_TRUE(p.requires_grad() && p.is_leaf());
  EXPECT_EQ(net(ones({7, 4})).shape(), (Shape{7, 2}));
}

TEST(Module, Nested) {
  struct Outer : Module<Outer> {
    Mlp body{this, "body"};
    ModuleList<Linear> layers{this, "layers"};
    Outer() {
      for (int64_t i = 0; i < 3; ++i) layers.emplace_back(LinearOptions{.in = 2, .out = 2, .bias = i == 1});
    }
    Tensor forward(Tensor x) {
      x = body(x);
      for (Linear& layer : layers) x = layer(x);
      return x;
    }
  };
  Outer net;
  EXPECT_EQ(names_of(net.named_parameters()),
            (Names{"body.fc1.weight", "body.fc1.bias", "body.fc2.weight", "body.fc2.bias", "layers.0.weight",
                   "layers.1.weight", "layers.1.bias", "layers.2.weight"}));
  EXPECT_EQ(net(ones({1, 4})).shape(), (Shape{1, 2}));
  EXPECT_THROW(net.layers[3], std::exception);
}

TEST(Module, NamesAreChecked) {
  struct Twice : Module<Twice> {
    Linear a{this, "same", {.in = 1, .out = 1}};
    Linear b{this, "same", {.in = 1, .out = 1}};
  };
  EXPECT_TEXT(error_of([] { Twice net; }), "same");
  struct Dotted : Module<Dotted> {
    Linear a{this, "a.b", {.in = 1, .out = 1}};
  };
  EXPECT_THROW(Dotted(), Error);
}

TEST(Module, TiedParametersAppearOnce) {
  Tied net;
  EXPECT_EQ(names_of(net.named_parameters()), (Names{"embedding.weight"}));
  EXPECT_EQ(names_of(net.state_dict()), (Names{"embedding.weight", "head.weight"}));
  EXPECT_TRUE(net.head.weight.is(net.embedding.weight));
  sum(net(tensor(std::vector<int64_t>{1}))).backward();
  // Both uses add to one gradient.
  const Tensor g = net.embedding.weight.grad();
  EXPECT_NE(sum(abs(g.select(0, 0))).item(), 0);
  net.to(f64);
  EXPECT_TRUE(net.head.weight.is(net.embedding.weight)) << "still tied";
  EXPECT_EQ(net.head.weight.dtype(), f64);
}

TEST(Module, BuffersAndAbsentParameters) {
  WithBuffers net;
  EXPECT_EQ(names_of(net.named_parameters()), (Names{"scale"}));
  EXPECT_EQ(names_of(net.named_buffers()), (Names{"running", "scratch", "count"}));
  EXPECT_EQ(names_of(net.state_dict()), (Names{"scale", "running", "count"}));
  for (const auto& [name, buffer] : net.named_buffers()) EXPECT_FALSE(buffer.requires_grad());
  for (auto& [name, slot] : net.buffer_slots())
    if (name == "running") *slot = full({2}, 3.0);
  EXPECT_EQ(net(zeros({2})).to_vector(), (Values{3, 3}));
  net.to(bf16);
  EXPECT_EQ(net.running.dtype(), bf16);
  EXPECT_EQ(net.count.dtype(), i64) << "integers stay";
}

TEST(StateDict, RoundTrip) {
  Mlp a, b;
  const Tensor x = ones({2, 4});
  EXPECT_NE(a(x).to_vector(), b(x).to_vector());
  const LoadReport report = b.load_state_dict(a.state_dict());
  EXPECT_TRUE(report.missing.empty() && report.unexpected.empty());
  EXPECT_EQ(a(x).to_vector(), b(x).to_vector());
  // The values were copied, and the state shares memory with its module.
  StateDict state = a.state_dict();
  EXPECT_FALSE(state.at("fc1.bias").requires_grad());
  state.at("fc1.bias").fill_(9);
  EXPECT_EQ(a.fc1.bias[0].item(), 9);
  EXPECT_NE(b.fc1.bias[0].item(), 9);
  // Another dtype is converted.
  StateDict wide;
  for (const auto& [name, tensor] : a.state_dict()) wide[name] = tensor.to(f64);
  b.load_state_dict(wide);
  EXPECT_EQ(b.fc1.bias.dtype(), f32);
  EXPECT_EQ(b.fc1.bias[0].item(), 9);
}

TEST(StateDict, ErrorsWriteNothing) {
  Mlp a, b;
  const Values before = b.fc1.weight.to_vector();
  StateDict state = a.state_dict();
  state.erase("fc2.bias");
  state["surplus"] = ones({1});
  const std::string text = error_of([&] { b.load_state_dict(state); });
  EXPECT_TEXT(text, "fc2.bias");
  EXPECT_TEXT(text, "surplus");
  EXPECT_EQ(b.fc1.weight.to_vector(), before);
  const LoadReport report = b.load_state_dict(state, /*strict=*/false);
  EXPECT_EQ(report.missing, Names{"fc2.bias"});
  EXPECT_EQ(report.unexpected, Names{"surplus"});
  EXPECT_EQ(b.fc1.weight.to_vector(), a.fc1.weight.to_vector());
  StateDict misshapen = a.state_dict();
  misshapen["fc2.weight"] = ones({2, 2});
  const std::string shapes = error_of([&] { b.load_state_dict(misshapen, false); });
  EXPECT_TEXT(shapes, "fc2.weight");
  EXPECT_TEXT(shapes, "f32[2, 3]");
  EXPECT_TEXT(shapes, "f32[2, 2]");
}

TEST(Module, Hooks) {
  Mlp net;
  Names order;
  HookHandle before = net.register_forward_pre_hook([&](ModuleBase&, std::span<const Tensor* const> inputs) {
    EXPECT_EQ(inputs.size(), 1u);
    EXPECT_EQ(inputs[0]->shape(), (Shape{1, 4}));
    order.push_back("before");
  });
  HookHandle inner =
      net.fc1.register_forward_hook([&](ModuleBase&, std::span<Tensor* const>) { order.push_back("fc1"); });
  HookHandle after = net.register_forward_hook([&](ModuleBase& module, std::span<Tensor* const> outputs) {
    EXPECT_EQ(&module, &net);
    order.push_back("after");
    *outputs[0] = *outputs[0] * 0;
  });
  EXPECT_EQ(net(ones({1, 4})).to_vector(), (Values{0, 0}));
  EXPECT_EQ(order, (Names{"before", "fc1", "after"}));
  after.remove();
  inner.remove();
  EXPECT_NE(net(ones({1, 4})).to_vector(), (Values{0, 0}));
  before.remove();
  net(ones({1, 4}));
  EXPECT_EQ(order, (Names{"before", "fc1", "after", "before"}));
}

TEST(Module, TrainAndEval) {
  struct Net : Module<Net> {
    Dropout drop{this, "drop", {.p = 0.5}};
    Tensor forward(const Tensor& x) { return drop(x); }
  };
  Net net;
  EXPECT_TRUE(net.training());
  net.eval();
  EXPECT_FALSE(net.drop.training());
  EXPECT_EQ(net(ones({100})).to_vector(), Values(100, 1.0));
  net.train();
  EXPECT_NE(net(ones({100})).to_vector(), Values(100, 1.0));
}

TEST(Module, FreezingAndZeroGrad) {
  Mlp net;
  net.requires_grad_(false);
  EXPECT_FALSE(net(ones({1, 4})).requires_grad());
  net.requires_grad_();
  sum(net(ones({1, 4}))).backward();
  EXPECT_TRUE(net.fc2.bias.grad().defined());
  net.zero_grad();
  EXPECT_FALSE(net.fc2.bias.grad().defined());
}

TEST(Layers, InitialValues) {
  manual_seed(1);
  Linear linear({.in = 100, .out = 200});
  EXPECT_LE(amax(abs(linear.weight)).item(), 0.1);
  EXPECT_GT(amax(abs(linear.weight)).item(), 0.099);
  EXPECT_LE(amax(abs(linear.bias)).item(), 0.1);
  Conv1D conv1d({.in = 100, .out = 200});
  EXPECT_EQ(conv1d.weight.shape(), (Shape{100, 200}));
  EXPECT_NEAR(weft::std(conv1d.weight).item(), 0.02, 0.001);
  EXPECT_EQ(amax(abs(conv1d.bias)).item(), 0);
  Embedding embedding({.count = 100, .dim = 100, .init_std = 0.5});
  EXPECT_NEAR(weft::std(embedding.weight).item(), 0.5, 0.02);
  LayerNorm norm({.dim = 8});
  EXPECT_EQ(norm.weight.to_vector(), Values(8, 1.0));
  EXPECT_EQ(norm.bias.to_vector(), Values(8, 0.0));
  Conv2d conv({.in = 4, .out = 8, .kernel = {3, 3}, .groups = 2});
  EXPECT_EQ(conv.weight.shape(), (Shape{8, 2, 3, 3}));
  EXPECT_LE(amax(abs(conv.weight)).item(), 1 / std::sqrt(18.0));
  // The same seed, the same net.
  manual_seed(1);
  EXPECT_EQ(Linear({.in = 100, .out = 200}).weight.to_vector(), linear.weight.to_vector());
}

TEST(Layers, ShapesAndErrors) {
  Linear linear({.in = 4, .out = 2, .bias = false});
  EXPECT_FALSE(linear.bias.defined());
  EXPECT_EQ(linear(ones({2, 3, 4})).shape(), (Shape{2, 3, 2}));
  EXPECT_EQ(linear(ones({4})).shape(), Shape{2});
  EXPECT_THROW(linear(ones({2, 3})), Error);
  EXPECT_THROW(Linear({.in = 3, .out = 2, .weight = ones({2, 4})}), Error);
  EXPECT_THROW(Linear({.in = -1, .out = 2}), Error);
  EXPECT_THROW(Conv2d({.in = 3, .out = 4, .groups = 2}), Error);
  EXPECT_EQ(LayerNorm({.dim = 4})(ones({2, 4})).shape(), (Shape{2, 4}));
  EXPECT_EQ(Linear({.in = 4, .out = 2, .dtype = f64})(ones({1, 4}, f64)).dtype(), f64);
}

TEST(Gpt2, NamesShapesAndErrors) {
  models::GPT2 gpt({.vocab_size = 11, .n_positions = 8, .n_embd = 6, .n_layer = 2, .n_head = 3});
  const Names names = names_of(gpt.named_parameters());
  EXPECT_EQ(names.front(), "transformer.wte.weight");
  EXPECT_EQ(names[1], "transformer.wpe.weight");
  EXPECT_EQ(names[4], "transformer.h.0.attn.c_attn.weight");
  EXPECT_EQ(names.back(), "transformer.ln_f.bias");
  EXPECT_EQ(names.size(), 2u + 2 * 12 + 2) << "the head is tied";
  EXPECT_TRUE(gpt.state_dict().contains("lm_head.weight"));
  const Tensor tokens = zeros({2, 8}, i64);
  EXPECT_EQ(gpt(tokens).shape(), (Shape{2, 8, 11}));
  EXPECT_THROW(gpt(zeros({2, 9}, i64)), Error);
  EXPECT_THROW(gpt(full({1, 2}, 11.0, i64)), Error);
  EXPECT_THROW(models::GPT2({.n_embd = 7, .n_head = 2}), Error);
  // What comes later does not change what came before.
  NoGrad guard;
  Tensor other = tokens.clone();
  other.select(1, 7).fill_(3);
  EXPECT_EQ(gpt(tokens).slice(1, 0, 7).to_vector(), gpt(other).slice(1, 0, 7).to_vector());
}

}  // namespace
}  // namespace weft::nn
