// The tape and the engine: accumulation, hooks, modes, versions, in-place rules, deep graphs, functions of functions.
#include "autograd/engine.h"

#include <gtest/gtest.h>

#include "autograd/functional.h"
#include "autograd/ops/ops.h"

namespace weft {
namespace {

using Values = std::vector<double>;

Tensor leaf(std::initializer_list<double> values) { return tensor(values, {.dtype = f64, .requires_grad = true}); }

Tensor numbers(std::initializer_list<double> values) { return tensor(values, {.dtype = f64}); }

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

TEST(Engine, GradientsAddUp) {
  Tensor x = leaf({1, 2});
  sum(x * x).backward();
  EXPECT_EQ(x.grad().to_vector(), (Values{2, 4}));
  sum(3 * x).backward();
  EXPECT_EQ(x.grad().to_vector(), (Values{5, 7}));
  x.set_grad({});
  EXPECT_FALSE(x.grad().defined());
  // Used several times in one graph.
  Tensor y = x * 2;
  sum(y * y + y + x).backward();
  EXPECT_EQ(x.grad().to_vector(), (Values{11, 19}));
}

TEST(Engine, TheCallersGradientIsNotWrittenTo) {
  Tensor x = leaf({1, 2}), seed = ones({2}, f64);
  x.clone().backward(seed);
  x.clone().backward(seed);
  EXPECT_EQ(x.grad().to_vector(), (Values{2, 2}));
  EXPECT_EQ(seed.to_vector(), (Values{1, 1}));
  // One gradient that reaches two leaves does not tie them together.
  Tensor a = leaf({1}), b = leaf({1});
  sum(a + b).backward();
  sum(a).backward();
  EXPECT_EQ(a.grad().item(), 2);
  EXPECT_EQ(b.grad().item(), 1);
}

TEST(Engine, SeedOfBackward) {
  Tensor x = leaf({1, 2});
  EXPECT_TEXT(error_of([&] { (x * 2).backward(); }), "[2]");
  (x * 2).backward(numbers({1, 10}));
  EXPECT_EQ(x.grad().to_vector(), (Values{2, 20}));
  EXPECT_THROW((x * 2).backward(ones({3}, f64)), Error);
  EXPECT_TEXT(error_of([&] { ones({}).backward(); }), "does not require a gradient");
  // A leaf is its own graph.
  Tensor single = leaf({3});
  single.backward();
  EXPECT_EQ(single.grad().item(), 1);
}

TEST(Engine, RetainGraph) {
  Tensor x = leaf({3});
  Tensor y = x * x;
  y.backward({}, {.retain_graph = true});
  y.backward();
  EXPECT_EQ(x.grad().item(), 12);
  const std::string text = error_of([&] { y.backward(); });
  EXPECT_TEXT(text, "retain_graph");
  EXPECT_TEXT(text, "mul");
}

TEST(Engine, CreateGraph) {
  Tensor x = leaf({2});
  const auto first = grad({x * x * x}, {x}, {}, {.create_graph = true});
  EXPECT_EQ(first[0].item(), 12);
  const auto second = grad({first[0]}, {x}, {}, {.create_graph = true});
  EXPECT_EQ(second[0].item(), 12);
  const auto third = grad({second[0]}, {x});
  EXPECT_EQ(third[0].item(), 6);
  EXPECT_FALSE(x.grad().defined());
  // Through grad(), too.
  sum(x * x).backward({}, {.create_graph = true});
  const Tensor dx = x.grad();
  EXPECT_TRUE(dx.requires_grad());
  EXPECT_EQ(grad({dx}, {x})[0].item(), 2);
  x.set_grad({});  // breaks the cycle x → grad → x
}

TEST(Engine, GradOfChosenInputs) {
  Tensor x = leaf({2}), w = leaf({3}), unused = leaf({1});
  Tensor hidden = x * w;
  const auto found = grad({hidden * hidden}, {hidden, w}, {}, {.retain_graph = true});
  EXPECT_EQ(found[0].item(), 12);
  EXPECT_EQ(found[1].item(), 24);
  EXPECT_FALSE(x.grad().defined());
  EXPECT_TEXT(error_of([&] { grad({x * w}, {unused}); }), "allow_unused");
  const auto partly = grad({x * w}, {x, unused}, {}, {.allow_unused = true});
  EXPECT_EQ(partly[0].item(), 3);
  EXPECT_FALSE(partly[1].defined());
  // An output that is an input.
  EXPECT_EQ(grad({hidden}, {hidden})[0].item(), 1);
}

TEST(Engine, SeveralOutputs) {
  Tensor x = leaf({3, 1, 2});
  const auto [values, indices] = sort(x);
  EXPECT_FALSE(indices.requires_grad());
  sum(values * numbers({1, 10, 100})).backward();
  EXPECT_EQ(x.grad().to_vector(), (Values{100, 1, 10}));
  x.set_grad({});
  const auto parts = split(x, 2);
  sum(parts[1]).backward();  // the other part is not used
  EXPECT_EQ(x.grad().to_vector(), (Values{0, 0, 1}));
  x.set_grad({});
  backward({sum(x), sum(x * x)});
  EXPECT_EQ(x.grad().to_vector(), (Values{7, 3, 5}));
}

TEST(Engine, TiedLeaf) {
  Tensor w = leaf({1, 2, 3, 4});
  const Tensor matrix = w.reshape({2, 2});
  const Tensor y = matmul(matmul(ones({1, 2}, f64), matrix), matrix.t());
  gradcheck(
      [](const Tensor& v) {
        const Tensor m = v.reshape({2, 2});
        return matmul(matmul(ones({1, 2}, f64), m), m.t());
      },
      w);
  EXPECT_EQ(y.shape(), (Shape{1, 2}));
}

TEST(GradMode, NoGradRecordsNothing) {
  Tensor x = leaf({2});
  {
    NoGrad guard;
    EXPECT_FALSE((x * 2).requires_grad());
    {
      EnableGrad inside;
      EXPECT_TRUE((x * 2).requires_grad());
    }
    EXPECT_FALSE((x * 2).requires_grad());
  }
  EXPECT_TRUE((x * 2).requires_grad());
  EXPECT_FALSE((ones({1}, f64) * 2).requires_grad());
  const Tensor cut = (x * x).detach();
  EXPECT_FALSE(cut.requires_grad());
  sum(cut * x).backward();
  EXPECT_EQ(x.grad().item(), 4);
  EXPECT_EQ(cut.storage().get(), cut.detach().storage().get()) << "detach shares the memory";
  EXPECT_THROW(ones({2}, i64).requires_grad_(), Error);
  EXPECT_THROW((x * 2).requires_grad_(false), Error);
}

TEST(Hooks, OfTensors) {
  Tensor x = leaf({1, 2});
  Tensor y = x * 3;
  std::vector<std::string> order;
  y.register_hook([&](const Tensor& g) {
    order.push_back("y");
    EXPECT_EQ(g.to_vector(), (Values{1, 1}));
    return g * 10;  // what it gives goes on
  });
  HookHandle handle = x.register_hook([&](const Tensor& g) {
    order.push_back("x");
    EXPECT_EQ(g.to_vector(), (Values{30, 30}));
    return Tensor();  // leaves it as it is
  });
  sum(y).backward({}, {.retain_graph = true});
  EXPECT_EQ(order, (std::vector<std::string>{"y", "x"}));
  EXPECT_EQ(x.grad().to_vector(), (Values{30, 30}));
  handle.remove();
  sum(y).backward();
  EXPECT_EQ(order, (std::vector<std::string>{"y", "x", "y"}));
  EXPECT_THROW(ones({2}).register_hook([](const Tensor& g) { return g; }), Error);
}

TEST(Hooks, AfterAccumulation) {
  Tensor x = leaf({1, 2});
  int calls = 0;
  HookHandle handle = x.register_post_accumulate_grad_hook([&](const Tensor& t) {
    ++calls;
    EXPECT_TRUE(t.is(x));
    EXPECT_EQ(t.grad().to_vector(), (Values{2, 2}));
    t.set_grad({});  // as an optimizer fused into backward does
  });
  const Tensor y = x * 1;
  sum(y + y).backward();
  EXPECT_EQ(calls, 1) << "once, when the whole gradient is there";
  EXPECT_FALSE(x.grad().defined());
  handle.remove();
  sum(x * 2).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_THROW((x * 2).register_post_accumulate_grad_hook([](const Tensor&) {}), Error);
}

TEST(Hooks, RetainGradAndErrorsInHooks) {
  Tensor x = leaf({2});
  Tensor y = x * x;
  y.retain_grad();
  (y * 3).backward();
  EXPECT_EQ(y.grad().item(), 3);
  EXPECT_EQ(x.grad().item(), 12);
  Tensor z = x * 2;
  z.register_hook([](const Tensor&) -> Tensor { fail(ErrorCode::invalid_argument, "hook", "no"); });
  EXPECT_TEXT(error_of([&] { z.backward(); }), "no");
  // The engine is usable afterwards.
  x.set_grad({});
  (x * 5).backward();
  EXPECT_EQ(x.grad().item(), 5);
}

TEST(Hooks, CallbackAtTheEnd) {
  Tensor x = leaf({1});
  bool ran = false;
  x.register_hook([&](const Tensor&) {
    queue_backward_callback([&] {
      EXPECT_EQ(x.grad().item(), 2);
      ran = true;
    });
    return Tensor();
  });
  (x * 2).backward();
  EXPECT_TRUE(ran);
  EXPECT_THROW(queue_backward_callback([] {}), Error);
}

TEST(Versions, StaleSavedTensorIsAnError) {
  Tensor x = leaf({1, 2});
  Tensor h = x * 2;
  const Tensor y = exp(h);  // saves its output
  const Tensor z = h * h;   // saves h
  h.fill_(0);
  const std::string text = error_of([&] { sum(z).backward(); });
  EXPECT_TEXT(text, "mul");
  EXPECT_TEXT(text, "version 1");
  EXPECT_TEXT(text, "version 0");
  sum(y).backward();  // h is not needed
  EXPECT_NE(x.grad().to_vector()[0], 0);
  // Views count with their base.
  Tensor base = ones({2}, f64), w = leaf({3, 4});
  const Tensor product = w * base;
  base.slice(0, 0, 1).fill_(5);
  EXPECT_TEXT(error_of([&] { sum(product).backward(); }), "changed in place");
}

TEST(InPlace, Rules) {
  Tensor x = leaf({1, 2});
  EXPECT_TEXT(error_of([&] { x.add_(ones({2}, f64)); }), "NoGrad");
  {
    NoGrad guard;
    x.add_(ones({2}, f64));
  }
  EXPECT_EQ(x.to_vector(), (Values{2, 3}));
  Tensor h = x * 1;
  const Tensor view = h.slice(0, 0, 1);
  EXPECT_TEXT(error_of([&] { h.mul_(2); }), "view");
  EXPECT_TEXT(error_of([&] { view.mul_(2); }), "view");
  EXPECT_THROW((x * 1).add_(ones({3, 2}, f64)), Error) << "the result does not fit";
}

TEST(InPlace, AreRecorded) {
  gradcheck(
      [](const Tensor& x) {
        Tensor y = x * 1;
        y.add_(x * x, 2);
        return y;
      },
      numbers({1, 2, 3}));
  gradcheck(
      [](const Tensor& x) {
        Tensor y = x * 2;
        y.mul_(exp(x));
        return y;
      },
      numbers({1, 2, 3}));
  gradcheck(
      [](const Tensor& x) {
        Tensor y = x * 2;
        y.mul_(3);
        return y;
      },
      numbers({1, -2, 0}));
  gradcheck(
      [](const Tensor& x) {
        Tensor y = zeros({3}, f64);
        y.copy_(square(x));
        return y;
      },
      numbers({1, 2, 3}));
  gradcheck(
      [](const Tensor& x) {
        Tensor y = square(x);
        y.fill_(1);
        return y + x;
      },
      numbers({1, 2, 3}));
  gradcheck(
      [](const Tensor& x) {
        Tensor y = zeros({2, 3}, f64);
        y.add_(x);
        return square(y);
      },
      numbers({1, 2, 3}));
  gradcheck(
      [](const Tensor& x) {
        Tensor y = x * 2;
        y.mul_(y);
        return y;
      },
      numbers({1, -2, 3}));
  Tensor x = leaf({1, 2});
  Tensor factor = x * 1, product = x * 1;
  product.mul_(factor);
  factor.mul_(2);
  EXPECT_TEXT(error_of([&] { sum(product).backward(); }), "changed in place");
  // Without history the memory is that of the tensor and of its views.
  Tensor t = zeros({2, 2});
  t.slice(0, 1, 2).fill_(4);
  EXPECT_EQ(t.to_vector(), (Values{0, 0, 4, 4}));
  t.t().copy_(tensor({1, 2, 3, 4}).reshape({2, 2}));
  EXPECT_EQ(t.to_vector(), (Values{1, 3, 2, 4}));
  t.copy_(t.t());  // overlapping
  EXPECT_EQ(t.to_vector(), (Values{1, 2, 3, 4}));
}

TEST(DeepGraph, ChainOf100000) {
  Tensor x = leaf({1});
  Tensor y = x;
  for (int i = 0; i < 100000; ++i) y = y + 1;
  y.backward();
  EXPECT_EQ(x.grad().item(), 1);
  y = x;
  for (int i = 0; i < 100000; ++i) y = y * 1.0;
  y = {};  // freed without recursion, backward never ran
  // Wide and deep: everything used twice.
  y = x;
  for (int i = 0; i < 1000; ++i) y = 0.5 * (y + y);
  x.set_grad({});
  y.backward();
  EXPECT_EQ(x.grad().item(), 1);
}

TEST(Checkpoint, SameGradientsAndRandomNumbers) {
  const auto block = [](const std::vector<Tensor>& in) {
    return gelu(matmul(dropout(in[0], 0.5), in[1])) + rand({3, 3}, f64) * in[0];
  };
  const auto run = [&](bool with_checkpoint) {
    manual_seed(5);
    Tensor x = numbers({1, 2, 3, 4, 5, 6, 7, 8, 9}).reshape({3, 3}).requires_grad_();
    Tensor w = (eye(3, {.dtype = f64}) * 0.1).detach().requires_grad_();
    Tensor y = with_checkpoint ? checkpoint(block, {x, w}) : block({x, w});
    y = y * rand({3, 3}, f64);  // the draw after the block is the same, too
    sum(y).backward();
    return std::vector<Values>{y.detach().to_vector(), x.grad().to_vector(), w.grad().to_vector(),
                               Values{static_cast<double>(default_generator().next_u32())}};
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(Checkpoint, ParametersInsideAndNesting) {
  Tensor w = leaf({3});
  const auto inner = [&](const std::vector<Tensor>& in) { return in[0] * w; };
  const auto outer = [&](const std::vector<Tensor>& in) { return checkpoint(inner, {checkpoint(inner, in)}); };
  Tensor plain = ones({1}, f64);  // requires no gradient
  checkpoint(outer, {plain}).backward();
  EXPECT_EQ(w.grad().item(), 6);
  int runs = 0;
  Tensor x = leaf({2});
  const Tensor y = checkpoint(
      [&](const std::vector<Tensor>& in) {
        ++runs;
        return square(in[0]);
      },
      {x});
  EXPECT_EQ(runs, 1);
  y.backward();
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(x.grad().item(), 4);
  {
    NoGrad guard;
    EXPECT_FALSE(checkpoint(outer, {x}).requires_grad());
  }
}

TEST(Functional, ValueAndGrad) {
  Tensor x = numbers({1, 2});
  const auto [value, grads] =
      value_and_grad([](const std::vector<Tensor>& in) { return sum(in[0] * in[0] * in[1]); }, {x, full({}, 3.0, f64)});
  EXPECT_EQ(value.item(), 15);
  EXPECT_FALSE(value.requires_grad());
  EXPECT_EQ(grads[0].to_vector(), (Values{6, 12}));
  EXPECT_EQ(grads[1].item(), 5);
  EXPECT_FALSE(x.requires_grad());
  EXPECT_THROW(value_and_grad([](const std::vector<Tensor>& in) { return in[0]; }, {x}), Error);
}

Tensor my_silu(const Tensor& x) {
  return custom_op("my_silu", {x}, x * sigmoid(x), [x](const Tensor& dy) {
    Tensor s = sigmoid(x);
    return std::vector{dy * s * (1 + x * (1 - s))};
  });
}

TEST(Functional, CustomOp) {
  Generator generator(1);
  gradcheck(my_silu, randn({4, 5}, {.dtype = f64}, &generator));
  gradgradcheck([](const std::vector<Tensor>& in) { return my_silu(in[0]); },
                {randn({4, 5}, {.dtype = f64}, &generator)});
  const auto wrong = [](const Tensor& x) {
    return custom_op("wrong", {x}, x * x, [x](const Tensor& dy) { return std::vector{dy * x}; });
  };
  const std::string text = error_of([&] { gradcheck(wrong, numbers({1, 2})); });
  EXPECT_TEXT(text, "gradcheck");
  EXPECT_TEXT(text, "element 0");
  const auto misshapen = [](const Tensor& x) {
    return custom_op("misshapen", {x}, x * x, [](const Tensor& dy) { return std::vector{sum(dy)}; });
  };
  Tensor x = leaf({1, 2});
  EXPECT_TEXT(error_of([&] { sum(misshapen(x)).backward(); }), "misshapen");
}

TEST(Functional, NestedBackward) {
  // A gradient inside a backward function.
  Tensor x = leaf({3});
  const Tensor y = custom_op("square_by_grad", {x}, square(x.detach()), [x](const Tensor& dy) {
    EnableGrad enable;
    Tensor again = x.detach().requires_grad_();
    return std::vector{dy * grad({square(again)}, {again})[0]};
  });
  y.backward();
  EXPECT_EQ(x.grad().item(), 6);
}

TEST(Meta, ShapesOfTheMainOps) {
  const auto meta = [](const Shape& shape) { return empty(shape, {.device = meta_device, .requires_grad = true}); };
  const int64_t n = 1 << 16;
  const Tensor x = meta({8, n, 512}), w = meta({1024, 512}), b = meta({1024});
  const Tensor y = linear(x, w, b);
  EXPECT_EQ(y.shape(), (Shape{8, n, 1024}));
  EXPECT_EQ(softmax(y, -1).shape(), y.shape());
  EXPECT_EQ(layer_norm(y, {1024}, b, b).shape(), y.shape());
  EXPECT_EQ(rms_norm(y, {1024}, b).shape(), y.shape());
  EXPECT_EQ(cat({y, y}, 1).shape(), (Shape{8, 2 * n, 1024}));
  EXPECT_EQ(conv2d(meta({64, 3, 224, 224}), meta({8, 3, 7, 7}), {}, {.stride = {2, 2}, .padding = {3, 3}}).shape(),
            (Shape{64, 8, 112, 112}));
  EXPECT_EQ(max_pool2d(meta({64, 3, 224, 224})).shape(), (Shape{64, 3, 112, 112}));
  const Tensor ids = empty({8, n}, {.dtype = i64, .device = meta_device});
  EXPECT_EQ(embedding(w, ids).shape(), (Shape{8, n, 512}));
  const Tensor q = meta({8, 16, n, 64});
  EXPECT_EQ(scaled_dot_product_attention(q, q, q, {.causal = true}).shape(), q.shape());
  const Tensor loss = cross_entropy(y.flatten(0, 1), ids.flatten());
  EXPECT_EQ(loss.shape(), Shape{});
  loss.backward();
  EXPECT_EQ(w.grad().shape(), w.shape());
  EXPECT_EQ(x.grad().shape(), x.shape());
  EXPECT_THROW(loss.item(), Error) << "there is no value";
}

}  // namespace
}  // namespace weft
