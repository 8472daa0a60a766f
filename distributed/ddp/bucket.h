// Buckets: which gradients travel together.
//
// One all-reduce a parameter would spend its time on latency; one for everything could start only when backward has
// ended. DDP packs gradients into buckets of about 25 MB, the last layers first, because their gradients come first
// (Li et al. 2020, "PyTorch Distributed", arXiv:2006.15704, section 3.2). The first bucket is small, so that the first
// all-reduce starts early.
#pragma once
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace weft::ddp {

struct Parameter {
  std::string name;
  Tensor tensor;
};

// Positions in the list of parameters, bucket by bucket. `order` is the order in which gradients are expected. Each
// dtype fills buckets of its own; buckets stand in the order in which their last gradient is expected.
std::vector<std::vector<size_t>> assign_buckets(const std::vector<Parameter>& parameters,
                                                const std::vector<size_t>& order, int64_t first_cap_bytes,
                                                int64_t cap_bytes);

}  // namespace weft::ddp
