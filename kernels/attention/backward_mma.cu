// Attention, backward, in bf16 and f16 on tensor cores: see attention_device.h for the algorithm, mma_tile.h for the
// tiles.
//
// Both kernels keep what a block owns in shared memory, stream the other side through two buffers, and hand P and dS on
// in registers: in the second kernel the tile is transposed (rows are keys), so that Pᵀ and dSᵀ come out as the left
// operands of dV and dK.
//
//                 dimensions   rows × columns of a tile   registers a lane (sums + S + dP)   shared memory
//      queries        64              128 × 32                  64 + 32 + 32                     48 KiB
//                    128              128 × 32                 128 + 32 + 32                     96 KiB
//      keys           64              128 × 32              2 · 64 + 32 + 32                     48 KiB
//                    128               64 × 32              2 · 64 + 16 + 16                     64 KiB
//
// Two blocks a multiprocessor of sm_90 everywhere.
#include "kernels/attention/mma_tile.h"

namespace weft::WEFT_DEVICE {
namespace {

template <int row_tiles, int columns>
struct Tiling {
  static constexpr int kRowTiles = row_tiles;  // of a warp
  static constexpr int kRows = 16 * row_tiles * kMmaWarps;
  static constexpr int kColumns = columns;
};
template <int kDim>
using QueryTiling = Tiling<2, 32>;
template <int kDim>
using KeyTiling = Tiling<kDim <= 64 ? 2 : 1, 32>;

// Two tiles that stay, two times two that are streamed.
template <class T, int kDim, class Tiling>
constexpr size_t kSharedBytes = sizeof(T) * kDim*(2 * Tiling::kRows + 4 * Tiling::kColumns);

// Shared memory of a block: `own` of what it owns, `other` of what it streams.
template <class T, int kDim, class Tiling>
struct SharedTiles {
  using Tile = MmaTile<T, kDim>;
  T* memory;
  __device__ __forceinline__ T* own(int which) const { return memory + which * Tiling::kRows * kDim; }
  __device__ __forceinline__ T* other(int which, int buffer) const {
    return memory + (2 * Tiling::kRows + (2 * buffer + which) * Tiling::kColumns) * kDim;
  }
  // The tile's product of a pair (scores: 0; gradient of the probabilities: 1).
  __device__ __forceinline__ void multiply(float (&sums)[Tiling::kRowTiles][Tiling::kColumns / 8][4], int which,
                                           int buffer, int warp_row) const {
    Tile::template multiply_rows<Tiling::kRowTiles, Tiling::kColumns>(
        sums, other(which, buffer),
        [&](int step, uint32_t(&a)[Tiling::kRowTiles][4]) { Tile::load_left(a, own(which), warp_row, step); });
  }
};

template <class T, int kDim, bool kMask>
__global__ void __launch_bounds__(kMmaThreads, 2) query_gradient(BackwardProblem p) {
  using Sizes = QueryTiling<kDim>;
  using Tile = MmaTile<T, kDim>;
  constexpr int kRowTiles = Sizes::kRowTiles, kRows = Sizes::kRows, kColumns = Sizes::kColumns;
  WEFT_DYNAMIC_SHARED(T, memory);
  const SharedTiles<T, kDim, Sizes> shared{memory};
  const AttentionShape& shape = p.shape;
  const TilePlace place =
      tile_place(blockIdx.x, attention_tiles(shape.queries, kRows), shape.heads, kRows, shape.causal);
  const int64_t kv_head = place.head / (shape.heads / shape.kv_heads);
  const ScoreMask<T> mask(shape, place.batch, place.head);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16 * kRowTiles;

  const auto load_keys = [&](int64_t first, int buffer) {
    Tile::template load<kColumns>(shared.other(0, buffer), input_rows<T>(p.k, place.batch, kv_head, first, shape.keys,
                                                                         shape.head_dim, p.aligned));
    Tile::template load<kColumns>(shared.other(1, buffer), input_rows<T>(p.v, place.batch, kv_head, first, shape.keys,
                                                                         shape.value_dim, p.aligned));
    cp_async_commit();
  };
  Tile::template load<kRows>(shared.own(0), input_rows<T>(p.q, place.batch, place.head, place.first, shape.queries,
                                                          shape.head_dim, p.aligned));
  Tile::template load<kRows>(shared.own(1), input_rows<T>(p.grad_o, place.batch, place.head, place.first, shape.queries,
                                                          shape.value_dim, p.aligned));
  load_keys(0, 0);

  float logsumexp2[kRowTiles][2], delta[kRowTiles][2];
  const int64_t statistics =
      (place.batch * shape.heads + place.head) * p.padded_queries + place.first + warp_row + lane / 4;
  WEFT_UNROLL
  for (int r = 0; r < kRowTiles; ++r) {
    WEFT_UNROLL
    for (int half = 0; half < 2; ++half) {
      logsumexp2[r][half] = static_cast<const float*>(p.logsumexp2)[statistics + 16 * r + 8 * half];
      delta[r][half] = static_cast<const float*>(p.delta)[statistics + 16 * r + 8 * half];
    }
  }

  float dq[kRowTiles][kDim / 8][4] = {};
  const int64_t keys = visible_keys(shape, place.first + kRows);
  int buffer = 0;
  for (int64_t first = 0; first < keys; first += kColumns, buffer ^= 1) {
    cp_async_wait<0>();
    __syncthreads();  // the tile is there for everyone, and everyone is through with the one before
    if (first + kColumns < keys) load_keys(first + kColumns, buffer ^ 1);

    float scores[kRowTiles][kColumns / 8][4] = {}, gradient[kRowTiles][kColumns / 8][4] = {};
    shared.multiply(scores, 0, buffer, warp_row);
    const auto factor = static_cast<float>(p.scale2);
    for_each_value(scores, [&](int, int, float& score) { score *= factor; });
    mask_scores<false, kMask>(scores, mask, place.first + warp_row, first,
                              mask.cuts(place.first, first + kColumns - 1));
    shared.multiply(gradient, 1, buffer, warp_row);
    WEFT_UNROLL
    for (int r = 0; r < kRowTiles; ++r) {
      WEFT_UNROLL
      for (int n = 0; n < kColumns / 8; ++n) {
        WEFT_UNROLL
        for (int e = 0; e < 4; ++e)
          gradient[r][n][e] =
              fast_power_of_two(scores[r][n][e] - logsumexp2[r][e / 2]) * (gradient[r][n][e] - delta[r][e / 2]);
      }
    }
    uint32_t left[kColumns / 16][kRowTiles][4];
    as_left<T>(left, gradient);
    Tile::template multiply_columns<kRowTiles, kColumns>(dq, left, shared.other(0, buffer));
  }
  cp_async_wait<0>();  // of a block without keys
  __syncthreads();
  Tile::store(output_rows<T>(p.dq, place.batch, place.head, place.first, shape.queries, shape.head_dim, p.aligned),
              shared.own(0), warp_row, dq, static_cast<float>(shape.scale));
}

template <class T, int kDim, bool kMask>
__global__ void __launch_bounds__(kMmaThreads, 2) key_value_gradient(BackwardProblem p) {
  using Sizes = KeyTiling<kDim>;
  using Tile = MmaTile<T, kDim>;
  constexpr int kRowTiles = Sizes::kRowTiles, kRows = Sizes::kRows, kColumns = Sizes::kColumns;
  WEFT_DYNAMIC_SHARED(T, memory);
  const SharedTiles<T, kDim, Sizes> shared{memory};
  const AttentionShape& shape = p.shape;
  const TilePlace place = tile_place(blockIdx.x, attention_tiles(shape.keys, kRows), shape.kv_heads, kRows, false);
  const int64_t group = shape.heads / shape.kv_heads;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16 * kRowTiles;

  // One walk over the queries of all heads of the group.
  const int64_t begin = shape.causal ? place.first / kColumns * kColumns : 0;
  const int64_t tiles = begin < shape.queries ? attention_tiles(shape.queries - begin, kColumns) : 0;
  const auto load_queries = [&](int64_t head, int64_t first, int buffer) {
    Tile::template load<kColumns>(shared.other(0, buffer), input_rows<T>(p.q, place.batch, head, first, shape.queries,
                                                                         shape.head_dim, p.aligned));
    Tile::template load<kColumns>(shared.other(1, buffer), input_rows<T>(p.grad_o, place.batch, head, first,
                                                                         shape.queries, shape.value_dim, p.aligned));
    cp_async_commit();
  };
  Tile::template load<kRows>(
      shared.own(0), input_rows<T>(p.k, place.batch, place.head, place.first, shape.keys, shape.head_dim, p.aligned));
  Tile::template load<kRows>(
      shared.own(1), input_rows<T>(p.v, place.batch, place.head, place.first, shape.keys, shape.value_dim, p.aligned));
  int64_t head = place.head * group, first = begin;
  const int64_t end_head = head + group;
  if (tiles > 0) load_queries(head, first, 0);

  float dk[kRowTiles][kDim / 8][4] = {}, dv[kRowTiles][kDim / 8][4] = {};
  int buffer = 0;
  while (tiles > 0 && head < end_head) {
    int64_t next_head = head, next_first = first + kColumns;
    if (next_first >= shape.queries) {
      ++next_head;
      next_first = begin;
    }
    cp_async_wait<0>();
    __syncthreads();  // the tile is there for everyone, and everyone is through with the one before
    if (next_head < end_head) load_queries(next_head, next_first, buffer ^ 1);

    float scores[kRowTiles][kColumns / 8][4] = {}, gradient[kRowTiles][kColumns / 8][4] = {};
    shared.multiply(scores, 0, buffer, warp_row);
    const auto factor = static_cast<float>(p.scale2);
    const ScoreMask<T> mask(shape, place.batch, head);
    for_each_value(scores, [&](int, int, float& score) { score *= factor; });
    mask_scores<true, kMask>(scores, mask, place.first + warp_row, first, mask.cuts(first, place.first + kRows - 1));
    const int64_t statistics = (place.batch * shape.heads + head) * p.padded_queries + first + lane % 4 * 2;
    const float* const logsumexp2 = static_cast<const float*>(p.logsumexp2) + statistics;
    WEFT_UNROLL
    for (int n = 0; n < kColumns / 8; ++n) {
      const Pack<float, 2> shift = load_pack<2>(logsumexp2 + 8 * n);
      WEFT_UNROLL
      for (int r = 0; r < kRowTiles; ++r) {
        WEFT_UNROLL
        for (int e = 0; e < 4; ++e) scores[r][n][e] = fast_power_of_two(scores[r][n][e] - shift[e % 2]);
      }
    }
    uint32_t left[kColumns / 16][kRowTiles][4];
    as_left<T>(left, scores);
    Tile::template multiply_columns<kRowTiles, kColumns>(dv, left, shared.other(1, buffer));

    shared.multiply(gradient, 1, buffer, warp_row);
    const float* const delta = static_cast<const float*>(p.delta) + statistics;
    WEFT_UNROLL
    for (int n = 0; n < kColumns / 8; ++n) {
      const Pack<float, 2> shift = load_pack<2>(delta + 8 * n);
      WEFT_UNROLL
      for (int r = 0; r < kRowTiles; ++r) {
        WEFT_UNROLL
        for (int e = 0; e < 4; ++e) gradient[r][n][e] = scores[r][n][e] * (gradient[r][n][e] - shift[e % 2]);
      }
    }
    as_left<T>(left, gradient);
    Tile::template multiply_columns<kRowTiles, kColumns>(dk, left, shared.other(0, buffer));
    head = next_head;
    first = next_first;
    buffer ^= 1;
  }
  cp_async_wait<0>();  // of a block that no query sees
  __syncthreads();
  Tile::store(output_rows<T>(p.dk, place.batch, place.head, place.first, shape.keys, shape.head_dim, p.aligned),
              shared.own(0), warp_row, dk, static_cast<float>(shape.scale));
  Tile::store(output_rows<T>(p.dv, place.batch, place.head, place.first, shape.keys, shape.value_dim, p.aligned),
              shared.own(1), warp_row, dv, 1.0f);
}

}  // namespace

void attention_backward_mma(Stream stream, DType dtype, const BackwardProblem& problem) {
  const AttentionShape& shape = problem.shape;
  visit_mma(dtype, shape, [&](auto type, auto dim, auto has_mask) {
    using T = typename decltype(type)::type;
    using Queries = QueryTiling<dim>;
    using Keys = KeyTiling<dim>;
    const int64_t query_blocks = shape.batch * shape.heads * attention_tiles(shape.queries, Queries::kRows);
    if (query_blocks > 0)
      launch(query_gradient<T, dim, has_mask>, dim3(static_cast<unsigned>(query_blocks)), dim3(kMmaThreads),
             kSharedBytes<T, dim, Queries>, stream, problem);
    const int64_t key_blocks = shape.batch * shape.kv_heads * attention_tiles(shape.keys, Keys::kRows);
    if (key_blocks > 0)
      launch(key_value_gradient<T, dim, has_mask>, dim3(static_cast<unsigned>(key_blocks)), dim3(kMmaThreads),
             kSharedBytes<T, dim, Keys>, stream, problem);
  });
}

}  // namespace weft::WEFT_DEVICE
