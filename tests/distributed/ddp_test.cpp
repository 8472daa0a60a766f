// DistributedDataParallel on ranks that are threads.
#include "distributed/ddp/ddp.h"

#include <fmt/format.h>

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "autograd/functional.h"
#include "autograd/ops/ops.h"
#include "nn/nn.h"
#include "optim/optim.h"

namespace weft::ddp {
namespace {

using namespace std::chrono_literals;
constexpr double kByte = 1.0 / (1024 * 1024);  // in MiB

void on_ranks(int size, const std::function<void(ProcessGroup)>& f) { run_ranks(size, f, {.timeout = 20s}); }

// The text of what f throws, "" for nothing.
std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void expect_near(const Tensor& got, const Tensor& want, double relative = 1e-6) {
  ASSERT_EQ(got.shape(), want.shape());
  const std::vector<double> a = got.to_vector(), b = want.to_vector();
  double largest = 0;
  for (const double value : b) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], relative * largest) << "element " << i;
}

// Whether all ranks have the same bits.
void expect_same_on_ranks(const ProcessGroup& group, const Tensor& x) {
  const Tensor all = group.all_gather(x.detach().reshape({1, -1}));
  for (int rank = 1; rank < group.size(); ++rank)
    EXPECT_EQ(all[0].to_vector(), all[rank].to_vector()) << "rank " << rank;
}

struct Mlp : nn::Module<Mlp> {
  explicit Mlp(int64_t hidden = 16) : width(hidden) {}
  int64_t width;
  nn::Linear fc1{this, "fc1", {.in = 8, .out = width}};
  nn::Linear fc2{this, "fc2", {.in = width, .out = width}};
  nn::Linear fc3{this, "fc3", {.in = width, .out = 4}};
  Tensor forward(const Tensor& x) { return fc3(tanh(fc2(tanh(fc1(x))))); }
};

struct Data {
  Tensor x, y;
};
Data global_batch(uint64_t seed, int64_t rows = 12) {
  Generator generator(seed);
  return {randn({rows, 8}, {}, &generator), randn({rows, 4}, {}, &generator)};
}
Data part_of(const Data& all, const ProcessGroup& group) {
  const int64_t rows = all.x.size(0) / group.size();
  return {all.x.narrow(0, group.rank() * rows, rows), all.y.narrow(0, group.rank() * rows, rows)};
}

