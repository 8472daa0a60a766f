// A table of vectors, looked up by index.
#pragma once
#include "nn/module.h"

namespace weft::nn {

struct EmbeddingOptions {
  int64_t count = 0;  // rows of the table
  int64_t dim = 0;    // size of a vector
  double init_std = 1;
  DType dtype = DType::f32;
};

// indices [..], i64 or i32 → [.., dim]. weight [count, dim], normal(0, init_std) at first. An index outside the table is
// an error.
struct Embedding : Module<Embedding> {
  explicit Embedding(EmbeddingOptions options) : Embedding(nullptr, "", options) {}
  Embedding(ModuleBase* parent, std::string name, EmbeddingOptions options);
  Tensor forward(const Tensor& indices);

  Tensor weight;
};

}  // namespace weft::nn
