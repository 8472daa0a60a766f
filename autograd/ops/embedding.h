// Looking up rows of a table.
#pragma once
#include "tensor/tensor.h"

namespace weft {

// weight [count, dim], indices [..] of i64 or i32 → [.., dim]. The row `padding_index` (-1: none) gets no gradient. An
// index outside the table is an error naming its position.
Tensor embedding(const Tensor& weight, const Tensor& indices, int64_t padding_index = -1);

}  // namespace weft
