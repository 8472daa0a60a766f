// How exactly GPUs multiply f32 matrices.
//
//   set_allow_tf32(true);    // up to 8 times the speed on a GPU with tensor cores
//
// TF32 is the tensor cores' mode for f32 operands: they are rounded to 10 bits of mantissa (f32 has 23), products are
// added in f32. It holds for matrix products and convolutions on cuda and means nothing elsewhere. Off by default.
#pragma once

namespace weft {

// Of the process. The environment variable WEFT_ALLOW_TF32=1 sets the initial value.
bool allow_tf32() noexcept;
void set_allow_tf32(bool allow) noexcept;

}  // namespace weft
