// Attention, forward, without tensor cores: see attention_device.h for the algorithm, plain_tile.h for the tiles.
#include "kernels/attention/plain_tile.h"

namespace weft::WEFT_DEVICE {
namespace {

// Over the 16 threads that share rows.
template <class C>
__device__ __forceinline__ C row_max(C value) {
  WEFT_UNROLL
  for (int lanes = 8; lanes > 0; lanes /= 2) value = larger(value, __shfl_xor_sync(0xffffffffu, value, lanes));
  return value;
}
template <class C>
__device__ __forceinline__ C row_sum(C value) {
  WEFT_UNROLL
  for (int lanes = 8; lanes > 0; lanes /= 2) value += __shfl_xor_sync(0xffffffffu, value, lanes);
  return value;
}

template <class T, int kTiles>
__global__ void __launch_bounds__(PlainTile<T>::kThreads) forward_kernel(ForwardProblem p, int64_t column_count) {
  using Tile = PlainTile<T>;
  using C = typename Tile::C;
  constexpr int size = Tile::kSize;
  WEFT_DYNAMIC_SHARED(C, shared);
  const Tile tile(shared);
  const AttentionShape& shape = p.shape;
  const TilePlace place =
      tile_place(blockIdx.x / column_count, attention_tiles(shape.queries, size), shape.heads, size, shape.causal);
  const int column = static_cast<int>(blockIdx.x % column_count) * size * kTiles;
  const int64_t kv_head = place.head / (shape.heads / shape.kv_heads);
  const ScoreMask<T> mask(shape, place.batch, place.head);
  const auto q = input_rows<T>(p.q, place.batch, place.head, place.first, shape.queries, shape.head_dim, p.aligned);

  C sums[4][4 * kTiles] = {}, largest[4], total[4] = {};
  for (C& m : largest) m = kNegativeInfinity<C>;
  const int64_t keys = visible_keys(shape, place.first + size);
  for (int64_t first = 0; first < keys; first += size) {
    const auto k = input_rows<T>(p.k, place.batch, kv_head, first, shape.keys, shape.head_dim, p.aligned);
    const auto v = input_rows<T>(p.v, place.batch, kv_head, first, shape.keys, shape.value_dim, p.aligned);
    C scores[4][4] = {};
    tile.multiply_rows(scores, q, k);
    const bool masked = mask.has_data() || mask.cuts(place.first, first + size - 1);
    WEFT_UNROLL
    for (int i = 0; i < 4; ++i) {
      C tile_max = kNegativeInfinity<C>;
      WEFT_UNROLL
      for (int j = 0; j < 4; ++j) {
        C& score = scores[i][j];
        score *= static_cast<C>(p.scale2);
        if (masked) score = mask(score, place.first + 4 * tile.y + i, first + 4 * tile.x + j);
        tile_max = larger(tile_max, score);
      }
      const C new_max = larger(largest[i], row_max(tile_max));
      const C shift = new_max == kNegativeInfinity<C> ? C(0) : new_max;  // nothing seen so far
      const C factor = power_of_two(largest[i] - shift);
      largest[i] = new_max;
      total[i] *= factor;
      WEFT_UNROLL
      for (int j = 0; j < 4; ++j) total[i] += scores[i][j] = power_of_two(scores[i][j] - shift);
      WEFT_UNROLL
      for (C& sum : sums[i]) sum *= factor;
    }
    tile.keep(scores);
    tile.template multiply_columns<kTiles>(sums, v, column);
  }

  C* const logsumexp = static_cast<C*>(p.logsumexp) + (place.batch * shape.heads + place.head) * shape.queries;
  WEFT_UNROLL
  for (int i = 0; i < 4; ++i) {
    total[i] = row_sum(total[i]);
    const C factor = total[i] == C(0) ? C(0) : C(1) / total[i];
    WEFT_UNROLL
    for (C& sum : sums[i]) sum *= factor;
    const int64_t query = place.first + 4 * tile.y + i;
    if (column == 0 && tile.x == 0 && query < shape.queries)
      logsumexp[query] =
          total[i] == C(0) ? kNegativeInfinity<C> : static_cast<C>(kLn2) * (largest[i] + logarithm2(total[i]));
  }
  tile.template store<kTiles>(
      output_rows<T>(p.o, place.batch, place.head, place.first, shape.queries, shape.value_dim, p.aligned), column,
      sums, C(1));
}

}  // namespace

void attention_forward_plain(Stream stream, DType dtype, const ForwardProblem& problem) {
  const AttentionShape& shape = problem.shape;
  visit_plain(dtype, shape.value_dim, [&](auto type, auto tiles) {
    using Tile = PlainTile<typename decltype(type)::type>;
    const int64_t columns = column_blocks(shape.value_dim, tiles);
    const int64_t blocks = shape.batch * shape.heads * attention_tiles(shape.queries, Tile::kSize) * columns;
    launch(forward_kernel<typename decltype(type)::type, tiles>, dim3(static_cast<unsigned>(blocks)),
           dim3(Tile::kThreads), Tile::kSharedBytes, stream, problem, columns);
  });
}

}  // namespace weft::WEFT_DEVICE