// The parameters after some steps of SGD with momentum on the global batches, by a plain loop.
std::vector<Tensor> train(Mlp& net, const ProcessGroup& group, int steps) {
  optim::SGD optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  for (int step = 0; step < steps; ++step) {
    const Data mine = part_of(global_batch(static_cast<uint64_t>(step)), group);
    mse_loss(net(mine.x), mine.y).backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  return net.parameters();
}

TEST(Ddp, RanksTogetherEqualOneRank) {
  std::vector<Tensor> alone;
  on_ranks(1, [&](ProcessGroup group) {
    manual_seed(1);
    Mlp net;
    alone = train(net, group, 6);
  });
  for (const int size : {1, 2, 3, 4}) {
    on_ranks(size, [&](ProcessGroup group) {
      manual_seed(static_cast<uint64_t>(group.rank()) + 1);  // rank 0's parameters count
      Mlp net;
      DistributedDataParallel ddp(net, group, {.bucket_cap_mb = 256 * kByte});
      const std::vector<Tensor> together = train(net, group, 6);
      for (size_t i = 0; i < alone.size(); ++i) {
        expect_near(together[i], alone[i], 1e-5);
        expect_same_on_ranks(group, together[i]);
      }
    });
  }
}

// Gradients of one backward on 3 ranks, and their norm.
std::pair<std::vector<Tensor>, double> gradients_with(Options options, size_t& buckets) {
  std::pair<std::vector<Tensor>, double> result;
  on_ranks(3, [&](ProcessGroup group) {
    manual_seed(1);
    Mlp net;
    DistributedDataParallel ddp(net, group, options);
    const Data mine = part_of(global_batch(3), group);
    for (int i = 0; i < 2; ++i) {  // before and after buckets are rebuilt
      net.zero_grad();
      mse_loss(net(mine.x), mine.y).backward();
    }
    if (group.rank() != 0) return;
    buckets = ddp.bucket_bytes().size();
    for (const Tensor& parameter : net.parameters()) result.first.push_back(parameter.grad().clone());
    result.second = optim::grad_norm(net.parameters());
  });
  return result;
}

TEST(Cases, C44_NormDoesNotDependOnBuckets) {
  size_t one = 0, some = 0, each = 0;
  const auto [large, norm] = gradients_with({.bucket_cap_mb = 25}, one);
  const auto [small, small_norm] = gradients_with({.bucket_cap_mb = 1024 * kByte}, some);
  const auto [tiny, tiny_norm] = gradients_with({.bucket_cap_mb = kByte}, each);
  EXPECT_EQ(one, 1u);
  EXPECT_GT(some, 1u);
  EXPECT_EQ(each, 6u);
  EXPECT_NEAR(small_norm, norm, 1e-6 * norm);
  EXPECT_NEAR(tiny_norm, norm, 1e-6 * norm);
  for (size_t i = 0; i < large.size(); ++i) {  // ranks are added in the same order in all of them
    EXPECT_EQ(large[i].to_vector(), small[i].to_vector());
    EXPECT_EQ(large[i].to_vector(), tiny[i].to_vector());
  }
}

TEST(Ddp, BucketsFillInReverseOrderAndByDtype) {
  const std::vector<Parameter> parameters = {
      {"a", zeros({100})}, {"b", zeros({10}, f64)}, {"c", zeros({10})}, {"d", zeros({30})}, {"e", zeros({1}, f64)}};
  const std::vector<size_t> reverse = {4, 3, 2, 1, 0};
  using Buckets = std::vector<std::vector<size_t>>;
  EXPECT_EQ(assign_buckets(parameters, reverse, 100, 1000), (Buckets{{3}, {4, 1}, {2, 0}}));
  EXPECT_EQ(assign_buckets(parameters, reverse, 1, 1), (Buckets{{4}, {3}, {2}, {1}, {0}}));
  EXPECT_EQ(assign_buckets(parameters, reverse, 1 << 20, 1 << 20), (Buckets{{4, 1}, {3, 2, 0}}));
}

// --- unused parameters ------------------------------------------------------------------------------------------

struct Pair : nn::Module<Pair> {
  Pair() {
    register_parameter("nn1", nn1, ones({1}));
    register_parameter("nn2", nn2, ones({1}));
  }
  Tensor forward(const Tensor& x, bool use1, bool use2) {
    Tensor y = zeros({1});
    if (use1) y = y + nn1 * x;
    if (use2) y = y + nn2 * x;
    return y;
  }
  Tensor nn1, nn2;
};

TEST(Cases, C37_NoSyncReducesWhatOnlyAnEarlierPassUsed) {
  on_ranks(2, [](ProcessGroup group) {
    Pair net;
    DistributedDataParallel ddp(net, group, {.find_unused_parameters = true});
    for (int window = 0; window < 3; ++window) {
      const Tensor x = full({1}, group.rank() == 0 ? 1 : 3);
      {
        auto guard = ddp.no_sync();
        net(x, true, false).backward();
        EXPECT_EQ(net.nn1.grad().item(), x.item());
      }
      net(x, false, true).backward();
      EXPECT_EQ(net.nn1.grad().item(), 2);
      EXPECT_EQ(net.nn2.grad().item(), 2);
      net.zero_grad();
    }
  });
}

TEST(Cases, C38_UnusedOnAllRanksHasNoGradient) {
  on_ranks(2, [](ProcessGroup group) {
    Pair net;
    DistributedDataParallel ddp(net, group, {.find_unused_parameters = true});
    optim::SGD optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1});
    for (int step = 0; step < 3; ++step) {
      net(ones({1}), false, true).backward();
      EXPECT_FALSE(net.nn1.grad().defined());
      optimizer.step();
      optimizer.zero_grad();
      EXPECT_EQ(net.nn1.item(), 1.0);
    }
    // Unused on rank 0 only: the other's gradient, divided by two.
    net(full({1}, 5), group.rank() == 1, true).backward();
    EXPECT_EQ(net.nn1.grad().item(), 2.5);
    EXPECT_EQ(net.nn2.grad().item(), 5);
  });
}

