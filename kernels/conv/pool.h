// The pooling kernels of conv.h's table.
#pragma once
#include "kernels/conv/conv.h"

namespace weft::cpu {

void max_pool2d_forward(Stream stream, DType dtype, const Pool2dShape& shape, const void* input, void* output,
                        int64_t* indices);
void max_pool2d_backward(Stream stream, DType dtype, const Pool2dShape& shape, const void* grad_output,
                         const int64_t* indices, void* grad_input);
void avg_pool2d_forward(Stream stream, DType dtype, const Pool2dShape& shape, const void* input, void* output);
void avg_pool2d_backward(Stream stream, DType dtype, const Pool2dShape& shape, const void* grad_output,
                         void* grad_input);

}  // namespace weft::cpu
