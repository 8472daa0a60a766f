// Collating: samples stacked into one batch.
//
//   data::Batch batch = data::default_collate(samples);    // 64 × {"input": f32[64], "target": 3} → f32[64, 64], i64[64]
//
// Tensors gain a first dimension; integers become i64[n], reals f64[n], booleans bool[n]; strings a list; maps and lists
// are walked. Samples that differ in keys, kinds, dtypes or shapes are an error that names the sample and the entry.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "data/batch.h"

namespace weft::data {

using Collate = std::function<Batch(const std::vector<Sample>& samples)>;

// At least one sample.
Batch default_collate(const std::vector<Sample>& samples);

// Tensors of one shape and dtype, along a new first dimension. `what` names them in the error.
Tensor stack_samples(std::span<const Tensor* const> tensors, std::string_view what);

}  // namespace weft::data
