// Losses as modules: each is the function with its parameters; weights are buffers.
#include "nn/layers/loss.h"

#include <gtest/gtest.h>

#include "autograd/ops/ops.h"

namespace weft::nn {
namespace {

using Values = std::vector<double>;

class Losses : public ::testing::Test {
 protected:
  Generator generator{3};
  Tensor x = rand({4, 3}, {}, &generator), target = rand({4, 3}, {}, &generator);
  Tensor classes = tensor(std::vector<int64_t>{2, 0, 1, 1});
  Tensor weight = tensor({0.5, 1, 2});
};

void expect_same(const Tensor& got, const Tensor& want) { EXPECT_EQ(got.to_vector(), want.to_vector()); }

TEST_F(Losses, OfMatchingElements) {
  expect_same(MSELoss()(x, target), mse_loss(x, target));
  expect_same(L1Loss({.reduction = LossReduction::sum})(x, target), l1_loss(x, target, LossReduction::sum));
  expect_same(SmoothL1Loss({.beta = 0.3})(x, target), smooth_l1_loss(x, target, 0.3));
  expect_same(HuberLoss({.delta = 0.3})(x, target), huber_loss(x, target, 0.3));
  expect_same(KLDivLoss({.reduction = LossReduction::batchmean, .log_target = true})(x, target),
              kl_div(x, target, LossReduction::batchmean, true));
  const Tensor sign = tensor({1, -1, 1, -1});
  expect_same(CosineEmbeddingLoss({.margin = 0.2})(x, target, sign), cosine_embedding_loss(x, target, sign, 0.2));
  expect_same(CosineSimilarity({.dim = 0})(x, target), cosine_similarity(x, target, 0));
}

TEST_F(Losses, WeightsAreBuffers) {
  CrossEntropyLoss cross({.weight = weight, .ignore_index = 0, .label_smoothing = 0.1});
  expect_same(cross(x, classes),
              cross_entropy(x, classes, {.weight = weight, .ignore_index = 0, .label_smoothing = 0.1}));
  NLLLoss nll({.weight = weight});
  expect_same(nll(x, classes), nll_loss(x, classes, {.weight = weight}));
  BCELoss bce({.weight = weight});
  expect_same(bce(x, target), binary_cross_entropy(x, target, {.weight = weight}));
  BCEWithLogitsLoss logits({.weight = weight, .pos_weight = weight * 2});
  expect_same(logits(x, target),
              binary_cross_entropy_with_logits(x, target, {.weight = weight, .pos_weight = weight * 2}));
  EXPECT_EQ(logits.named_buffers().size(), 2u);
  EXPECT_TRUE(logits.parameters().empty());
  EXPECT_TRUE(BCEWithLogitsLoss().named_buffers().empty());
  cross.to(f64);
  EXPECT_EQ(cross(x.to(f64), classes).dtype(), f64);
}

TEST_F(Losses, WrongCallsAreErrors) {
  EXPECT_THROW(MSELoss()(x, target.select(0, 0)), Error) << "shapes do not broadcast";
  EXPECT_THROW(MSELoss({.reduction = LossReduction::batchmean})(x, target), Error);
  EXPECT_THROW(HuberLoss({.delta = 0})(x, target), Error);
  EXPECT_THROW(SmoothL1Loss({.beta = -1})(x, target), Error);
  EXPECT_THROW(NLLLoss()(x, tensor(std::vector<int64_t>{0, 1, 2, 3})), Error);
  EXPECT_THROW(NLLLoss({.weight = ones({4})})(x, classes), Error);
  EXPECT_THROW(CrossEntropyLoss({.ignore_index = 1})(x, target), Error) << "probabilities ignore nothing";
  EXPECT_THROW(CrossEntropyLoss()(x, target.slice(1, 0, 2)), Error);
  EXPECT_THROW(BCEWithLogitsLoss({.pos_weight = ones({4})})(x, target), Error);
  EXPECT_THROW(CosineEmbeddingLoss()(x, target, ones({3})), Error);
}

}  // namespace
}  // namespace weft::nn
