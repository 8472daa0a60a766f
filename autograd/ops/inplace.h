// In-place operations, and their rules.
//
//   x.add_(y);        // methods of Tensor, see tensor/tensor.h
//
// Every in-place operation bumps the version of the storage, so that backward notices when it would use changed values.
// While gradients are recorded and matter:
//   - a leaf that requires a gradient cannot be written: wrap the update in NoGrad;
//   - a tensor that is a view, or has views, cannot be written: the history of the others would be wrong.
// Both are a weft::Error that says what to do.
#pragma once
#include "tensor/tensor.h"

namespace weft::detail {

// Checks the rules for writing `target` with values made from `sources`; true when the write has to be recorded.
bool begin_in_place(const char* op, const Tensor& target, const std::vector<Tensor>& sources);

}  // namespace weft::detail
