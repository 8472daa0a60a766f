// Schedules: what the golden values do not reach. States that continue, options, errors.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>

#include "optim/optim.h"
#include "tensor/factory.h"
#include "tensor/tree_file.h"
#include "tests/support/child_process.h"

namespace weft::optim {
namespace {

using Values = std::vector<double>;
using Schedule = std::shared_ptr<LRScheduler>;

SGD two_groups() {
  return SGD({{{{"a", zeros({1}, {.requires_grad = true})}}, {.lr = 0.1, .momentum = 0.9}},
              {{{"b", zeros({1}, {.requires_grad = true})}}, {.lr = 0.2, .momentum = 0.9}}});
}

Values rates_of(LRScheduler& schedule, const Optimizer& optimizer, int steps) {
  Values rates;
  for (int step = 0; step < steps; ++step) {
    rates.push_back(optimizer.lr());
    schedule.step();
  }
  return rates;
}

TEST(Schedule, WarmupCosine) {
  Tensor p = zeros({1}, {.requires_grad = true});
  SGD optimizer(std::vector<Tensor>{p}, {.lr = 2});
  LambdaLR schedule = warmup_cosine(optimizer, {.warmup_steps = 4, .total_steps = 12, .min_factor = 0.1});
  Values rates;
  for (int step = 0; step < 14; ++step) {
    rates.push_back(optimizer.lr());
    schedule.step();
  }
  EXPECT_EQ(Values(rates.begin(), rates.begin() + 5), (Values{0.5, 1, 1.5, 2, 2}));
  EXPECT_NEAR(rates[8], 2 * 0.55, 1e-12) << "half way";
  EXPECT_NEAR(rates[12], 0.2, 1e-12);
  EXPECT_NEAR(rates[13], 0.2, 1e-12) << "and there it stays";
  EXPECT_THROW(warmup_cosine(optimizer, {.warmup_steps = 5, .total_steps = 4}), Error);
}

TEST(Schedule, StateContinues) {
  Tensor p = zeros({1}, {.requires_grad = true});
  SGD first(std::vector<Tensor>{p}, {.lr = 1}), second(std::vector<Tensor>{p}, {.lr = 7});
  const auto half = [](int64_t step) { return std::pow(0.5, static_cast<double>(step)); };
  LambdaLR a(first, half), b(second, half);
  a.step();
  a.step();
  b.load_state_dict(a.state_dict());
  EXPECT_EQ(b.last_epoch(), 2);
  EXPECT_EQ(second.lr(), 0.25);
  EXPECT_EQ(b.last_lr(), (Values{0.25}));
  b.step();
  EXPECT_EQ(second.lr(), 0.125);
}

TEST(Schedule, InverseSquareRoot) {
  SGD optimizer = two_groups();
  LambdaLR schedule = inverse_sqrt(optimizer, {.warmup_steps = 4});
  const Values rates = rates_of(schedule, optimizer, 17);
  EXPECT_EQ(rates[0], 0);
  EXPECT_NEAR(rates[2], 0.05, 1e-15);
  EXPECT_NEAR(rates[4], 0.1, 1e-15);
  EXPECT_NEAR(rates[16], 0.05, 1e-15) << "1 / sqrt(16 / 4)";
  SGD another = two_groups();
  LambdaLR plain = inverse_sqrt(another, {.timescale = 3});
  EXPECT_NEAR(rates_of(plain, another, 10)[9], 0.05, 1e-15) << "1 / sqrt(12 / 3)";
}

TEST(Schedule, WarmupStableDecay) {
  for (const auto& [decay, half] : {std::pair{Decay::linear, 0.5}, std::pair{Decay::cosine, 0.5},
                                    std::pair{Decay::one_minus_sqrt, 1 - std::sqrt(0.5)}}) {
    SGD optimizer = two_groups();
    LambdaLR schedule = warmup_stable_decay(
        optimizer, {.warmup_steps = 2, .stable_steps = 3, .decay_steps = 4, .decay = decay, .min_factor = 0.1});
    const Values rates = rates_of(schedule, optimizer, 12);
    EXPECT_NEAR(rates[0], 0.01, 1e-15);
    EXPECT_NEAR(rates[1], 0.055, 1e-15);
    for (const size_t step : {2, 3, 4, 5}) EXPECT_NEAR(rates[step], 0.1, 1e-15);
    EXPECT_NEAR(rates[7], 0.1 * (0.1 + 0.9 * half), 1e-15);
    EXPECT_NEAR(rates[9], 0.01, 1e-15);
    EXPECT_NEAR(rates[11], 0.01, 1e-15);
  }
}

TEST(Schedule, EveryStateContinues) {
  const auto half = [](int64_t step) { return std::pow(0.5, static_cast<double>(step)); };
  const std::vector<std::function<Schedule(SGD&)>> makers = {
      [&](SGD& o) {
        return std::make_shared<LambdaLR>(o, std::vector<LambdaLR::Factor>{half, half});
      },
      [](SGD& o) { return std::make_shared<MultiplicativeLR>(o, [](int64_t) { return 0.9; }); },
      [](SGD& o) { return std::make_shared<StepLR>(o, 3, 0.5); },
      [](SGD& o) {
        return std::make_shared<MultiStepLR>(o, std::vector<int64_t>{2, 7, 7}, 0.5);
      },
      [](SGD& o) { return std::make_shared<ExponentialLR>(o, 0.9); },
      [](SGD& o) { return std::make_shared<ConstantLR>(o, 0.5, 7); },
      [](SGD& o) { return std::make_shared<LinearLR>(o, LinearLROptions{.total_iters = 9}); },
      [](SGD& o) { return std::make_shared<PolynomialLR>(o, 9, 2); },
      [](SGD& o) { return std::make_shared<CosineAnnealingLR>(o, 4, 0.01); },
      [](SGD& o) {
        return std::make_shared<CosineAnnealingWarmRestarts>(o, WarmRestartsOptions{.t_0 = 2, .t_mult = 2});
      },
      [](SGD& o) { return std::make_shared<OneCycleLR>(o, OneCycleOptions{.max_lr = {1}, .total_steps = 20}); },
      [](SGD& o) {
        return std::make_shared<CyclicLR>(o, CyclicOptions{.base_lr = {0.1}, .max_lr = {1}, .step_size_up = 3});
      },
      [](SGD& o) {
        auto first = std::make_shared<LinearLR>(o);
        auto second = std::make_shared<CosineAnnealingLR>(o, 8);
        return std::make_shared<SequentialLR>(o, std::vector<Schedule>{first, second}, std::vector<int64_t>{4});
      },
      [](SGD& o) {
        auto first = std::make_shared<ConstantLR>(o, 0.5, 7);
        auto second = std::make_shared<ExponentialLR>(o, 0.9);
        return std::make_shared<ChainedScheduler>(std::vector<Schedule>{first, second});
      },
  };
  for (size_t i = 0; i < makers.size(); ++i) {
    SCOPED_TRACE(i);
    SGD whole = two_groups(), half_way = two_groups(), resumed = two_groups();
    const Schedule a = makers[i](whole), b = makers[i](half_way);
    for (int step = 0; step < 5; ++step) {
      a->step();
      b->step();
    }
    test::TemporaryFolder folder;
    save_tree(Tree::map({{"optimizer", half_way.state_dict()}, {"schedule", b->state_dict()}}),
              folder.path() / "state.safetensors");
    const Schedule c = makers[i](resumed);
    const Tree state = load_tree(folder.path() / "state.safetensors");
    resumed.load_state_dict(state["optimizer"]);
    c->load_state_dict(state["schedule"]);
    for (int step = 5; step < 15; ++step) {
      EXPECT_EQ(c->last_lr(), a->last_lr()) << "step " << step;
      EXPECT_EQ(resumed.momentum(1), whole.momentum(1)) << "step " << step;
      EXPECT_EQ(c->last_epoch(), step);
      a->step();
      c->step();
    }
    Tree bad = b->state_dict();
    bad["base_lrs"] = Tree::list({1.0});
    EXPECT_THROW(c->load_state_dict(bad), Error);
    EXPECT_THROW(c->load_state_dict(Tree::map()), Error);
  }
}

TEST(Schedule, SequencesOfRestartsBeginAnew) {
  SGD optimizer = two_groups();
  auto first = std::make_shared<ConstantLR>(optimizer, 0.5, 100);
  auto second = std::make_shared<CosineAnnealingWarmRestarts>(optimizer, WarmRestartsOptions{.t_0 = 2});
  SequentialLR schedule(optimizer, {first, second}, {3});
  const Values rates = rates_of(schedule, optimizer, 7);
  const Values want = {0.05, 0.05, 0.05, 0.1, 0.05, 0.1, 0.05};
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(rates[i], want[i], 1e-15) << i;
}

TEST(Schedule, RestartsAtFractionsOfEpochs) {
  SGD optimizer = two_groups();
  CosineAnnealingWarmRestarts schedule(optimizer, {.t_0 = 2, .t_mult = 2});
  schedule.step(1.0);
  EXPECT_NEAR(optimizer.lr(), 0.05, 1e-15);
  schedule.step(4.0);  // half of the second period, which is 2 … 6
  EXPECT_NEAR(optimizer.lr(), 0.05, 1e-15);
  schedule.step(2.5);
  EXPECT_NEAR(optimizer.lr(), 0.05 * (1 + std::cos(std::acos(-1.0) / 8)), 1e-15);
  EXPECT_EQ(schedule.last_epoch(), 2);
  EXPECT_THROW(schedule.step(-1.0), Error);
}

TEST(Schedule, MomentumOrBeta1IsCycled) {
  const Tensor p = zeros({1}, {.requires_grad = true});
  AdamW adam(std::vector<Tensor>{p});
  OneCycleLR schedule(adam, {.max_lr = {0.1}, .total_steps = 10});
  EXPECT_EQ(adam.options().beta1, 0.95);
  Adagrad adagrad(std::vector<Tensor>{p});
  EXPECT_FALSE(adagrad.momentum());
  EXPECT_THROW(adagrad.set_momentum(0.5), Error);
  EXPECT_THROW(OneCycleLR(adagrad, {.max_lr = {0.1}, .total_steps = 10}), Error);
  EXPECT_NO_THROW(OneCycleLR(adagrad, {.max_lr = {0.1}, .total_steps = 10, .cycle_momentum = false}));
  for (int step = 0; step < 10; ++step) schedule.step();
  EXPECT_THROW(schedule.step(), Error) << "beyond the cycle";
}

TEST(Schedule, CyclesWithAFunctionOfTheirOwn) {
  SGD optimizer = two_groups();
  CyclicLR schedule(optimizer, {.base_lr = {0.1, 0.2},
                                .max_lr = {0.5},
                                .step_size_up = 1,
                                .step_size_down = 3,
                                .scale_fn = [](double cycle) { return 1 / cycle; },
                                .base_momentum = {0.8},
                                .max_momentum = {0.9}});
  EXPECT_EQ(optimizer.momentum().value(), 0.9);
  const Values rates = rates_of(schedule, optimizer, 6);
  EXPECT_NEAR(rates[1], 0.5, 1e-15);
  EXPECT_NEAR(rates[2], 0.1 + 0.4 * 2 / 3, 1e-15);
  EXPECT_NEAR(rates[4], 0.1, 1e-15);
  EXPECT_NEAR(rates[5], 0.3, 1e-15) << "half as high in the second cycle";
}

TEST(Schedule, PlateauContinuesAndHasABoundEach) {
  SGD optimizer = two_groups(), other = two_groups();
  const PlateauOptions options = {.factor = 0.5, .patience = 0, .min_lr = {0.04, 0.15}};
  ReduceLROnPlateau schedule(optimizer, options), resumed(other, options);
  schedule.step(1);
  schedule.step(2);
  EXPECT_EQ(schedule.last_lr(), (Values{0.05, 0.15}));
  resumed.load_state_dict(schedule.state_dict());
  EXPECT_EQ(other.lr(1), 0.15);
  schedule.step(std::nan(""));
  resumed.step(std::nan(""));
  EXPECT_EQ(resumed.last_lr(), (Values{0.04, 0.15}));
  EXPECT_EQ(resumed.last_lr(), schedule.last_lr());
  EXPECT_EQ(resumed.best(), 1);
}

TEST(Schedule, WrongOptions) {
  SGD o = two_groups();
  const std::vector<std::function<void()>> wrong = {
      [&] { StepLR(o, 0); },
      [&] { ConstantLR(o, 0); },
      [&] { LinearLR(o, {.start_factor = 0}); },
      [&] { PolynomialLR(o, 0); },
      [&] { CosineAnnealingLR(o, 0); },
      [&] { CosineAnnealingWarmRestarts(o, {.t_0 = 0}); },
      [&] { OneCycleLR(o, {.max_lr = {1}}); },
      [&] {
        OneCycleLR(o, {.max_lr = {1, 2, 3}, .total_steps = 9});
      },
      [&] { OneCycleLR(o, {.max_lr = {1}, .total_steps = 9, .anneal_strategy = "square"}); },
      [&] { CyclicLR(o, {.base_lr = {1}, .max_lr = {2}, .mode = "round"}); },
      [&] { CyclicLR(o, {.base_lr = {1}}); },
      [&] { LambdaLR(o, std::vector<LambdaLR::Factor>{}); },
      [&] { ReduceLROnPlateau(o, {.mode = "up"}); },
      [&] { ReduceLROnPlateau(o, {.factor = 1}); },
      [&] { SequentialLR(o, {std::make_shared<ExponentialLR>(o, 0.5)}, {3}); },
      [&] { ChainedScheduler(std::vector<Schedule>{}); },
      [&] {
        SGD another = two_groups();
        ChainedScheduler({std::make_shared<ExponentialLR>(o, 0.5), std::make_shared<ExponentialLR>(another, 0.5)});
      },
      [&] { warmup_stable_decay(o, {.min_factor = 2}); },
      [&] { inverse_sqrt(o, {.warmup_steps = -1}); },
  };
  for (size_t i = 0; i < wrong.size(); ++i) EXPECT_THROW(wrong[i](), Error) << i;
}

}  // namespace
}  // namespace weft::optim
