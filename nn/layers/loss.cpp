#include "nn/layers/loss.h"

#include "autograd/ops/ops.h"

namespace weft::nn {

MSELoss::MSELoss(ModuleBase* parent, std::string name, LossOptions options)
    : Module(parent, std::move(name)), reduction(options.reduction) {}
Tensor MSELoss::forward(const Tensor& x, const Tensor& target) { return mse_loss(x, target, reduction); }

L1Loss::L1Loss(ModuleBase* parent, std::string name, LossOptions options)
    : Module(parent, std::move(name)), reduction(options.reduction) {}
Tensor L1Loss::forward(const Tensor& x, const Tensor& target) { return l1_loss(x, target, reduction); }

SmoothL1Loss::SmoothL1Loss(ModuleBase* parent, std::string name, SmoothL1LossOptions given)
    : Module(parent, std::move(name)), options(given) {}
Tensor SmoothL1Loss::forward(const Tensor& x, const Tensor& target) {
  return smooth_l1_loss(x, target, options.beta, options.reduction);
}

HuberLoss::HuberLoss(ModuleBase* parent, std::string name, HuberLossOptions given)
    : Module(parent, std::move(name)), options(given) {}
Tensor HuberLoss::forward(const Tensor& x, const Tensor& target) {
  return huber_loss(x, target, options.delta, options.reduction);
}

// The weights move to the registered buffers, which to() and load_state_dict() replace; a call gives them back.
NLLLoss::NLLLoss(ModuleBase* parent, std::string name, NllLossOptions given)
    : Module(parent, std::move(name)), options(std::move(given)) {
  if (options.weight.defined()) register_buffer("weight", weight, std::exchange(options.weight, {}).detach());
}
Tensor NLLLoss::forward(const Tensor& log_probabilities, const Tensor& target) {
  NllLossOptions call = options;
  call.weight = weight;
  return nll_loss(log_probabilities, target, call);
}

CrossEntropyLoss::CrossEntropyLoss(ModuleBase* parent, std::string name, CrossEntropyLossOptions given)
    : Module(parent, std::move(name)), options(std::move(given)) {
  if (options.weight.defined()) register_buffer("weight", weight, std::exchange(options.weight, {}).detach());
}
Tensor CrossEntropyLoss::forward(const Tensor& logits, const Tensor& target) {
  CrossEntropyLossOptions call = options;
  call.weight = weight;
  return cross_entropy(logits, target, call);
}

BCELoss::BCELoss(ModuleBase* parent, std::string name, BinaryCrossEntropyOptions given)
    : Module(parent, std::move(name)), options(std::move(given)) {
  if (options.weight.defined()) register_buffer("weight", weight, std::exchange(options.weight, {}).detach());
}
Tensor BCELoss::forward(const Tensor& x, const Tensor& target) {
  BinaryCrossEntropyOptions call = options;
  call.weight = weight;
  return binary_cross_entropy(x, target, call);
}

BCEWithLogitsLoss::BCEWithLogitsLoss(ModuleBase* parent, std::string name, BinaryCrossEntropyWithLogitsOptions given)
    : Module(parent, std::move(name)), options(std::move(given)) {
  if (options.weight.defined()) register_buffer("weight", weight, std::exchange(options.weight, {}).detach());
  if (options.pos_weight.defined())
    register_buffer("pos_weight", pos_weight, std::exchange(options.pos_weight, {}).detach());
}
Tensor BCEWithLogitsLoss::forward(const Tensor& logits, const Tensor& target) {
  BinaryCrossEntropyWithLogitsOptions call = options;
  call.weight = weight;
  call.pos_weight = pos_weight;
  return binary_cross_entropy_with_logits(logits, target, call);
}

KLDivLoss::KLDivLoss(ModuleBase* parent, std::string name, KLDivLossOptions given)
    : Module(parent, std::move(name)), options(given) {}
Tensor KLDivLoss::forward(const Tensor& x, const Tensor& target) {
  return kl_div(x, target, options.reduction, options.log_target);
}

CosineEmbeddingLoss::CosineEmbeddingLoss(ModuleBase* parent, std::string name, CosineEmbeddingLossOptions given)
    : Module(parent, std::move(name)), options(given) {}
Tensor CosineEmbeddingLoss::forward(const Tensor& a, const Tensor& b, const Tensor& target) {
  return cosine_embedding_loss(a, b, target, options.margin, options.reduction);
}

CosineSimilarity::CosineSimilarity(ModuleBase* parent, std::string name, CosineSimilarityOptions given)
    : Module(parent, std::move(name)), options(given) {}
Tensor CosineSimilarity::forward(const Tensor& a, const Tensor& b) {
  return cosine_similarity(a, b, options.dim, options.eps);
}

}  // namespace weft::nn
