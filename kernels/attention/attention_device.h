// Attention on a device: what the two engines share. This header also teaches the algorithm.
//
// FlashAttention-2 (Dao 2023, arXiv:2307.08691). A block of threads owns a tile of queries and walks over the keys; the
// [queries, keys] matrix exists only as one tile at a time:
//
//                      keys ──▶  tile 0   tile 1   tile 2
//                             ┌────────┬────────┬ ─ ─ ─ ─     for each tile of keys
//      block 0   Q tile 0     │ S = QKᵀ│ S      │ S             m' = max(m, rowmax S)
//                             ├────────┼────────┼ ─ ─ ─ ─       P  = 2^(S − m')
//      block 1   Q tile 1     │        │        │               l  = l · 2^(m − m') + rowsum P
//                             └────────┴────────┴ ─ ─ ─ ─       O  = O · 2^(m − m') + P V
//                                                             at the end  O / l,  logsumexp = ln 2 · (m + log₂ l)
//
// Scores are kept in base 2 (scale · log₂ e is one factor), as 2^x is an instruction and e^x is not. A causal block
// stops at its last query; the longest blocks start first.
//
// The backward pass computes P again, P = 2^(S − log₂ e · logsumexp), and with delta = rowsum(dO ∘ O):
//
//      dP = dO Vᵀ        dS = P ∘ (dP − delta)
//      dV = Pᵀ dO        dK = scale · dSᵀ Q          dQ = scale · dS K
//
//   one kernel: a block owns queries, walks along its row of tiles, sums dQ           ───▶
//   another:    a block owns keys, walks down its column of tiles, sums dK and dV       │
//               (and over the query heads that share the keys, in ascending order)      ▼
//
// Every sum has one owner and one order: no atomics, and the same bits in every run. The price is S and dP twice: seven
// tile products where a single kernel with atomics has five.
//
// Two engines. forward_mma.cu and backward_mma.cu: bf16 and f16 up to 128 dimensions, on tensor cores (mma_tile.h).
// forward_plain.cu and backward_plain.cu: f32, f64 and everything else, on ordinary arithmetic (plain_tile.h).
#pragma once
#include <limits>

#include "kernels/attention/attention.h"
#include "kernels/simt/row.h"
#include "kernels/simt/simt.h"

namespace weft::WEFT_DEVICE {

inline constexpr double kLog2E = 1.4426950408889634074;
inline constexpr double kLn2 = 0.69314718055994530942;

struct ForwardProblem {
  AttentionShape shape;
  AttentionInput q, k, v;
  AttentionOutput o;
  void* logsumexp;
  double scale2;  // scale · log₂ e
  bool aligned;   // every vector begins at a multiple of 16 bytes and has a multiple of 16 bytes
};

// Statistics a query, [batch, heads, padded_queries] in the type of computation. The padding has logsumexp2 = +inf and
// delta = 0: its probabilities and gradients are zero without a test.
struct BackwardProblem {
  AttentionShape shape;
  AttentionInput q, k, v, grad_o;
  AttentionOutput dq, dk, dv;
  const void* logsumexp2;  // log₂ e · logsumexp; +inf for a query that sees nothing
  const void* delta;       // rowsum(dO ∘ O)
  int64_t padded_queries;  // a multiple of kQueryPadding
  double scale2;
  bool aligned;
};
inline constexpr int kQueryPadding = 128;

// The widest vectors of the tensor-core engine.
inline constexpr int kLargestMmaDim = 128;

void attention_forward_plain(Stream stream, DType dtype, const ForwardProblem& problem);
void attention_forward_mma(Stream stream, DType dtype, const ForwardProblem& problem);
void attention_backward_plain(Stream stream, DType dtype, const BackwardProblem& problem);
void attention_backward_mma(Stream stream, DType dtype, const BackwardProblem& problem);

__host__ __device__ __forceinline__ int64_t attention_tiles(int64_t length, int64_t tile) {
  return (length + tile - 1) / tile;
}

// Which tile of which head a block of a one-dimensional grid works on; neighbours share keys and values.
struct TilePlace {
  int64_t batch, head;
  int64_t first;  // row of the tile's first row
};
__device__ __forceinline__ TilePlace tile_place(int64_t block, int64_t tiles, int64_t heads, int tile_rows,
                                                bool last_first) {
  const int64_t tile = block % tiles, item = block / tiles;
  return {item / heads, item % heads, (last_first ? tiles - 1 - tile : tile) * tile_rows};
}

// Rows of one head from one row on: `count` of them are in the tensor, `dim` elements each. What is outside is zero.
template <class T>
struct InputRows {
  const T* data;
  int64_t stride;
  int64_t count;
  int dim;
  bool aligned;

