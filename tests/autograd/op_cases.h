// The parts of the table of operations; op_cases.cpp joins them.
#pragma once
#include "tests/support/op_case.h"

namespace weft::testing {

std::vector<OpCase> pointwise_cases();  // op_cases.cpp, from kernels/pointwise/pointwise.def
std::vector<OpCase> reduce_cases();     // op_cases_reduce.cpp
std::vector<OpCase> view_cases();       // op_cases_view.cpp: views, casts, in-place
std::vector<OpCase> index_cases();      // op_cases_index.cpp: by index, joining, order
std::vector<OpCase> layer_cases();      // op_cases_layers.cpp: products, norms, attention
std::vector<OpCase> image_cases();      // op_cases_images.cpp: convolution, pooling, resizing
std::vector<OpCase> loss_cases();       // op_cases_loss.cpp
std::vector<OpCase> sequence_cases();   // op_cases_sequence.cpp: rope, projected attention, recurrent networks

}  // namespace weft::testing
