// Reading and writing at positions given by a tensor of i64, and sorting.
//
//   index_kernels.check(stream, "gather", index, n, 0, classes);           // throws on one out of range
//   index_kernels.select(stream, 4, x, outer, size, inner, index, n, out);  // rows of a table
//
// Kernels trust their indices: call check first. Where positions repeat, writes happen in the order of the indices, on
// any number of threads.
#pragma once
#include <cstdint>

#include "kernels/base/dtype.h"
#include "kernels/base/layout.h"
#include "kernels/base/stream.h"

namespace weft {

struct IndexKernels {
  // Throws invalid_argument, naming op, the index and the range, unless low <= index[i] < high for all i. Waits for the
  // device, except while a graph is captured: then a replay reports it at the next synchronisation.
  void (*check)(Stream stream, const char* op, const int64_t* index, int64_t n, int64_t low, int64_t high);

  // out[…] = x[… + index[…] · x_step] for elements of 1, 2, 4 or 8 bytes. Operands of the layout: x (stride 0 in the
  // indexed dimension), index, out.
  void (*gather)(Stream stream, int64_t element_bytes, const Layout<3>& layout, const void* x, int64_t x_step,
                 const int64_t* index, void* out);
  // out[… + index[…] · out_step] = source[…]. Operands: source, index, out (stride 0 in the indexed dimension).
  void (*scatter)(Stream stream, int64_t element_bytes, const Layout<3>& layout, const void* source,
                  const int64_t* index, void* out, int64_t out_step);
  // The same with +=. f32, f64, i64; on devices also bf16 and f16, rounded after every addition.
  void (*scatter_add)(Stream stream, DType dtype, const Layout<3>& layout, const void* source, const int64_t* index,
                      void* out, int64_t out_step);

  // out[o, i, :] = x[o, index[i], :]; x: [outer, size, inner], out: [outer, n, inner], contiguous.
  void (*select)(Stream stream, int64_t element_bytes, const void* x, int64_t outer, int64_t size, int64_t inner,
                 const int64_t* index, int64_t n, void* out);
  // out[o, index[i], :] += alpha · source[o, i, :]; shapes as above. f32, f64, i64; on devices also
  // bf16 and f16, which are added up in f32 and rounded once.
  void (*add)(Stream stream, DType dtype, void* out, int64_t outer, int64_t size, int64_t inner, const int64_t* index,
              int64_t n, const void* source, double alpha);

  // The positions of `true` among n flags, in order, to out (room for as many as there are); returns how many there are.
  // `out` may be null to count. Waits for the device.
  int64_t (*nonzero)(Stream stream, const bool* flags, int64_t n, int64_t* out);

  // Each of `rows` contiguous rows of n: the first k in sorted order, equal elements in the order they had, NaN largest.
  // values, indices: [rows, k]. f32, f64, i64; on devices also bf16 and f16.
  void (*sort)(Stream stream, DType dtype, const void* x, int64_t rows, int64_t n, int64_t k, bool descending,
               void* values, int64_t* indices);
};

namespace cpu {
extern const IndexKernels index_kernels;
}

}  // namespace weft