  template <int n>
  __device__ __forceinline__ Pack<T, n> load(int row, int column) const {
    Pack<T, n> items;
    if (aligned && row < count && column + n <= dim) return load_pack<n>(data + row * stride + column);
    WEFT_UNROLL
    for (int e = 0; e < n; ++e) items[e] = row < count && column + e < dim ? data[row * stride + column + e] : T{};
    return items;
  }
};
template <class T>
__device__ __forceinline__ InputRows<T> input_rows(const AttentionInput& x, int64_t batch, int64_t head, int64_t first,
                                                   int64_t length, int64_t dim, bool aligned) {
  return {static_cast<const T*>(x.data) + batch * x.batch_stride + head * x.head_stride + first * x.time_stride,
          x.time_stride, length - first, static_cast<int>(dim), aligned};
}

template <class T>
struct OutputRows {
  T* data;
  int64_t stride;
  int64_t count;
  int dim;
  bool aligned;

  template <int n>
  __device__ __forceinline__ void store(int row, int column, const Pack<T, n>& items) const {
    if (row >= count || column >= dim) return;
    T* to = data + row * stride + column;
    if (aligned && column + n <= dim) {
      store_pack(to, items);
      return;
    }
    WEFT_UNROLL
    for (int e = 0; e < n; ++e)
      if (column + e < dim) to[e] = items[e];
  }
};
template <class T>
__device__ __forceinline__ OutputRows<T> output_rows(const AttentionOutput& x, int64_t batch, int64_t head,
                                                     int64_t first, int64_t length, int64_t dim, bool aligned) {
  return {static_cast<T*>(x.data) + batch * x.batch_stride + head * x.head_stride + first * x.time_stride,
          x.time_stride, length - first, static_cast<int>(dim), aligned};
}

// What visibility and mask make of a score (in base 2). Of the mask nothing outside [queries, keys] is read.
template <class T>
struct ScoreMask {
  using C = ComputeType<T>;
  const AttentionShape& shape;
  int64_t offset;  // of the head's mask

  __device__ __forceinline__ ScoreMask(const AttentionShape& of, int64_t batch, int64_t head)
      : shape(of), offset(batch * of.mask.batch_stride + head * of.mask.head_stride) {}

  // A query sees so many of the keys from `first_key` on.
  __device__ __forceinline__ int visible(int64_t query, int64_t first_key) const {
    const int64_t end = shape.causal && query + 1 < shape.keys ? query + 1 : shape.keys;
    return static_cast<int>(end - first_key);
  }
  // So many of the queries from `first_query` on do not see a key.
  __device__ __forceinline__ int invisible(int64_t key, int64_t first_query) const {
    const int64_t begin = key >= shape.keys ? first_query + 65536 : shape.causal ? key : 0;
    return static_cast<int>(begin - first_query);
  }
  __device__ __forceinline__ C add(C score, int64_t query, int64_t key) const {
    if (query >= shape.queries || key >= shape.keys) return score;
    const AttentionMask& mask = shape.mask;
    const int64_t at = offset + query * mask.query_stride + key * mask.key_stride;
    if (mask.dtype == DType::boolean) return static_cast<const bool*>(mask.data)[at] ? score : kNegativeInfinity<C>;
    return score + static_cast<C>(kLog2E) * widen(static_cast<const T*>(mask.data)[at]);
  }

  // Both at once, for one score.
  __device__ __forceinline__ C operator()(C score, int64_t query, int64_t key) const {
    if (key >= shape.keys || (shape.causal && key > query)) return kNegativeInfinity<C>;
    return has_data() ? add(score, query, key) : score;
  }

  __device__ __forceinline__ bool has_data() const { return shape.mask.data != nullptr; }
  // Whether some query of a tile does not see some key of it.
  __device__ __forceinline__ bool cuts(int64_t first_query, int64_t last_key) const {
    return last_key >= shape.keys || (shape.causal && last_key > first_query);
  }
};

// The keys that some query before `end` sees.
__device__ __forceinline__ int64_t visible_keys(const AttentionShape& shape, int64_t end) {
  return shape.causal && end < shape.keys ? end : shape.keys;
}

__device__ __forceinline__ double power_of_two(double x) { return exp2(x); }
__device__ __forceinline__ float power_of_two(float x) { return exp2f(x); }
__device__ __forceinline__ float logarithm2(float x) { return log2f(x); }
__device__ __forceinline__ double logarithm2(double x) { return log2(x); }

}  // namespace weft::WEFT_DEVICE