TEST(Ddp, UnusedParametersAreTheSameErrorOnEveryRank) {
  on_ranks(3, [](ProcessGroup group) {
    Pair net;
    DistributedDataParallel ddp(net, group);
    for (int round = 0; round < 2; ++round) {
      const std::string error = error_of([&] { net(ones({1}), group.rank() != 1, true).backward(); });
      EXPECT_NE(error.find("nn1 (rank 1)"), std::string::npos) << error;
      EXPECT_NE(error.find("find_unused_parameters"), std::string::npos) << error;
      EXPECT_EQ(error.find("nn2"), std::string::npos) << error;
      net.zero_grad();
      // And it goes on after that.
      net(full({1}, group.rank()), true, true).backward();
      EXPECT_EQ(net.nn1.grad().item(), 1);
      net.zero_grad();
    }
  });
}

// A rank whose loss does not depend on the module runs none of its hooks; the others wait for it.
TEST(Ddp, ABackwardThatReachesNoParameterIsAnErrorThatNamesTheRank) {
  for (const bool find_unused : {false, true}) {
    on_ranks(3, [&](ProcessGroup group) {
      Pair net;
      const Tensor elsewhere = ones({1}).requires_grad_();
      DistributedDataParallel ddp(net, group, {.find_unused_parameters = find_unused});
      const std::string error = error_of([&] {
        for (int step = 0; step < 2; ++step) {
          const Tensor loss = net(ones({1}), true, true);
          (group.rank() == 1 && step == 0 ? sum(elsewhere) : loss).backward();
        }
      });
      EXPECT_NE(error.find("in round 1, rank 1 calls all_reduce mean"), std::string::npos) << error;
      EXPECT_NE(error.find("in round 2; a round is one backward"), std::string::npos) << error;
    });
  }
}

TEST(Ddp, ARankThatLeavesInsteadOfReducingIsAnError) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THROW(on_ranks(2,
                        [](ProcessGroup group) {
                          Pair net;
                          const Tensor elsewhere = ones({1}).requires_grad_();
                          DistributedDataParallel ddp(net, group);
                          const Tensor loss = net(ones({1}), true, true);
                          (group.rank() == 1 ? sum(elsewhere) : loss).backward();
                        }),
               Error);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
}

// Another model's backward between forward and backward, or instead of it, is no fault where all ranks do the same.
TEST(Ddp, AnotherModelsBackwardInBetween) {
  on_ranks(2, [](ProcessGroup group) {
    Pair net, other;
    DistributedDataParallel ddp(net, group);
    DistributedDataParallel ddp_other(other, group);
    for (int step = 0; step < 4; ++step) {
      const Tensor x = full({1}, group.rank() == 0 ? 1 : 3);
      const Tensor loss = net(x, true, true);
      other(x, true, true).backward();
      EXPECT_EQ(other.nn1.grad().item(), 2);
      if (step != 1) {
        loss.backward();
        EXPECT_EQ(net.nn1.grad().item(), 2);
      }
      net.zero_grad();
      other.zero_grad();
    }
  });
}

TEST(Ddp, AFailedBackwardLeavesNothingBehind) {
  on_ranks(2, [](ProcessGroup group) {
    manual_seed(1);
    Mlp net;
    DistributedDataParallel ddp(net, group, {.bucket_cap_mb = kByte});
    const Data mine = part_of(global_batch(1), group);
    HookHandle hook =
        net.fc1.weight.register_hook([](const Tensor&) -> Tensor { fail(ErrorCode::internal, "test", "stop"); });
    const Tensor loss = mse_loss(net(mine.x), mine.y);
    EXPECT_NE(error_of([&] { loss.backward(); }), "");
    hook.remove();
    net.zero_grad();
    mse_loss(net(mine.x), mine.y).backward();
    for (const Tensor& parameter : net.parameters()) expect_same_on_ranks(group, parameter.grad());
  });
}

// --- parameters that are special --------------------------------------------------------------------------------

struct Tied : nn::Module<Tied> {
  nn::Linear in{this, "in", {.in = 8, .out = 8}};
  nn::Linear frozen{this, "frozen", {.in = 8, .out = 8}};
  nn::Linear out{this, "out", {.in = 8, .out = 8, .bias = false, .weight = in.weight}};
  Tensor forward(const Tensor& x) { return out(tanh(frozen(tanh(in(x))))); }
};

