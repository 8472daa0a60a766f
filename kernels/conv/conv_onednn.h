// f32 convolution on oneDNN; every size of the shape is at least 1.
#pragma once
#include "kernels/conv/conv.h"

namespace weft::cpu::conv_onednn {

void forward(const Conv2dShape& shape, const float* input, const float* weight, const float* bias, float* output);
void backward_input(const Conv2dShape& shape, const float* grad_output, const float* weight, float* grad_input);
void backward_weight(const Conv2dShape& shape, const float* input, const float* grad_output, float* grad_weight,
                     float* grad_bias);

}  // namespace weft::cpu::conv_onednn
