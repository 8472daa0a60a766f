// Reductions over any set of dimensions, and running sums along one.
//
//   ReduceLayout layout;                       // bias gradient: the sum over the rows of a contiguous [2048, 384]
//   layout.reduce(2048, 384);
//   layout.keep(384, 1);
//   weft::cpu::reduce_kernels.reduce(stream, Reduction::sum, f32, x, layout, out);   // out: 384 values
//
// Nothing is copied or transposed: a kernel walks contiguous runs where the innermost reduced dimension is contiguous,
// and whole rows at once where the innermost kept one is. The result depends on sizes and strides, never on the number
// of threads.
//
// Accuracy. f32 sums run in f32 over blocks of at most 32 additions a lane, and the blocks are added in f64: the error is
// at most 40 · 2^-24 · sum|x| whatever the length. Norms, products, variances and running sums of f32 accumulate in f64
// throughout. i64 wraps around. Devices also take bf16 and f16 wherever f32 is named (out has the dtype of x), and
// accumulate all floats in f64: an f32 sum is off by half a unit in the last place plus n · 2^-53 · sum|x|.
#pragma once
#include <cstdint>

#include "kernels/base/dtype.h"
#include "kernels/base/stream.h"

namespace weft {

// Which dimensions of an input stay and which go, outermost first, strides in elements. Outputs are contiguous in the
// order of the kept dimensions; "the index" of a reduced element is its row-major number among the reduced dimensions.
struct ReduceLayout {
  static constexpr int kMaxDims = 8;
  struct Dims {
    int count = 0;
    int64_t sizes[kMaxDims] = {};
    int64_t strides[kMaxDims] = {};

    // Adds a dimension inside the present ones; joined with its neighbour where memory allows.
    void push(int64_t size, int64_t stride) {
      if (size == 1) return;
      if (count > 0 && strides[count - 1] == size * stride) {
        sizes[count - 1] *= size;
        strides[count - 1] = stride;
        return;
      }
      sizes[count] = size;
      strides[count++] = stride;
    }
    int64_t numel() const {
      int64_t total = 1;
      for (int d = 0; d < count; ++d) total *= sizes[d];
      return total;
    }
  };

  void keep(int64_t size, int64_t stride) { kept.push(size, stride); }
  void reduce(int64_t size, int64_t stride) { reduced.push(size, stride); }

  Dims kept;
  Dims reduced;
};

enum class Reduction { sum, mean, prod, max, min };
enum class Scan { sum, prod };

struct ReduceKernels {
  // out[k] = reduction of x over the reduced elements of k. dtype: f32, f64, i64 (not mean), bool (max: any, min: all);
  // out has the same. Over no elements: 0, NaN, 1, the lowest and the highest value. NaN wins in max and min.
  void (*reduce)(Stream stream, Reduction op, DType dtype, const void* x, const ReduceLayout& layout, void* out);
  // The largest (smallest) value and the index of its first occurrence; the first NaN counts as largest and smallest.
  // `values` may be null. dtype: f32, f64, i64. At least one reduced element.
  void (*arg_reduce)(Stream stream, bool largest, DType dtype, const void* x, const ReduceLayout& layout, void* values,
                     int64_t* indices);
  // log(sum(exp(x))), shifted by the maximum. f32, f64. Over no elements, or none but -inf: -inf.
  void (*logsumexp)(Stream stream, DType dtype, const void* x, const ReduceLayout& layout, void* out);
  // (sum |x|^p)^(1/p); p = 0 counts what is not 0; p = ±inf: the largest and smallest |x|. f32, f64.
  void (*norm)(Stream stream, DType dtype, const void* x, const ReduceLayout& layout, double p, void* out);
  // sum((x - mean)^2) / max(0, n - correction), by blocks merged as in Chan, Golub & LeVeque 1983, "Algorithms for
  // computing the sample variance". f32, f64.
  void (*variance)(Stream stream, DType dtype, const void* x, const ReduceLayout& layout, double correction, void* out);
  // out[o, i, n] = x[o, 0, n] + … + x[o, i, n] (or the product) over contiguous [outer, size, inner]. f32, f64, i64. out
  // may be x.
  void (*scan)(Stream stream, Scan op, DType dtype, const void* x, void* out, int64_t outer, int64_t size,
               int64_t inner);
};

namespace cpu {
extern const ReduceKernels reduce_kernels;
}

}  // namespace weft