TEST(Ddp, TiedAndFrozenParameters) {
  const auto gradients = [](const ProcessGroup& group, bool wrapped) {
    manual_seed(1);
    Tied net;
    net.frozen.requires_grad_(false);
    const Tensor before = net.frozen.weight.clone();
    std::optional<DistributedDataParallel> ddp;
    if (wrapped) ddp.emplace(net, group, Options{.bucket_cap_mb = kByte});
    const Data mine = part_of(global_batch(2), group);
    std::vector<Tensor> result;
    for (int step = 0; step < 3; ++step) {
      net.zero_grad();
      mean(net(mine.x) * net(mine.x)).backward();
    }
    EXPECT_FALSE(net.frozen.weight.grad().defined());
    EXPECT_EQ(net.frozen.weight.to_vector(), before.to_vector());
    for (const Tensor& parameter : net.parameters())
      if (parameter.requires_grad()) result.push_back(parameter.grad().clone());
    return result;
  };
  std::vector<Tensor> alone;
  on_ranks(1, [&](ProcessGroup group) { alone = gradients(group, false); });
  ASSERT_EQ(alone.size(), 2u);
  on_ranks(3, [&](ProcessGroup group) {
    const std::vector<Tensor> together = gradients(group, true);
    ASSERT_EQ(together.size(), alone.size());
    for (size_t i = 0; i < alone.size(); ++i) expect_near(together[i], alone[i], 1e-5);
  });
}

struct Mixed : nn::Module<Mixed> {
  Mixed() {
    register_parameter("a", a, ones({3}));
    register_parameter("b", b, ones({5}, f64));
    register_parameter("c", c, ones({2}, bf16));
    register_parameter("d", d, ones({7}));
    register_parameter("e", e, ones({4}, f64));
  }
  Tensor forward(double factor) {
    return factor * (sum(a).to(f64) + sum(b) + sum(c).to(f64) + sum(d).to(f64) + sum(e));
  }
  Tensor a, b, c, d, e;
};

TEST(Ddp, MixedDtypes) {
  for (const double cap : {kByte, 16 * kByte, 25.0}) {
    on_ranks(4, [&](ProcessGroup group) {
      Mixed net;
      DistributedDataParallel ddp(net, group, {.bucket_cap_mb = cap});
      for (int step = 0; step < 3; ++step) {
        net.zero_grad();
        net(group.rank()).backward();
        for (const auto& [name, parameter] : net.named_parameters()) {
          EXPECT_EQ(parameter.grad().dtype(), parameter.dtype()) << name;
          for (const double value : parameter.grad().to_vector()) EXPECT_EQ(value, 1.5) << name;
        }
      }
    });
  }
}

std::string order_of(const DistributedDataParallel& ddp) {
  std::string text;
  const auto names = ddp.bucket_names();
  for (size_t i = 0; i < names.size(); ++i)
    text += fmt::format("{} {};", fmt::join(names[i], ","), ddp.bucket_bytes()[i]);
  return text;
}

TEST(Cases, C43_CollectivesComeInOneOrder) {
  std::mutex mutex;
  std::vector<std::string> orders;
  on_ranks(4, [&](ProcessGroup group) {
    for (int attempt = 0; attempt < 100; ++attempt) {
      // Other addresses on every rank and in every round.
      std::vector<Tensor> holes;
      for (int i = 0; i < (group.rank() * 7 + attempt * 3) % 11; ++i) holes.push_back(empty({1 + i * 97}));
      Mixed net;
      DistributedDataParallel ddp(net, group, {.bucket_cap_mb = 16 * kByte});
      for (int step = 0; step < 2; ++step) net(1).backward();  // a mismatch would throw
      std::lock_guard lock(mutex);
      orders.push_back(order_of(ddp));
    }
  });
  ASSERT_EQ(orders.size(), 400u);
  for (const std::string& order : orders) EXPECT_EQ(order, orders[0]);
}

struct Branches : nn::Module<Branches> {
  nn::Linear a{this, "a", {.in = 8, .out = 4}};
  nn::Linear b{this, "b", {.in = 8, .out = 4}};
  nn::Linear c{this, "c", {.in = 8, .out = 4}};
  // Backward meets the branches in another order on every rank.
  Tensor forward(const Tensor& x, int first) {
    nn::Linear* layers[] = {&a, &b, &c};
    Tensor y = (*layers[first % 3])(x);
    for (int i = 1; i < 3; ++i) y = y + (*layers[(first + i) % 3])(x);
    return y;
  }
};

