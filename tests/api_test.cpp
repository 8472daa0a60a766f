// Programs as users write them, whole: the interface must not become longer than this.
#include <gtest/gtest.h>
#include <weft/weft.h>

#include <cmath>
#include <sstream>

using namespace weft;

namespace {

// The message of the error that f throws.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Api, Tensors) {
  manual_seed(0);
  Tensor x = randn({2, 3}, {.requires_grad = true});
  Tensor y = sum(exp(2 * x.slice(1, 0, 2)));
  y.backward();
  const std::string text = fmt::format("{}\n", x.grad());
  EXPECT_EQ(text.substr(0, 2), "[[") << text;
  EXPECT_NE(text.find("0.        ]"), std::string::npos) << text;  // the column that was not used
  std::ostringstream stream;
  stream << x.grad() << '\n';
  EXPECT_EQ(stream.str(), text);

  auto view = x.view<float>();
  EXPECT_EQ(view(1, 2), x[1][2].item<float>());
  auto gradient = x.grad().view<float>();
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 2; ++j) EXPECT_NEAR(gradient(i, j), 2 * std::exp(2 * view(i, j)), 1e-5);
    EXPECT_EQ(gradient(i, 2), 0);
  }
}

struct Mlp : nn::Module<Mlp> {
  nn::Linear fc1{this, "fc1", {.in = 64, .out = 128}};
  nn::Linear fc2{this, "fc2", {.in = 128, .out = 10}};
  Tensor forward(const Tensor& x) { return fc2(relu(fc1(x))); }
};

