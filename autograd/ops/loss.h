// Loss functions: PyTorch's names, parameters and reductions. Classification over classes is in loss.cpp, losses of
// matching elements in loss_elements.cpp.
//
//   Tensor loss = cross_entropy(logits, target, {.label_smoothing = 0.1});
//   Tensor each = huber_loss(prediction, target, 0.5, LossReduction::none);
//
// f16 and bf16 inputs are computed in f32 and each result is rounded once. All are differentiable any number of times.
#pragma once
#include "tensor/tensor.h"

namespace weft {

enum class LossReduction {
  none,
  mean,
  sum,
  batchmean,  // the sum over the size of the first dimension; kl_div only
};

// --- classes (loss.cpp) -----------------------------------------------------------------------------------------

struct CrossEntropyLossOptions {
  Tensor weight = {};           // [classes]: a factor for each class
  int64_t ignore_index = -100;  // targets of this value count for nothing
  double label_smoothing = 0;   // in [0, 1]: this part of the target is spread over all classes
  LossReduction reduction = LossReduction::mean;
  bool zero_if_all_ignored = false;  // the mean over no target is 0, not NaN
};

// -log softmax(logits)[target]. logits [N, C, d1, …] with targets i64 [N, d1, …], or [C] with a 0-d target. For
// [batch, time, C] use logits.flatten(0, 1). mean divides by the summed weights of the targets that count; when none
// does it is NaN, as in torch, with gradient 0. A target outside the classes is an error naming its row.
//
// A floating-point target has the shape of the logits and holds the probability of each class: the loss is
// -sum over c of weight[c] · target[c] · log softmax(logits)[c], mean divides by the number of rows, ignore_index must
// keep its default.
Tensor cross_entropy(const Tensor& logits, const Tensor& target, CrossEntropyLossOptions options = {});

struct NllLossOptions {
  Tensor weight = {};
  int64_t ignore_index = -100;
  LossReduction reduction = LossReduction::mean;
};

// Negative log likelihood: -log_probabilities[target]; shapes, weight, mean and errors as in cross_entropy().
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target, NllLossOptions options = {});

// --- matching elements (loss_elements.cpp): x and target have the same shape ---------------------------------------

// (x - target)².
Tensor mse_loss(const Tensor& x, const Tensor& target, LossReduction reduction = LossReduction::mean);
// |x - target|; the gradient where they are equal is 0.
Tensor l1_loss(const Tensor& x, const Tensor& target, LossReduction reduction = LossReduction::mean);
// With d = |x - target|: d² / (2 beta) where d < beta, else d - beta / 2. beta >= 0; with 0 it is l1_loss.
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, double beta = 1,
                      LossReduction reduction = LossReduction::mean);
// With d = |x - target|: d² / 2 where d <= delta, else delta · (d - delta / 2). delta > 0.
Tensor huber_loss(const Tensor& x, const Tensor& target, double delta = 1,
                  LossReduction reduction = LossReduction::mean);

struct BinaryCrossEntropyOptions {
  Tensor weight = {};  // a factor for each loss, broadcast to it
  LossReduction reduction = LossReduction::mean;
};
// -(target · log x + (1 - target) · log(1 - x)) of probabilities x in [0, 1]; others give NaN. Logarithms are held to at
// least -100, so that a sure and wrong prediction has a finite loss.
Tensor binary_cross_entropy(const Tensor& x, const Tensor& target, BinaryCrossEntropyOptions options = {});

struct BinaryCrossEntropyWithLogitsOptions {
  Tensor weight = {};      // a factor for each loss, broadcast to it
  Tensor pos_weight = {};  // a factor for the part of the positives, broadcast to x: one for each class, usually
  LossReduction reduction = LossReduction::mean;
};
// The same of x = sigmoid(logits), without overflow or loss of digits for any logit.
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target,
                                        BinaryCrossEntropyWithLogitsOptions options = {});

// The elements of the Kullback-Leibler divergence of target from exp(x): target · (log target - x), where a target of 0
// gives 0; with log_target, target is a logarithm itself: exp(target) · (target - x). The divergence by its definition is
// the reduction batchmean; mean divides by the number of elements.
Tensor kl_div(const Tensor& x, const Tensor& target, LossReduction reduction = LossReduction::mean,
              bool log_target = false);

// Pairs of vectors a, b [N, D] with targets [N], or [D] with a 0-d one: 1 - cos(a, b) where the target is 1, and
// max(0, cos(a, b) - margin) where it is -1. The squared lengths have 1e-12 added, as in torch.
Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target, double margin = 0,
                             LossReduction reduction = LossReduction::mean);

namespace detail {
// A loss for each element, reduced; `op` is named where the reduction is none of torch's for it.
Tensor reduced(const char* op, const Tensor& loss, LossReduction reduction);
}  // namespace detail

}  // namespace weft
