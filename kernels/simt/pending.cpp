// The families that have no device kernels yet: the CPU's, as the memory is the CPU's too. Shrinks to nothing.
#include "kernels/device_table.h"

namespace weft::simt {

extern const AttentionKernels attention_kernels = cpu::attention_kernels;

}  // namespace weft::simt