TEST(Api, AModuleNamesItsParameters) {
  Mlp net;
  std::vector<std::string> names;
  for (auto& [name, p] : net.named_parameters()) {
    names.push_back(name);
    EXPECT_TRUE(p.requires_grad());
  }
  EXPECT_EQ(names, (std::vector<std::string>{"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}));
}

TEST(Api, TrainingOnOneDevice) {
  if (!std::filesystem::exists(data::data_directory() / "digits.csv")) GTEST_SKIP() << "./dev data gets digits.csv";
  manual_seed(1);
  Mlp net;
  double first = 0, last = 0;
  auto opt = optim::AdamW(net.parameters(), {.lr = 1e-3});
  for (auto [x, y] : data::DataLoader(data::digits("train"), {.batch_size = 64, .shuffle = true})) {
    Tensor loss = nn::cross_entropy(net(x), y);
    loss.backward();
    opt.step();
    opt.zero_grad();
    last = loss.item();
    if (first == 0) first = last;
  }
  EXPECT_LT(last, first);
  const std::string file = ::testing::TempDir() + "weft_api_mlp.safetensors";
  save_safetensors(net.state_dict(), file);
  Mlp other;
  other.load_state_dict(load_safetensors(file).tensors);
  EXPECT_EQ(other.fc2.weight.to_vector(), net.fc2.weight.to_vector());
  std::filesystem::remove(file);
}

TEST(Api, TheSameOnManyProcesses) {
  run_ranks(2, [](ProcessGroup ranks) {
    set_seed(1);
    Mlp net;
    optim::AdamW opt(net.parameters(), {.lr = 1e-3});
    optim::LambdaLR sched(opt, [](int64_t) { return 1.0; });
    // The same four samples in every batch, so that the loss must fall from one update to the next.
    const Tensor samples = randn({4, 64});
    data::DataLoader dl(data::TensorDataset{{"input", cat({samples, samples, samples, samples, samples, samples})},
                                            {"target", zeros({24}, i64)}},
                        {.batch_size = 4});

    Accelerator accelerator({.gradient_accumulation_steps = 2, .group = ranks});
    auto [model, optimizer, loader, scheduler] = accelerator.prepare(net, opt, dl, sched);
    double first = 0, last = 0;
    for (auto& batch : loader) {
      auto step = accelerator.accumulate(model);
      Tensor loss = nn::cross_entropy(model(batch["input"]), batch["target"]);
      accelerator.backward(loss);
      if (accelerator.sync_gradients()) accelerator.clip_grad_norm_(model.parameters(), 1.0);
      optimizer.step();
      scheduler.step();
      optimizer.zero_grad();
      last = loss.item();
      if (first == 0) first = last;
    }
    EXPECT_LT(last, first);
  });
}

TEST(Api, WithoutTheAccelerator) {
  EXPECT_EQ(ProcessGroup::threads(1).front().size(), 1);
  run_ranks(4, [](ProcessGroup group) {
    Mlp net;
    ddp::DistributedDataParallel ddp(net, group, {.bucket_cap_mb = 25});
    Tensor t = full({3}, group.rank());
    Work w = group.all_reduce(t, Reduce::mean);
    w.wait();
    EXPECT_EQ(t.to_vector(), std::vector<double>(3, 1.5));

    sum(net(full({1, 64}, group.rank()))).backward();
    Tensor all = group.all_gather(net.fc1.bias.grad().unsqueeze(0));
    for (int64_t rank = 1; rank < 4; ++rank) EXPECT_EQ(all[rank].to_vector(), all[0].to_vector());
  });
}

Tensor my_silu(const Tensor& x) {
  return custom_op("my_silu", {x}, x * sigmoid(x), [x](const Tensor& dy) {
    Tensor s = sigmoid(x);
    return std::vector{dy * s * (1 + x * (1 - s))};
  });
}

TEST(Api, AnOpOfOnesOwn) {
  gradcheck(my_silu, randn({4, 5}, f64));
  Tensor x = randn({3}, {.requires_grad = true});
  EXPECT_STREQ(my_silu(x).grad_fn()->name, "my_silu");
  EXPECT_LT(sum(abs(my_silu(x) - silu(x))).item(), 1e-6);
}

TEST(Api, ErrorsSayWhatWasExpected) {
  Tensor lhs = ones({8, 64}), rhs = ones({32, 10});
  EXPECT_EQ(error_of([&] { matmul(lhs, rhs); }),
            "weft::Error [matmul] inner dimensions differ: lhs f32[8, 64] × rhs f32[32, 10]; "
            "expected rhs.size(0) == 64");
  // Every wrong shape is an error that names the op, and never a crash.
  Mlp net;
  const std::vector<std::pair<std::string, std::function<void()>>> cases = {
      {"linear",
       [&] {
         net(ones({2, 63}));
       }},
      {"linear", [&] { net(ones({64}, i64)); }},
      {"add",
       [&] {
         ones({2, 3}) + ones({2, 4});
       }},
      {"reshape",
       [&] {
         ones({2, 3}).reshape({4});
       }},
      {"cat",
       [&] {
         cat({ones({2, 3}), ones({2, 4})}, 0);
       }},
      {"cross_entropy",
       [&] {
         nn::cross_entropy(ones({2, 10}), zeros({3}, i64));
       }},
      {"cross_entropy",
       [&] {
         nn::cross_entropy(ones({2, 10}), full({2}, 10, i64));
       }},
      {"embedding",
       [&] {
         embedding(ones({4, 2}), full({1}, 4, i64));
       }},
      {"conv2d",
       [&] {
         conv2d(ones({1, 2, 8, 8}), ones({4, 3, 3, 3}));
       }},
      {"max_pool2d",
       [&] {
         max_pool2d(ones({1, 1, 1, 1}));
       }},
      {"layer_norm",
       [&] {
         layer_norm(ones({2, 3}), {4});
       }},
      {"attention",
       [&] {
         scaled_dot_product_attention(ones({1, 1, 2, 4}), ones({1, 1, 2, 5}), ones({1, 1, 2, 4}));
       }},
      {"slice", [&] { ones({2}).slice(1, 0, 1); }},
      {"select", [&] { ones({2}).select(0, 2); }},
      {"backward", [&] { ones({2}, {.requires_grad = true}).backward(); }},
      {"item", [&] { ones({2}).item(); }},
      {"load_state_dict", [&] { net.load_state_dict({}); }},
  };
  for (const auto& [op, wrong] : cases) {
    const std::string text = error_of(wrong);
    EXPECT_EQ(text.rfind("weft::Error [", 0), 0u) << op << ": " << text;
    EXPECT_NE(text.substr(0, text.find(']')).find(op), std::string::npos) << op << ": " << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  }
}

}  // namespace
