// Cross entropy of logits with class indices, forward and backward in one pass each over the logits.
//
//   CrossEntropyOptions options{.classes = 100};
//   weft::cpu::loss_kernels.cross_entropy_forward(stream, f32, options, logits, targets, rows, loss, row_max, log_sum,
//                                                 row_weight);
//   // mean: sum(loss) / sum(row_weight); backward: scale = upstream / sum(row_weight), one for all rows
//
// The softmax is kept as two numbers a row, its maximum and log(sum(exp(x - maximum))), not as their sum: for logits
// near 1e8 the sum would swallow the logarithm.
//
// Devices also take logits and weights of bf16 and f16: what is one number a row (loss, row_max, log_sum, row_weight,
// scale) is f32 then. There a bad target surfaces at the next synchronisation; its row is treated as ignored.
#pragma once
#include <cstdint>

#include "kernels/base/dtype.h"
#include "kernels/base/stream.h"

namespace weft {

struct CrossEntropyOptions {
  int64_t classes = 0;
  const void* weight = nullptr;  // [classes], the logits' dtype; null: 1
  int64_t ignore_index = -100;   // rows with this target count for nothing, whatever their logits
  double label_smoothing = 0;    // in [0, 1]: the part of the target spread evenly over all classes
};

struct LossKernels {
  // logits [rows, classes] f32 or f64, targets [rows] i64. With target t, smoothing s, weights w:
  //   loss = (1 - s) · w[t] · (logsumexp(x) - x[t]) + s / classes · sum(w[c] · (logsumexp(x) - x[c]))
  // Writes loss, row_max, log_sum and row_weight = w[t], each [rows] in the logits' dtype; ignored rows get 0 in all.
  // A target that is neither a class nor ignore_index: an Error naming row and value, nothing is written.
  void (*cross_entropy_forward)(Stream stream, DType dtype, const CrossEntropyOptions& options, const void* logits,
                                const int64_t* targets, int64_t rows, void* loss, void* row_max, void* log_sum,
                                void* row_weight);
  // dlogits [rows, classes] = scale · d loss / d logits, with the scale of row r at scale[r · scale_stride] (stride 0:
  // one for all rows). Ignored rows get exactly 0, whatever the scale. dlogits may be logits.
  void (*cross_entropy_backward)(Stream stream, DType dtype, const CrossEntropyOptions& options, const void* logits,
                                 const int64_t* targets, int64_t rows, const void* row_max, const void* log_sum,
                                 const void* scale, int64_t scale_stride, void* dlogits);
};

namespace cpu {
extern const LossKernels loss_kernels;
}

}  // namespace weft
