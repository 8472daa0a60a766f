// Loss functions as modules, with PyTorch's names: a loss and its parameters as one object.
//
//   nn::SmoothL1Loss loss{{.beta = 0.5}};
//   loss(prediction, target).backward();
//
// The formulas, shapes and errors are those of the functions in autograd/ops/loss.h. Weights are buffers: they are in the
// state and move with to(), and have no gradient.
#pragma once
#include "autograd/ops/loss.h"
#include "nn/module.h"

namespace weft::nn {

struct LossOptions {
  LossReduction reduction = LossReduction::mean;
};

// (x - target)².
struct MSELoss : Module<MSELoss> {
  explicit MSELoss(LossOptions options = {}) : MSELoss(nullptr, "", options) {}
  MSELoss(ModuleBase* parent, std::string name, LossOptions options = {});
  Tensor forward(const Tensor& x, const Tensor& target);

  LossReduction reduction;
};

// |x - target|.
struct L1Loss : Module<L1Loss> {
  explicit L1Loss(LossOptions options = {}) : L1Loss(nullptr, "", options) {}
  L1Loss(ModuleBase* parent, std::string name, LossOptions options = {});
  Tensor forward(const Tensor& x, const Tensor& target);

  LossReduction reduction;
};

struct SmoothL1LossOptions {
  double beta = 1;
  LossReduction reduction = LossReduction::mean;
};
struct SmoothL1Loss : Module<SmoothL1Loss> {
  explicit SmoothL1Loss(SmoothL1LossOptions options = {}) : SmoothL1Loss(nullptr, "", options) {}
  SmoothL1Loss(ModuleBase* parent, std::string name, SmoothL1LossOptions options = {});
  Tensor forward(const Tensor& x, const Tensor& target);

  SmoothL1LossOptions options;
};

struct HuberLossOptions {
  double delta = 1;
  LossReduction reduction = LossReduction::mean;
};
struct HuberLoss : Module<HuberLoss> {
  explicit HuberLoss(HuberLossOptions options = {}) : HuberLoss(nullptr, "", options) {}
  HuberLoss(ModuleBase* parent, std::string name, HuberLossOptions options = {});
  Tensor forward(const Tensor& x, const Tensor& target);

  HuberLossOptions options;
};

// Of logarithms of probabilities [N, C, …], or [C], and class indices.
struct NLLLoss : Module<NLLLoss> {
  explicit NLLLoss(NllLossOptions options = {}) : NLLLoss(nullptr, "", std::move(options)) {}
  NLLLoss(ModuleBase* parent, std::string name, NllLossOptions options = {});
  Tensor forward(const Tensor& log_probabilities, const Tensor& target);

  Tensor weight;  // undefined where none was given
  NllLossOptions options;
};

// Of logits [N, C, …], or [C], and class indices or probabilities.
struct CrossEntropyLoss : Module<CrossEntropyLoss> {
  explicit CrossEntropyLoss(CrossEntropyLossOptions options = {}) : CrossEntropyLoss(nullptr, "", std::move(options)) {}
  CrossEntropyLoss(ModuleBase* parent, std::string name, CrossEntropyLossOptions options = {});
  Tensor forward(const Tensor& logits, const Tensor& target);

  Tensor weight;
  CrossEntropyLossOptions options;
};

// Of probabilities.
struct BCELoss : Module<BCELoss> {
  explicit BCELoss(BinaryCrossEntropyOptions options = {}) : BCELoss(nullptr, "", std::move(options)) {}
  BCELoss(ModuleBase* parent, std::string name, BinaryCrossEntropyOptions options = {});
  Tensor forward(const Tensor& x, const Tensor& target);

  Tensor weight;
  BinaryCrossEntropyOptions options;
};

struct BCEWithLogitsLoss : Module<BCEWithLogitsLoss> {
  explicit BCEWithLogitsLoss(BinaryCrossEntropyWithLogitsOptions options = {})
      : BCEWithLogitsLoss(nullptr, "", std::move(options)) {}
  BCEWithLogitsLoss(ModuleBase* parent, std::string name, BinaryCrossEntropyWithLogitsOptions options = {});
  Tensor forward(const Tensor& logits, const Tensor& target);

  Tensor weight;
  Tensor pos_weight;
  BinaryCrossEntropyWithLogitsOptions options;
};

struct KLDivLossOptions {
  LossReduction reduction = LossReduction::mean;
  bool log_target = false;
};
// Of logarithms of probabilities, and probabilities or logarithms of them.
struct KLDivLoss : Module<KLDivLoss> {
  explicit KLDivLoss(KLDivLossOptions options = {}) : KLDivLoss(nullptr, "", options) {}
  KLDivLoss(ModuleBase* parent, std::string name, KLDivLossOptions options = {});
  Tensor forward(const Tensor& x, const Tensor& target);

  KLDivLossOptions options;
};

struct CosineEmbeddingLossOptions {
  double margin = 0;
  LossReduction reduction = LossReduction::mean;
};
struct CosineEmbeddingLoss : Module<CosineEmbeddingLoss> {
  explicit CosineEmbeddingLoss(CosineEmbeddingLossOptions options = {}) : CosineEmbeddingLoss(nullptr, "", options) {}
  CosineEmbeddingLoss(ModuleBase* parent, std::string name, CosineEmbeddingLossOptions options = {});
  Tensor forward(const Tensor& a, const Tensor& b, const Tensor& target);

  CosineEmbeddingLossOptions options;
};

struct CosineSimilarityOptions {
  int64_t dim = 1;
  double eps = 1e-8;
};
// See cosine_similarity() in autograd/ops/similarity.h.
struct CosineSimilarity : Module<CosineSimilarity> {
  explicit CosineSimilarity(CosineSimilarityOptions options = {}) : CosineSimilarity(nullptr, "", options) {}
  CosineSimilarity(ModuleBase* parent, std::string name, CosineSimilarityOptions options = {});
  Tensor forward(const Tensor& a, const Tensor& b);

  CosineSimilarityOptions options;
};

}  // namespace weft::nn