TEST(Cases, C43_RebuiltBucketsAreThoseOfRankZero) {
  on_ranks(3, [](ProcessGroup group) {
    manual_seed(1);
    Branches net;
    DistributedDataParallel ddp(net, group, {.bucket_cap_mb = kByte});
    const Data mine = part_of(global_batch(1), group);
    const std::string before = order_of(ddp);
    for (int step = 0; step < 3; ++step) {
      net.zero_grad();
      mse_loss(net(mine.x, group.rank()), mine.y).backward();
      for (const Tensor& parameter : net.parameters()) expect_same_on_ranks(group, parameter.grad());
    }
    const std::string after = order_of(ddp);
    for (const std::string& order : group.all_gather_bytes(after)) EXPECT_EQ(order, after);
    EXPECT_EQ(ddp.bucket_names().size(), 6u);
    EXPECT_EQ(before.substr(0, 1), "c");
    EXPECT_EQ(after.substr(0, 1), "c");  // rank 0 adds c last, so its gradient comes first
  });
}

TEST(Ddp, DifferentParametersNameBoth) {
  on_ranks(2, [](ProcessGroup group) {
    Mlp net(group.rank() == 0 ? 16 : 24);
    const std::string error = error_of([&] { DistributedDataParallel ddp(net, group); });
    for (const char* part : {"rank 0 has fc1.weight f32[16, 8]", "rank 1 has fc1.weight f32[24, 8]"})
      EXPECT_NE(error.find(part), std::string::npos) << error;
  });
  on_ranks(2, [](ProcessGroup group) {
    Pair net;
    if (group.rank() == 1) net.nn2.requires_grad_(false);
    const std::string error = error_of([&] { DistributedDataParallel ddp(net, group); });
    for (const char* part : {"rank 0 has nn2 f32[1]", "rank 1 has nothing"})
      EXPECT_NE(error.find(part), std::string::npos) << error;
  });
  on_ranks(2, [](ProcessGroup group) {
    Pair net;
    net.requires_grad_(false);
    EXPECT_NE(error_of([&] { DistributedDataParallel ddp(net, group); }).find("no parameter"), std::string::npos);
    EXPECT_NE(error_of([&] { DistributedDataParallel ddp(net, group, {.bucket_cap_mb = 0}); }).find("positive"),
              std::string::npos);
  });
}

// --- buffers ----------------------------------------------------------------------------------------------------

struct Buffered : nn::Module<Buffered> {
  Buffered() {
    register_parameter("weight", weight, full({2}, 3));
    register_buffer("factor", factor, ones({2}));
  }
  Tensor forward(const Tensor& x) { return weight * factor * x; }
  Tensor weight, factor;
};

TEST(Cases, C40_ReassignedBuffersAreBroadcast) {
  on_ranks(2, [](ProcessGroup group) {
    Buffered net;
    DistributedDataParallel ddp(net, group);
    for (int step = 0; step < 3; ++step) {
      net.factor = full({2}, group.rank() + 1 + step);
      const Tensor y = net(ones({2}));
      EXPECT_EQ(net.factor.to_vector(), std::vector<double>(2, 1 + step));
      EXPECT_EQ(y.to_vector(), std::vector<double>(2, 3 * (1 + step)));
    }
  });
  on_ranks(2, [](ProcessGroup group) {
    Buffered net;
    DistributedDataParallel ddp(net, group, {.broadcast_buffers = false});
    net.factor = full({2}, group.rank() + 1);
    net(ones({2}));
    EXPECT_EQ(net.factor.to_vector(), std::vector<double>(2, group.rank() + 1));
  });
}

TEST(Cases, C41_ModelCalledTwiceBeforeBackward) {
  on_ranks(2, [](ProcessGroup group) {
    Buffered net;
    DistributedDataParallel ddp(net, group);
    for (int step = 0; step < 2; ++step) {
      net.zero_grad();
      net.factor.fill_(group.rank() == 0 ? 2 : 7);
      const Tensor first = net(full({2}, 1 + group.rank()));
      const Tensor second = net(full({2}, 10));
      sum(first + second).backward();
      // factor · mean over ranks of (1 + rank + 10)
      EXPECT_EQ(net.weight.grad().to_vector(), std::vector<double>(2, 2 * 11.5));
    }
  });
}

