// Loss functions. f16 and bf16 inputs are computed in f32.
#pragma once
#include "tensor/tensor.h"

namespace weft {

enum class LossReduction { none, mean, sum };

struct CrossEntropyLossOptions {
  Tensor weight = {};           // [classes]: a factor for each class
  int64_t ignore_index = -100;  // targets of this value count for nothing
  double label_smoothing = 0;   // in [0, 1): this part of the target is spread over all classes
  LossReduction reduction = LossReduction::mean;
};

// -log softmax(logits)[target]. logits [N, C, d1, …] with targets i64 [N, d1, …], or [C] with a 0-d target. For
// [batch, time, C] use logits.flatten(0, 1). mean divides by the summed weights of the targets that count; when none
// does it is NaN, as in torch, with gradient 0. A target outside the classes is an error naming its row.
Tensor cross_entropy(const Tensor& logits, const Tensor& target, CrossEntropyLossOptions options = {});

// (x - target)², reduced.
Tensor mse_loss(const Tensor& x, const Tensor& target, LossReduction reduction = LossReduction::mean);

}  // namespace weft
