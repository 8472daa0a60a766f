// Einstein summation: sums of products of tensors, named by letters.
//
//   einsum("ij,jk->ik", {a, b});              // a product of matrices
//   einsum("...ii->...i", {a});               // diagonals
//   einsum("bhid,bhjd->bhij", {q, k});        // scores of attention
#pragma once
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace weft {

// The rules of torch.einsum. Each operand has a letter (a-z, A-Z) for each dimension, and may have an ellipsis for the
// dimensions that are left; spaces count for nothing. A letter twice in one operand takes the diagonal. Sizes of one
// letter are equal, or 1, which broadcasts; so do the dimensions of ellipses, which are matched from the last one on.
// What does not stand behind "->" is summed over; without "->" the result has the ellipsis and, in alphabetical order,
// capitals first, the letters that occur once.
//
// Operands are of one dtype and device. They are contracted two at a time, each time the two whose product grows least
// over what they replace, as matrix products (integers: as products and sums). Any number of operands; at most eight
// dimensions at a time. Without a sum the result may be a view.
Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands);

}  // namespace weft