TEST(Ddp, EvaluationSpeaksToNobody) {
  on_ranks(2, [](ProcessGroup group) {
    Buffered net;
    DistributedDataParallel ddp(net, group);
    if (group.rank() == 1) {  // rank 0 does not take part
      const NoGrad guard;
      EXPECT_EQ(net(ones({2})).to_vector(), std::vector<double>(2, 3));
    }
    group.barrier().wait();
    sum(net(ones({2}))).backward();
  });
}

// --- checkpoint() -----------------------------------------------------------------------------------------------

struct Checkpointed : nn::Module<Checkpointed> {
  bool use_checkpoint = true;
  bool twice = false;
  nn::Linear fc1{this, "fc1", {.in = 8, .out = 16}};
  nn::Linear fc2{this, "fc2", {.in = 16, .out = 16}};
  nn::Linear fc3{this, "fc3", {.in = 16, .out = 4}};
  Tensor block(const Tensor& x) {
    const auto f = [this](const std::vector<Tensor>& in) { return tanh(fc2(in[0])); };
    return use_checkpoint ? checkpoint(f, {x}) : f({x});
  }
  Tensor forward(const Tensor& x) {
    const Tensor h = block(tanh(fc1(x)));
    return fc3(twice ? block(h) : h);
  }
};

TEST(Ddp, CheckpointInside) {
  const auto gradients = [](const ProcessGroup& group, bool use_checkpoint) {
    manual_seed(1);
    Checkpointed net;
    net.use_checkpoint = use_checkpoint;
    DistributedDataParallel ddp(net, group, {.bucket_cap_mb = 128 * kByte});
    const Data mine = part_of(global_batch(4), group);
    std::vector<Tensor> result;
    for (int step = 0; step < 3; ++step) {
      net.zero_grad();
      mse_loss(net(mine.x), mine.y).backward();
    }
    for (const Tensor& parameter : net.parameters()) result.push_back(parameter.grad().clone());
    return result;
  };
  on_ranks(3, [&](ProcessGroup group) {
    const std::vector<Tensor> with = gradients(group, true), without = gradients(group, false);
    for (size_t i = 0; i < with.size(); ++i) {
      EXPECT_EQ(with[i].to_vector(), without[i].to_vector());
      expect_same_on_ranks(group, with[i]);
    }
  });
}

TEST(Ddp, AParameterInTwoCheckpointsIsAnErrorThatNamesIt) {
  on_ranks(2, [](ProcessGroup group) {
    manual_seed(1);
    Checkpointed net;
    net.twice = true;
    DistributedDataParallel ddp(net, group);
    const Data mine = part_of(global_batch(4), group);
    const std::string error = error_of([&] { mse_loss(net(mine.x), mine.y).backward(); });
    EXPECT_NE(error.find("parameter fc2."), std::string::npos) << error;
  });
}

// --- synchronised or not ----------------------------------------------------------------------------------------

TEST(Ddp, NoSyncAddsUpAndTheNextBackwardReducesTheSum) {
  on_ranks(2, [](ProcessGroup group) {
    Pair net;
    DistributedDataParallel ddp(net, group);
    const Tensor x = full({1}, group.rank() + 1);
    for (int window = 0; window < 2; ++window) {
      {
        auto guard = ddp.no_sync();
        EXPECT_FALSE(ddp.require_sync());
        for (int i = 0; i < 2; ++i) net(x, true, true).backward();
        EXPECT_EQ(net.nn1.grad().item(), 2 * x.item());
      }
      EXPECT_TRUE(ddp.require_sync());
      net(x, true, true).backward();
      EXPECT_EQ(net.nn1.grad().item(), 4.5);
      net.zero_grad();
    }
    // Without zero_grad gradients add up over updates.
    net(x, true, true).backward();
    net(x, true, true).backward();
    EXPECT_EQ(net.nn1.grad().item(), 3);
  });
}

TEST(Ddp, TheModuleIsItselfAgainAfterwards) {
  on_ranks(2, [](ProcessGroup group) {
    Pair net;
    {
      DistributedDataParallel ddp(net, group);
      net(ones({1}), true, true).backward();
    }
    EXPECT_EQ(net.nn1.grad().item(), 1);
    net.zero_grad();
    net(full({1}, group.rank()), true, true).backward();
    EXPECT_EQ(net.nn1.grad().item(), group.rank());
  });
}

}  // namespace
}  // namespace weft::ddp
