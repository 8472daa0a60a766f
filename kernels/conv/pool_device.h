// The pooling kernels of a device (pool.cu), for the table of conv.h. dtypes f64, f32, f16 and bf16, the last two with
// sums in f32. Gradients are gathered: a thread makes one element of grad_input, adding its windows in their order.
#pragma once
#include "kernels/conv/conv.h"

namespace weft::WEFT_DEVICE {

void max_pool2d_forward(Stream stream, DType dtype, const Pool2dShape& shape, const void* input, void* output,
                        int64_t* indices);
void max_pool2d_backward(Stream stream, DType dtype, const Pool2dShape& shape, const void* grad_output,
                         const int64_t* indices, void* grad_input);
void avg_pool2d_forward(Stream stream, DType dtype, const Pool2dShape& shape, const void* input, void* output);
void avg_pool2d_backward(Stream stream, DType dtype, const Pool2dShape& shape, const void* grad_output,
                         void* grad_input);

}  // namespace weft::WEFT_DEVICE
