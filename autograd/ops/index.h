// Choosing, placing, joining and ordering elements: PyTorch's names and meanings.
//
//   Tensor picked = gather(log_probs, 1, target.unsqueeze(1));
//   Tensor rows = index(x, {ids});                 // x[ids]
//   Tensor both = cat({a, b}, 1);
//
// Indices are i64 or i32 tensors. One out of range is an error that names the op, the index and the size; negative
// indices are an error, too, except in index(), index_put() and index_fill(). All ops that pass values on are differentiable any number of times.
// Where positions repeat, writes and sums happen in the order of the indices.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "autograd/ops/reduce.h"
#include "tensor/tensor.h"

namespace weft {

// --- by index (index.cpp) ---------------------------------------------------------------------------------------

// result[i][j] = x[index[i][j]][j] for dim 0. `index` has as many dimensions as x and the result's shape, and is no
// larger than x in the others.
Tensor gather(const Tensor& x, int64_t dim, const Tensor& index);
// The same where x and index broadcast in all dimensions but `dim`; without one, both flattened.
Tensor take_along_dim(const Tensor& x, const Tensor& index, int64_t dim);
Tensor take_along_dim(const Tensor& x, const Tensor& index);
// The slices index[0], index[1], … of dimension `dim`. index: one dimension or none.
Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index);
// A copy of x where slice index[i] has alpha · slice i of source added to it.
Tensor index_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source, double alpha = 1);
// x where `mask` (bool, broadcast to x) is false, else `value`.
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);
// The elements of x where `mask` is true, both broadcast; one dimension.
Tensor masked_select(const Tensor& x, const Tensor& mask);
// [count, dims]: the positions of what is not 0, in row-major order.
Tensor nonzero(const Tensor& x);
// i64 [..., num_classes] with a 1 at each index; -1: one more than the largest index.
Tensor one_hot(const Tensor& index, int64_t num_classes = -1);
// How often each number from 0 on occurs. x: whole numbers >= 0, one dimension.
Tensor bincount(const Tensor& x);

// --- written at positions (scatter.cpp) -------------------------------------------------------------------------

// A copy of x with result[index[i][j]][j] = source[i][j] for dim 0 (the last one counts), or += for scatter_add. `index`
// is no larger than source, and than x in the other dimensions.
Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source);
Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, double value);
Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source);
// A copy of x where each place holds the "sum", "prod", "mean", "amax" or "amin" of what scatter would write there, and of
// x's own element with include_self; places that nothing is written to keep x's. Half-precision numbers are combined in
// f32; a mean of whole numbers is rounded down. NaN wins in amax and amin, and equal extremes share the gradient evenly.
// amax and amin sort along `dim`, prod makes log2(n) passes over source.
Tensor scatter_reduce(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source,
                      const std::string& reduce, bool include_self = true);
// A copy of x where slice index[i] of `dim` is slice i of source (the last one counts). index: one dimension or none.
Tensor index_copy(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source);
// A copy of x whose slices `index` hold `value`, a number or a tensor without dimensions; negative indices count from
// the end.
Tensor index_fill(const Tensor& x, int64_t dim, const Tensor& index, double value);
Tensor index_fill(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& value);
// x where `mask` is false, else the next element of source, which has at least as many as the mask has places; x and the
// mask broadcast.
Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source);

// --- several indices at once (index_put.cpp) --------------------------------------------------------------------

// x[i0, i1, …] with broadcasting; an undefined tensor stands for ":", a bool tensor for the positions where it is true.
// The common shape of the indices takes the place of the first if they stand together, else it comes first.
Tensor index(const Tensor& x, const std::vector<Tensor>& indices);
// A copy of x where x[i0, i1, …] is `values`, which broadcast to the shape that index() would give. Where positions
// repeat the last one counts; with accumulate all are added to what x has.
Tensor index_put(const Tensor& x, const std::vector<Tensor>& indices, const Tensor& values, bool accumulate = false);

// --- joining and moving (arrange.cpp) ---------------------------------------------------------------------------

// Along an existing dimension; the dtypes are promoted, and one-dimensional tensors of size 0 are left out.
Tensor cat(const std::vector<Tensor>& tensors, int64_t dim = 0);
// Along a new one.
Tensor stack(const std::vector<Tensor>& tensors, int64_t dim = 0);
// Views of `size` slices each (the last may be smaller), or of these sizes.
std::vector<Tensor> split(const Tensor& x, int64_t size, int64_t dim = 0);
std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t dim = 0);
// At most `chunks` views of equal size.
std::vector<Tensor> chunk(const Tensor& x, int64_t chunks, int64_t dim = 0);
std::vector<Tensor> unbind(const Tensor& x, int64_t dim = 0);
Tensor flip(const Tensor& x, const Shape& dims);
// Elements move `shifts` places on, around the end; without dims over the flattened tensor.
Tensor roll(const Tensor& x, const Shape& shifts, const Shape& dims = {});
// x where column - row <= diagonal (tril) or >= diagonal (triu) of the last two dimensions, else 0.
Tensor tril(const Tensor& x, int64_t diagonal = 0);
Tensor triu(const Tensor& x, int64_t diagonal = 0);
// `padding` is (before, after) of the last dimension, then of the one before it, …; negative amounts cut off. mode:
// "constant", "reflect" (without the edge; amounts below the size) or "replicate".
Tensor pad(const Tensor& x, const std::vector<int64_t>& padding, const std::string& mode = "constant",
           double value = 0);
// The tensor repeats[d] times along dimension d; more repeats than dimensions add new ones in front.
Tensor repeat(const Tensor& x, const Shape& repeats);
// Each slice `repeats` times, or slice i repeats[i] times.
Tensor repeat_interleave(const Tensor& x, int64_t repeats, int64_t dim);
Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, int64_t dim);
// All windows of `size` slices, `step` apart; they become the last dimension.
Tensor unfold(const Tensor& x, int64_t dim, int64_t size, int64_t step);
// Coordinates of a grid: result k varies along dimension k ("ij" order).
std::vector<Tensor> meshgrid(const std::vector<Tensor>& axes);
// NaN and infinities replaced; by default by 0 and the largest finite values of the dtype.
Tensor nan_to_num(const Tensor& x, double nan = 0, std::optional<double> positive_infinity = {},
                  std::optional<double> negative_infinity = {});

// --- order (sort.cpp) -------------------------------------------------------------------------------------------

// Stable; NaN counts as the largest.
ValuesAndIndices sort(const Tensor& x, int64_t dim = -1, bool descending = false);
Tensor argsort(const Tensor& x, int64_t dim = -1, bool descending = false);
// The k largest (smallest) along `dim`, best first.
ValuesAndIndices topk(const Tensor& x, int64_t k, int64_t dim = -1, bool largest = true);

struct Unique {
  Tensor values;   // rising
  Tensor inverse;  // for each element of x its position in `values`
  Tensor counts;
};
Unique unique(const Tensor& x);

}  // namespace weft
